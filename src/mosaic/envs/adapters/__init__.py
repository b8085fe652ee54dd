"""Adapters between Mosaic's environment protocol and other libraries."""
