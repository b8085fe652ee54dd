"""Data that the pages show, computed without any user interface."""
