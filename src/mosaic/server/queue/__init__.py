"""Queue of submitted runs and the process that starts them."""
