"""Compiled versions of Gymnasium's classic control environments."""
