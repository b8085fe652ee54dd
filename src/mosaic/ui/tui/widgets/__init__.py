"""Widgets that several tabs use."""
