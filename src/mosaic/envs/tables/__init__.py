"""Card tables: what lies on the table of a card game, for one who may see a part of it."""
