"""Queue of submitted runs and the dispatcher that starts them."""
