"""What may be asked of the server, by subject."""
