"""Policies of Stable-Baselines3 in files: written, read and played."""
