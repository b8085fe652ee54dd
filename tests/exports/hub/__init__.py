"""Tests of bundles on the hub."""
