"""Demonstrations: recorded play as Minari datasets, one per agent."""
