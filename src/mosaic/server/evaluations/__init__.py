"""Evaluations requested over HTTP, each in a process of its own."""
