"""FastLane: live pictures of running environments, in shared memory."""
