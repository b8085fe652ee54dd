"""Policies that act for agents."""
