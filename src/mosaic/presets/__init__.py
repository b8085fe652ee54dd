"""Tuned options per env, one TOML file each; see mosaic.workers.presets."""
