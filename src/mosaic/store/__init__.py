"""Data at rest: run folders, checkpoints, the index, archives."""
