"""Training loops of tabular learners."""
