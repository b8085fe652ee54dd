"""Card tables of PettingZoo's card games (poker, gin rummy and Hanabi) and of Kuhn poker."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from mosaic.core.ids import AgentID, EnvID
from mosaic.envs.compiled.board_games.kuhn_poker import CARDS
from mosaic.envs.env import Env, innermost
from mosaic.envs.family import split_version
from mosaic.envs.tables.table import Card, CardRow, CardTable, Fact, Seat, Sight, empty_place, hidden_card, playing_card

Agents: TypeAlias = Sequence[AgentID]
Reader: TypeAlias = Callable[[Any, Agents, Sight], CardTable]  # of the innermost env, which is not typed

_ROUNDS = ("before the flop", "flop", "turn", "river", "showdown")
_LEDUC_ROUNDS = ("first round", "second round", "showdown")
_COLOURS = {"R": "red", "Y": "yellow", "G": "green", "W": "white", "B": "blue"}
_FULL_HAND = 10  # of gin rummy
_GIN_ENDINGS = {"GinAction": "gin", "KnockAction": "a knock", "DeclareDeadHandAction": "the stock is used up"}


def has_table(env_id: EnvID) -> bool:
    return split_version(env_id)[0] in _TABLES


def table_of(env: Env, sight: Sight) -> CardTable | None:
    """Return the table of the current position as one with this sight sees it; None for other envs than card games."""
    read = _TABLES.get(split_version(env.spec.env_id)[0])
    if read is None:
        return None
    return read(innermost(env), env.possible_agents, sight)


def _holdem(raw: Any, agents: Agents, sight: Sight) -> CardTable:
    shown = [playing_card(str(card)) for card in raw.game.public_cards]
    community = CardRow("Community cards", (*shown, *[empty_place()] * (5 - len(shown))))
    return _poker(raw.game, agents, sight, community, _ROUNDS)


def _leduc(raw: Any, agents: Agents, sight: Sight) -> CardTable:
    card = raw.game.public_card
    public = CardRow("Public card", (empty_place() if card is None else playing_card(str(card)),))
    return _poker(raw.game, agents, sight, public, _LEDUC_ROUNDS)


def _poker(game: Any, agents: Agents, sight: Sight, public: CardRow, rounds: Sequence[str]) -> CardTable:
    most = max(player.in_chips for player in game.players)
    seats = []
    for agent, player in zip(agents, game.players, strict=True):
        held = player.hand if isinstance(player.hand, list) else [player.hand]
        cards = tuple(playing_card(str(card)) if sight.sees(agent) else hidden_card() for card in held)
        facts = [Fact("bet", str(player.in_chips))]
        if hasattr(player, "remained_chips"):
            facts.append(Fact("chips left", str(player.remained_chips)))
        status = getattr(player.status, "name", str(player.status)).lower()
        if status in ("folded", "allin"):
            facts.append(Fact("status", "folded" if status == "folded" else "all-in"))
        elif player.in_chips < most:
            facts.append(Fact("to call", str(most - player.in_chips)))
        seats.append(Seat(agent, (CardRow("Hand", cards),), tuple(facts)))
    pot = sum(player.in_chips for player in game.players)
    stage = rounds[min(game.round_counter, len(rounds) - 1)]
    folded = next((seat.agent for seat in seats if Fact("status", "folded") in seat.facts), None)
    ending = f"{folded} folded" if folded else "the better hand at the showdown" if stage == rounds[-1] else ""
    return CardTable(tuple(seats), (public,), (Fact("pot", str(pot)), Fact("round", stage)), ending)


def _gin_rummy(raw: Any, agents: Agents, sight: Sight) -> CardTable:
    current = raw.game.round
    piles, seats = current.dealer, []
    for agent, player in zip(agents, current.players, strict=True):
        if sight.sees(agent):
            seats.append(_open_hand(agent, player))
            continue
        known = [playing_card(str(card), notes=("taken from the discards",)) for card in player.known_cards]
        cards = (*known, *[hidden_card()] * (len(player.hand) - len(known)))
        seats.append(Seat(agent, (CardRow("Hand", cards),), (Fact("cards", str(len(player.hand))),)))
    discards = [playing_card(str(card)) for card in reversed(piles.discard_pile)]
    middle = (
        CardRow("Stock", (hidden_card(),) if piles.stock_pile else (), f"{len(piles.stock_pile)} cards"),
        CardRow("Discard pile", (discards[0] if discards else empty_place(),), f"{len(discards)} cards"),
        CardRow("Below the top", tuple(discards[1:]), "" if discards[1:] else "none", small=True),
    )
    went_out = type(current.going_out_action).__name__
    return CardTable(tuple(seats), middle, ending=_GIN_ENDINGS.get(went_out, ""))


def _open_hand(agent: AgentID, player: Any) -> Seat:
    """Return a hand with its best melds first, the rest sorted by suit and rank."""
    from rlcard.games.gin_rummy.utils.melding import get_meld_clusters
    from rlcard.games.gin_rummy.utils.utils import get_card_id, get_deadwood_count

    hand = sorted(player.hand, key=get_card_id)

    def deadwood(melds: list[list[Any]]) -> int:
        """Count the deadwood that is left after the best discard of eleven cards."""
        if len(hand) <= _FULL_HAND:
            return int(get_deadwood_count(hand, melds))
        loose = [card for card in hand if not any(card in meld for meld in melds)] or hand
        return min(int(get_deadwood_count([each for each in hand if each != card], melds)) for card in loose)

    best: list[list[Any]] = min(get_meld_clusters(hand), key=deadwood, default=[])
    melds = [sorted(meld, key=get_card_id) for meld in best]
    rows = [
        CardRow(f"Meld {number}", tuple(playing_card(str(card), group=number) for card in meld))
        for number, meld in enumerate(melds, start=1)
    ]
    loose = [card for card in hand if not any(card in meld for meld in melds)]
    rows.append(CardRow("No meld", tuple(playing_card(str(card)) for card in loose), "" if loose else "none"))
    after = " after a discard" if len(hand) > _FULL_HAND else ""
    facts = (Fact("cards", str(len(hand))), Fact(f"deadwood{after}", str(deadwood(best))))
    return Seat(agent, tuple(rows), facts)


def _hanabi(raw: Any, agents: Agents, sight: Sight) -> CardTable:
    lines = [line.strip() for line in str(raw.hanabi_env.game_state).splitlines()]
    given = dict(line.split(":", 1) for line in lines if ":" in line)
    hands: list[list[str]] = [[]]
    for line in lines[lines.index("Hands:") + 1 :]:
        if line.startswith("-----"):
            hands.append([])
        elif "||" in line:
            hands[-1].append(line)
    built = [_firework(part[0], int(part[1:])) for part in given["Fireworks"].split()]
    discards = sorted(given["Discards"].split(), key=lambda code: ("RYGWB".index(code[0]), code[1]))
    seats = tuple(
        Seat(agent, (CardRow("Hand", tuple(_hanabi_card(card, agent, sight) for card in hand)),))
        for agent, hand in zip(agents, hands, strict=True)
    )
    score = sum(int(card.rank) for card in built if card.rank)
    return CardTable(
        seats,
        (
            CardRow("Fireworks", tuple(built)),
            CardRow("Discards", tuple(_coloured(code) for code in discards), "" if discards else "none", small=True),
        ),
        (
            Fact("score", str(score)),
            Fact("hints", given["Info tokens"].strip()),
            Fact("lives", given["Life tokens"].strip()),
            Fact("cards in the deck", given["Deck size"].strip()),
        ),
        "all lives are lost" if given["Life tokens"].strip() == "0" else f"{score} points",
    )


def _firework(letter: str, height: int) -> Card:
    colour = _COLOURS[letter]
    if height:
        return Card(f"{colour} up to {height}", str(height), colour, colour)
    return Card(f"{colour}: nothing yet", suit=colour, colour=colour, absent=True)


def _coloured(code: str, notes: tuple[str, ...] = ()) -> Card:
    colour = _COLOURS[code[0]]
    return Card(f"{colour} {code[1]}", code[1], colour, colour, notes)


def _hanabi_card(line: str, agent: AgentID, sight: Sight) -> Card:
    """Read a line such as `G3 || X3|YGB3`: the card, what its holder was told, and what it can still be.

    All players see a card but its holder; a spectator sees none, since the holders may read along.
    """
    face, _, known = line.partition("||")
    told, _, possible = known.strip().partition("|")
    told_words = [_COLOURS[told[0]]] if told[0] != "X" else []
    told_words += [told[1]] if told[1] != "X" else []
    colours = [_COLOURS[letter] for letter in possible if letter in _COLOURS]
    ranks = [letter for letter in possible if letter.isdigit()]
    notes = [f"told: {' '.join(told_words)}" if told_words else "told nothing"]
    open_to_sight = sight.everything or (sight.agent is not None and sight.agent != agent)
    if open_to_sight:
        return _coloured(face.strip(), tuple(notes))
    if 1 < len(colours) < len(_COLOURS):
        notes.append(f"colour: {' or '.join(colours)}")
    if 1 < len(ranks) < 5:
        notes.append(f"rank: {' or '.join(ranks)}")
    return hidden_card(tuple(notes))


def _kuhn(raw: Any, agents: Agents, sight: Sight) -> CardTable:
    seats = []
    for agent, card, paid in zip(agents, raw.cards, raw.paid, strict=True):
        shown = playing_card(f"{CARDS[card]}S") if sight.sees(agent) else hidden_card()
        seats.append(Seat(agent, (CardRow("Hand", (shown,)),), (Fact("bet", str(paid)),)))
    return CardTable(tuple(seats), (), (Fact("pot", str(sum(raw.paid))),))


_TABLES: Mapping[str, Reader] = {
    "classic/gin_rummy": _gin_rummy,
    "classic/hanabi": _hanabi,
    "classic/leduc_holdem": _leduc,
    "classic/texas_holdem": _holdem,
    "classic/texas_holdem_no_limit": _holdem,
    "mosaic/kuhn_poker": _kuhn,
}
