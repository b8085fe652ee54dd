"""Plug-ins that execute one training run, each in its own process."""
