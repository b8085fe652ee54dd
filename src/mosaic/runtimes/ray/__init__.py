"""Ray sessions and distributed tabular training on them."""
