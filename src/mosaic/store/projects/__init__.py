"""Projects: folders with a mosaic.toml, and the list of those that this store knows."""
