"""Searching for good options: many runs of one configuration, driven by Ray Tune."""
