"""Small things of one's own, as a user would write them."""
