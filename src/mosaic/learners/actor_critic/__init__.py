"""SAC and TD3: actors and twin critics for continuous actions, learned from replayed decisions."""
