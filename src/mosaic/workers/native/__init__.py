"""Worker for Mosaic's own PPO, A2C, DQN, SAC, TD3, CQL, cloning and DAgger."""
