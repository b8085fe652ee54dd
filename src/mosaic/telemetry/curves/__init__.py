"""Metric curves, read from the event journal and downsampled."""
