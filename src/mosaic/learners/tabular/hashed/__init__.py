"""Tables keyed by hashed observations."""
