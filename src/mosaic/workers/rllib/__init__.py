"""RLlib on Ray as a worker: unmodified algorithms around our own environments, policies, metrics and checkpoints."""
