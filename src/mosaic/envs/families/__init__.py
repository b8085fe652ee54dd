"""Environment families: one module per source."""
