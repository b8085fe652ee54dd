"""Screens: readers of what the packages above make."""
