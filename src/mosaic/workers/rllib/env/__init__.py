"""Environments and env runners as RLlib sees them."""
