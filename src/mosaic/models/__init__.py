"""Policy networks: architectures, compiled and torch implementations, and weight files."""
