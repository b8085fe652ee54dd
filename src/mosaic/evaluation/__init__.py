"""How good policies are: evaluations, tournaments, ratings and how sure we can be."""
