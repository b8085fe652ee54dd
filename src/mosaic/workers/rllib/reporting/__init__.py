"""Metrics, frames and log messages of RLlib training."""
