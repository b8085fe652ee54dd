"""Pictures as arrays: height × width × 3 or height × width, uint8."""
