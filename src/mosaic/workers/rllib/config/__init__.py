"""RLlib configuration built from a run's configuration."""
