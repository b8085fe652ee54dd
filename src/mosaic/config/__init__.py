"""What a user may ask for: one pydantic model per stage."""
