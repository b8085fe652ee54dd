"""Tabular learning: one number per state and action."""
