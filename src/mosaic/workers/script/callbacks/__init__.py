"""Callbacks with which users' own training scripts report to Mosaic."""
