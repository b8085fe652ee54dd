"""Evaluations requested over HTTP, each in its own process."""
