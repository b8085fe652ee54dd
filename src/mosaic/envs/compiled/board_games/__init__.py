"""Compiled board games and repeated games."""
