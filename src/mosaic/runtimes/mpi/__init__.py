"""MPI ranks and distributed tabular training on them."""
