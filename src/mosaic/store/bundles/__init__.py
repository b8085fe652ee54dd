"""Bundles: folders with trained policies for others to play, in which nothing is code."""
