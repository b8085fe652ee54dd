"""Live streams of events and frames to browsers and terminals."""
