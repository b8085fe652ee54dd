"""What a policy's network is, and how it is computed."""
