"""Compiled envs as tensors on a device: rules as functions of tensors, for learners on a GPU."""
