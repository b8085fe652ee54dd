"""Where a learner runs: one core, all cores, MPI ranks, a Ray cluster."""
