"""Who acts for the agents."""
