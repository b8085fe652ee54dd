"""Card tables: the cards and piles of a card game that one viewer may see."""
