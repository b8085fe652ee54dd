"""HTTP server for runs: the API, access control, the queue, and a Python client."""
