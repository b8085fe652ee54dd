"""Deep Q-network (DQN)."""
