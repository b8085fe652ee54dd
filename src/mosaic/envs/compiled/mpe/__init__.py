"""Compiled multi-agent particle environments."""
