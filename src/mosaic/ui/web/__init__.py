"""The web app: train, watch, play and compare in the browser."""
