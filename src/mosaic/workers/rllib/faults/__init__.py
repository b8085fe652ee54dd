"""Errors and lost env runners of RLlib."""
