"""Worker for RLlib on Ray: unmodified algorithms with Mosaic's environments, policies, metrics and checkpoints."""
