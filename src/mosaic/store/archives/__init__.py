"""Export and import of runs, with signatures and trust."""
