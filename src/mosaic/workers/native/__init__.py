"""Worker for Mosaic's own PPO, A2C and DQN."""
