"""Benchmarks of the repository: their programs, the packages that they need, and the report."""
