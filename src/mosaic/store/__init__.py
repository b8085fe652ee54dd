"""Storage of runs: run folders, checkpoints, the index, archives."""
