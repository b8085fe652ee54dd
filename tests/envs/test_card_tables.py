"""Card tables: a player's table does not depend on what is hidden from it."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env
from mosaic.envs.tables.games import table_of
from mosaic.envs.tables.table import EVERYTHING, SPECTATOR, CardTable, Sight, table_json, table_text

POKER = ("classic/texas_holdem_v4", "classic/texas_holdem_no_limit_v6", "classic/leduc_holdem_v4")
CARDS = (*POKER, "classic/gin_rummy_v4", "classic/hanabi_v5")


def positions(env_id: str, seed: int = 3, steps: int = 40) -> Iterator[Env]:
    env, chance = make_env(env_id), random.Random(seed)
    turn = env.reset(seed)
    for _ in range(steps):
        yield env
        if turn.over:
            break
        (agent,) = turn.observations
        legal = [int(action) for action in np.flatnonzero(turn.action_masks[agent])]
        turn = env.step({agent: chance.choice(legal)})
    env.close()


def innermost(env: Env) -> Any:
    raw: Any = env
    while hasattr(raw, "env"):
        raw = raw.env
    return getattr(raw, "unwrapped", raw)


def shown(env: Env, sight: Sight) -> CardTable:
    table = table_of(env, sight)
    assert table is not None
    return table


def faces(table: CardTable, agent: str) -> list[str]:
    (seat,) = [seat for seat in table.seats if seat.agent == agent]
    return [card.name for row in seat.rows for card in row.cards if card.rank]


@pytest.mark.parametrize("env_id", POKER)
def test_poker_of_a_player_is_the_same_whatever_the_opponent_holds(env_id: str) -> None:
    for env in positions(env_id):
        game = innermost(env).game
        before = [json.dumps(table_json(shown(env, sight))) for sight in (Sight("player_0"), SPECTATOR)]
        other, held = game.players[1], game.players[1].hand
        deck = game.dealer.deck
        other.hand = deck[: len(held)] if isinstance(held, list) else deck[0]
        assert before == [json.dumps(table_json(shown(env, sight))) for sight in (Sight("player_0"), SPECTATOR)]
        assert faces(shown(env, Sight("player_0")), "player_0") != []
        assert faces(shown(env, SPECTATOR), "player_0") == []
        assert len(faces(shown(env, EVERYTHING), "player_1")) == (len(held) if isinstance(held, list) else 1)
        other.hand = held


def test_gin_rummy_of_a_player_shows_only_what_the_opponent_took_from_the_discards() -> None:
    for env in positions("classic/gin_rummy_v4", steps=60):
        opponent = innermost(env).game.round.players[1]
        assert len(faces(shown(env, Sight("player_0")), "player_1")) == len(opponent.known_cards)
        own = faces(shown(env, Sight("player_0")), "player_0")
        assert len(own) == len(set(own)) == len(innermost(env).game.round.players[0].hand)


def test_hanabi_hides_the_own_hand_as_the_game_itself_does() -> None:
    for env in positions("classic/hanabi_v5"):
        state = innermost(env).hanabi_env.game_state
        for number, agent in enumerate(env.possible_agents):
            table = shown(env, Sight(agent))
            assert faces(table, agent) == []
            partner = env.possible_agents[1 - number]
            hands = state.observation_string(number).split("-----")  # the own hand first
            listed = [line.split()[0] for line in hands[1].splitlines() if "||" in line]
            names = dict(zip("RYGWB", ("red", "yellow", "green", "white", "blue"), strict=True))
            assert faces(table, partner) == [f"{names[card[0]]} {card[1]}" for card in listed]
        assert faces(shown(env, SPECTATOR), "player_0") == faces(shown(env, SPECTATOR), "player_1") == []


def test_gin_rummy_puts_melds_first() -> None:
    env = next(positions("classic/gin_rummy_v4"))
    (seat,) = [seat for seat in shown(env, Sight("player_0")).seats if seat.agent == "player_0"]
    assert [row.text for row in seat.rows] == ["Meld 1: 8♦ 9♦ 10♦", "No meld: 5♠ A♥ 5♥ 8♥ J♥ Q♥ Q♦ 7♣"]


def test_the_own_seat_is_the_last_one_of_the_text() -> None:
    env = next(positions("classic/texas_holdem_v4"))
    assert table_text(shown(env, Sight("player_0")), "player_0").splitlines() == [
        "pot 3 · round before the flop",
        "player_1 · bet 2",
        "  Hand: ▮ ▮",
        "Community cards: · · · · ·",
        "player_0 (you) · bet 1 · to call 1",
        "  Hand: 5♣ 7♣",
    ]


@pytest.mark.parametrize(
    ("env_id", "endings"),
    [
        ("classic/leduc_holdem_v4", {"player_0 folded", "player_1 folded", "the better hand at the showdown"}),
        ("classic/gin_rummy_v4", {"gin", "a knock", "the stock is used up"}),
        ("classic/hanabi_v5", {"all lives are lost"}),  # random play never gets as far as the end of the deck
    ],
)
def test_the_last_table_says_how_the_game_ended(env_id: str, endings: set[str]) -> None:
    told = {[shown(env, SPECTATOR).ending for env in positions(env_id, seed, steps=1000)][-1] for seed in range(4)}
    assert told
    assert told <= endings


def test_other_envs_have_no_table() -> None:
    assert table_of(make_env("classic/tictactoe_v3"), EVERYTHING) is None
