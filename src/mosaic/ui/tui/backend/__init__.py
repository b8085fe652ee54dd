"""Sources of what the terminal app shows: this machine, or a server."""
