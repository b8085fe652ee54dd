"""Pydantic models of a run's settings, one per stage, and their files."""
