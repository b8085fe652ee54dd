"""The Evaluate page."""
