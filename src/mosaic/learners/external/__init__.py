"""Learning from envs that run in other programs, which start episodes and ask for actions when they like."""
