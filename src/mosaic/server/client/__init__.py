"""HTTP client of a Mosaic server, with tunnels to remote hosts."""
