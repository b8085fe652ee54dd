"""Compiled kernels of Gymnasium's MuJoCo envs."""
