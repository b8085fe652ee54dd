"""Compiled Markov decision processes with a transition table."""
