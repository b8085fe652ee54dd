"""RLlib learners, modules and replay."""
