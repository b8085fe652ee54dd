"""Pages of the web app, one module or package each."""
