"""Learning with one number per state and action."""
