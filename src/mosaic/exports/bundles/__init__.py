"""Bundles made from runs: policies with their measurements and a model card."""
