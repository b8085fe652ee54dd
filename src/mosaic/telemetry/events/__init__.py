"""Event journal of a run: format, writer and reader."""
