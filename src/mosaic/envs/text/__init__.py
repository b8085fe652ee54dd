"""Text views of observations."""
