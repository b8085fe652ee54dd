"""Training form and log of the terminal app, without widgets."""
