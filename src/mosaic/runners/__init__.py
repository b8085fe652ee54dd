"""How controllers and envs become episodes."""
