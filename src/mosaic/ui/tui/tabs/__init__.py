"""Tabs of the terminal app."""
