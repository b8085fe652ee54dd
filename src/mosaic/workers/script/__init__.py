"""Worker for training scripts of any kind."""
