"""Runtimes for learners: one core, all cores, MPI ranks, a Ray cluster."""
