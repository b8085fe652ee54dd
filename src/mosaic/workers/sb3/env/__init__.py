"""Envs behind the VecEnv interface of Stable-Baselines3."""
