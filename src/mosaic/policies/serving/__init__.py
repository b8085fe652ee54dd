"""Policies for programs that own their environment: calls, episodes of clients, decisions in batches."""
