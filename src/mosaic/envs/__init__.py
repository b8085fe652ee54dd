"""One face for every environment."""
