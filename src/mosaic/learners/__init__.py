"""How policies learn: one file per algorithm, the mathematics as pure functions beside it."""
