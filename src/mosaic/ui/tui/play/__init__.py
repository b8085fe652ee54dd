"""Parts of the Play tab: the form of a new game, the board, its keys, and the connection to a match."""
