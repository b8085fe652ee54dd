"""Hyperparameter search: many runs of one configuration, driven by Ray Tune."""
