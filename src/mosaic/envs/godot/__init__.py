"""Games of the Godot engine that speak the protocol of Godot RL Agents."""
