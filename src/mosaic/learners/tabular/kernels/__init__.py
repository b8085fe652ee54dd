"""Compiled training loops over tables."""
