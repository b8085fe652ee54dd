"""Trained policies as files for other programs, each compared with its policy before it is kept."""
