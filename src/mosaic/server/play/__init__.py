"""Matches played over HTTP and WebSocket, with people or without."""
