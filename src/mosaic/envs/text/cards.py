"""Cards as text, from one agent's observation: poker, gin rummy, Hanabi, Blackjack, and rock-paper-scissors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mosaic.envs.action_names import CARD_NAMES, names_by_action
from mosaic.envs.text.seen import SeenByAgent, TextView

_RANKS = "JQK"


def _leduc(seen: SeenByAgent) -> str | None:
    if seen.shape != (36,):
        return None
    bits = np.asarray(seen.observation)
    hand, public, mine, other = (np.flatnonzero(part) for part in np.split(bits, [3, 6, 21]))
    shown = _RANKS[public[0]] if len(public) else "not shown yet"
    return (
        "Leduc poker with six cards (two each of J, Q, K). A pair with the public card wins, else the higher card.\n"
        f"Your card: {_RANKS[hand[0]] if len(hand) else 'none'}\nPublic card: {shown}\n"
        f"Chips in the pot: yours {_first(mine)}, your opponent's {_first(other)}"
    )


def _limit(seen: SeenByAgent) -> str | None:
    if seen.shape != (72,):
        return None
    bits = np.asarray(seen.observation)
    raises = [_first(np.flatnonzero(part)) for part in np.reshape(bits[52:], (4, 5))]
    return f"Texas hold'em with limits.\n{_known_cards(bits)}\nRaises in the four rounds: {', '.join(map(str, raises))}"


def _no_limit(seen: SeenByAgent) -> str | None:
    if seen.shape != (54,):
        return None
    numbers = np.asarray(seen.observation)
    return (
        "Texas hold'em without limits.\n"
        f"{_known_cards(numbers)}\nChips in the pot: yours {numbers[52]:g}, the most of a player {numbers[53]:g}"
    )


def _known_cards(bits: NDArray[np.generic]) -> str:
    """Name the cards; the observation does not tell the hand from the community cards."""
    return f"Your two cards and the community cards shown so far: {_named(bits[:52])}"


def _gin_rummy(seen: SeenByAgent) -> str | None:
    if len(seen.shape) != 2 or seen.shape[0] < 4 or seen.shape[1] != 52:
        return None
    rows = np.asarray(seen.observation)
    names = ("Your hand", "Top of the discard pile", "Other discarded cards", "Known cards of your opponent")
    lines = [f"{name}: {_named(row)}" for name, row in zip(names, rows, strict=False)]
    return (
        "Gin rummy. Form sets of one rank and runs of one suit, of at least three cards each; the rest is deadwood.\n"
        "A card is its rank (A 2 … 9 T J Q K) and suit (S spades, H hearts, D diamonds, C clubs).\n" + "\n".join(lines)
    )


def _rock_paper_scissors(seen: SeenByAgent) -> str | None:
    names, last = names_by_action(seen.spec.env_id), int(seen.observation)
    if len(names) + 1 != getattr(seen.spec.observation_spaces[seen.agent], "n", 0):
        return None
    return f"Rock, paper, scissors. Your opponent's last choice: {names[last] if last < len(names) else 'none yet'}"


def _blackjack(seen: SeenByAgent) -> str | None:
    if seen.shape != (3,):
        return None
    total, dealer, ace = map(int, seen.observation)
    return (
        "Blackjack: come closer to 21 than the dealer without exceeding it.\n"
        f"Sum of your cards: {total}{' (with an ace that counts 11)' if ace else ''}\n"
        f"Dealer's card: {'ace' if dealer == 1 else dealer}"
    )


_COLOURS = ("red", "yellow", "green", "white", "blue")
# Parts of an observation of the usual game of two, in order, with their numbers of bits.
_HAND, _MISSING, _DECK, _FIREWORKS, _TOKENS, _LIVES, _DISCARDS, _LAST = 125, 2, 40, 25, 8, 3, 50, 55
_COPIES = (3, 2, 2, 2, 1)  # of a colour's cards, by rank


def _hanabi(seen: SeenByAgent) -> str | None:
    if seen.shape != (658,):
        return None
    bits = np.asarray(seen.observation)
    parts = np.split(bits, np.cumsum([_HAND, _MISSING, _DECK, _FIREWORKS, _TOKENS, _LIVES, _DISCARDS, _LAST]))
    hand, _, deck, fireworks, tokens, lives, discards, _, knowledge = parts
    mine, other = np.split(np.reshape(knowledge, (10, 35)), 2)
    built = [
        f"{colour} {_first(np.flatnonzero(row)) + 1 if row.any() else 0}"
        for colour, row in zip(_COLOURS, np.reshape(fireworks, (5, 5)), strict=True)
    ]
    cards = [
        f"{place}. {_hanabi_card(card)}, has been told: {_told(known)}"
        for place, (card, known) in enumerate(zip(np.reshape(hand, (5, 25)), other, strict=True), start=1)
        if card.any()
    ]
    own = [f"{place}. {_could_be(known)}" for place, known in enumerate(mine, start=1) if known.any()]
    return "\n".join(
        [
            "Hanabi, a game for two who win or lose together: build each colour from 1 to 5. Your cards are hidden.",
            f"Fireworks: {', '.join(built)}",
            f"Information tokens: {int(tokens.sum())} of 8",
            f"Lives: {int(lives.sum())} of 3",
            f"Cards in the deck: {int(deck.sum())}",
            f"Discarded: {_discarded(discards)}",
            *["Your partner's cards:", *cards],
            *["Your own cards:", *own],
        ]
    )


def _hanabi_card(bits: NDArray[np.generic]) -> str:
    colour, rank = divmod(_first(np.flatnonzero(bits)), 5)
    return f"{_COLOURS[colour]} {rank + 1}"


def _told(known: NDArray[np.generic]) -> str:
    colour, rank = np.flatnonzero(known[25:30]), np.flatnonzero(known[30:35])
    words = [*(_COLOURS[place] for place in colour), *(str(place + 1) for place in rank)]
    return " ".join(words) or "nothing"


def _could_be(known: NDArray[np.generic]) -> str:
    table = np.reshape(known[:25], (5, 5)).astype(bool)
    colours = [_COLOURS[place] for place in np.flatnonzero(table.any(axis=1))]
    ranks = [str(place + 1) for place in np.flatnonzero(table.any(axis=0))]
    return f"told: {_told(known)}; could be {_or(colours)}, rank {_or(ranks)}"


def _discarded(bits: NDArray[np.generic]) -> str:
    found: list[str] = []
    for colour, row in zip(_COLOURS, np.reshape(bits, (5, 10)), strict=True):
        for rank, copies in enumerate(np.split(row, np.cumsum(_COPIES)[:-1]), start=1):
            found += [f"{colour} {rank}"] * int(copies.sum())
    return ", ".join(found) or "none"


def _or(words: Sequence[str]) -> str:
    return " or ".join(words) or "nothing"


def _named(bits: NDArray[np.generic]) -> str:
    return ", ".join(CARD_NAMES[place] for place in np.flatnonzero(bits)) or "none"


def _first(places: NDArray[np.intp] | Sequence[int]) -> int:
    return int(places[0]) if len(places) else 0


CARDS: Mapping[str, TextView] = {
    "classic/gin_rummy": _gin_rummy,
    "classic/hanabi": _hanabi,
    "classic/leduc_holdem": _leduc,
    "classic/rps": _rock_paper_scissors,
    "classic/texas_holdem": _limit,
    "classic/texas_holdem_no_limit": _no_limit,
    "gym/Blackjack": _blackjack,
}
