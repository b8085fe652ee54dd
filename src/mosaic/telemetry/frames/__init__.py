"""FastLane: pictures of running environments, in shared memory."""
