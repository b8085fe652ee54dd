"""Charts in characters."""
