"""Train page."""
