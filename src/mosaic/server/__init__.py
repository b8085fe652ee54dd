"""Runs over HTTP: the API, who may use it, the queue, and its Python client."""
