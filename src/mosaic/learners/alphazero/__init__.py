"""AlphaZero: self-play with tree search."""
