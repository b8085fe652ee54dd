"""Worker for tabular learners."""
