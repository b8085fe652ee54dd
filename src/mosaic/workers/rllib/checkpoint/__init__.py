"""RLlib checkpoints: state, exported weights, controllers."""
