"""Copies of metrics in other formats: CSV, TensorBoard, plug-ins."""
