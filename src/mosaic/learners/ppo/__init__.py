"""Proximal policy optimization (PPO) and advantage actor-critic (A2C)."""
