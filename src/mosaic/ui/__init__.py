"""User interfaces: the command line and the web app, readers of what the packages above produce."""
