"""What exported policies of RLlib are called on disk. It imports nothing of RLlib: they play without it."""

from __future__ import annotations

FACTS = "policies.json"
FORMAT = "mosaic-rllib-1"
SHIFT, SCALE = "shift.", "scale."  # of observations, by agent; nameless where one agent learns
MODULE = "module."  # before the names of an RLModule's weights
DEVIATIONS = "deviations."  # of a dense network: weight and bias of its last layer's rows for log deviations
