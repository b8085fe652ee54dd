"""Algorithms of Stable-Baselines3 and their options."""
