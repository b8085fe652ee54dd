"""Learning algorithms: one file per algorithm, with the mathematics as pure functions beside it."""
