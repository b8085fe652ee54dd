"""Running of runs: their life cycle, their supervisor, and the Trainer API for scripts and user interfaces."""
