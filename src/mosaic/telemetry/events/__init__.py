"""The event journal of a run: format, writer and reader."""
