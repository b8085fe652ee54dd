"""Commands, in one module per subject."""
