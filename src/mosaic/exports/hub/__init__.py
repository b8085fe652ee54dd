"""Bundles on the Hugging Face hub."""
