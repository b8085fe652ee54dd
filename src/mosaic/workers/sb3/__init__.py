"""Worker for Stable-Baselines3 and its contrib package."""
