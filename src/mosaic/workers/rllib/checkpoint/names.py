"""File and key names of exported RLlib policies. Imports nothing of RLlib: the policies play without it."""

from __future__ import annotations

FACTS = "policies.json"
FORMAT = "mosaic-rllib-1"
SHIFT, SCALE = "shift.", "scale."  # of observations, by agent; nameless if one agent learns
MODULE = "module."  # prefix of the names of an RLModule's weights
DEVIATIONS = "deviations."  # of a dense network: weight and bias of its last layer's rows for log deviations
