"""Evaluations, tournaments and ratings of policies, with confidence intervals."""
