"""SQLite index of all runs; it can be rebuilt from the run folders."""
