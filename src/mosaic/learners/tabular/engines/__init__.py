"""Engines that update a table: Python, NumPy and compiled."""
