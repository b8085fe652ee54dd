"""Web app to train, watch, play and compare in the browser."""
