"""Plug-ins that execute one training run, each in a process of its own."""
