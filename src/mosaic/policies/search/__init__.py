"""Tree search with a policy's network: the policy `search:run:ID`, and AlphaZero's self-play."""
