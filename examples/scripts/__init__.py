"""Programs that the script worker trains with."""
