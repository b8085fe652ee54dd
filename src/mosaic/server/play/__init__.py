"""Matches played over HTTP and WebSocket, with or without human players."""
