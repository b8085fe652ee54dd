"""Where environments come from: one file per source."""
