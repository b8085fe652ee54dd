"""Rollout collection, compiled and in Python."""
