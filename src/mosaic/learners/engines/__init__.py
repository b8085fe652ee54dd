"""Network engines: PyTorch and the fused CPU engine."""
