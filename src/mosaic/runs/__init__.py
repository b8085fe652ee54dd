"""Runs in motion: their life cycle, their supervisor, and the Trainer that screens and scripts use."""
