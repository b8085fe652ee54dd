"""Small environments for tests and probes."""
