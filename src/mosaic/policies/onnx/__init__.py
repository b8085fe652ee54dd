"""Policies in ONNX files, Mosaic's own and those of other programs."""
