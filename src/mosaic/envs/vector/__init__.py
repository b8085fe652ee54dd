"""Vector envs that step several Python environments, in one process or many."""
