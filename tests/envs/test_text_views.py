"""Text views of observations, compared with the state of the games they describe."""

from __future__ import annotations

import re
from contextlib import closing
from random import Random

import numpy as np
import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.turn import Turn
from mosaic.envs.action_names import legal_names
from mosaic.envs.board_cells import board_cells
from mosaic.envs.catalog import make_env
from mosaic.envs.text.view import text_view

CARDS = {"spade": "S", "heart": "H", "diamond": "D", "club": "C"}


def positions(env_id, steps=40, seed=0, **options):
    """Yield (env, turn, agent) along random games."""
    config = EnvironmentConfig.model_validate({"env_id": env_id, "options": options})
    with closing(make_env(config)) as env:
        random, turn = Random(seed), env.reset(seed)
        for _ in range(steps):
            for agent in turn.observations:
                yield env, turn, agent
            chosen = {
                agent: random.choice(list(legal_names(env.spec, turn, agent).values())) for agent in turn.observations
            }
            turn = env.step(chosen)
            if turn.over:
                turn = env.reset()


def drawn(text, marks):
    """Return the cells of a board in a text: rows that hold nothing but marks and labels."""
    rows = [re.findall(r"\S+", line.replace("|", " ")) for line in text.splitlines()]
    return [["" if cell.isdigit() or cell == "." else cell for cell in row] for row in rows if marks(row)]


@pytest.mark.parametrize(
    ("env_id", "options"),
    [("classic/tictactoe_v3", {}), ("mosaic/tictactoe", {}), ("classic/connect_four_v3", {})],
)
def test_boards_show_what_stands_on_the_board(env_id, options):
    width = 7 if "connect" in env_id else 3
    for env, turn, agent in positions(env_id, **options):
        text = text_view(env.spec, turn, agent)
        mine = "X" if agent == env.possible_agents[0] else "O"
        assert f"You are {mine}," in text
        found = drawn(text, lambda row: len(row) == width and all(re.fullmatch(r"[XO.\d]", cell) for cell in row))
        assert tuple(map(tuple, found[-6:] if width == 7 else found)) == board_cells(env)


def test_go_is_drawn_as_it_is_named():
    for env, turn, agent in positions("classic/go_v5", steps=12):
        text = text_view(env.spec, turn, agent)
        rows = {int(line[:2]): line[3:].split() for line in text.splitlines() if re.match(r"[ 1]\d ", line)}
        assert tuple(tuple(cell.strip(".") for cell in rows[number]) for number in range(19, 0, -1)) == board_cells(env)
        assert f"You are {'X (black)' if agent == 'black_0' else 'O (white)'}" in text
        for name, action in legal_names(env.spec, turn, agent).items():
            column, row = divmod(action, 19)
            assert name == ("pass" if action == 361 else f"{'ABCDEFGHJKLMNOPQRST'[column]}{19 - row}")


def test_chess_is_given_as_fen_and_as_a_board():
    for env, turn, agent in positions("classic/chess_v6", steps=12):
        text = text_view(env.spec, turn, agent)
        assert f"FEN: {turn.infos[agent]['fen']}" in text
        rows = [line.split()[1:] for line in text.splitlines() if re.match(r"[1-8] ", line)]
        assert tuple(tuple(cell.strip(".") for cell in row) for row in rows) == board_cells(env)
        assert "e2e4" in legal_names(env.spec, turn, agent) or env.agents


def card(raw):
    return f"{raw.rank}{raw.suit}"


def test_poker_hands_are_those_of_the_agent():
    for env, turn, agent in positions("classic/leduc_holdem_v4"):
        game = env.env.unwrapped.env.game
        me = env.possible_agents.index(agent)
        text = text_view(env.spec, turn, agent)
        public = game.public_card.rank if game.public_card else "not shown yet"
        chips = game.players[me].in_chips, game.players[1 - me].in_chips
        assert f"Your card: {game.players[me].hand.rank}\nPublic card: {public}\n" in text
        assert f"yours {chips[0]}, your opponent's {chips[1]}" in text
    for env_id in ("classic/texas_holdem_v4", "classic/texas_holdem_no_limit_v6"):
        for env, turn, agent in positions(env_id):
            game = env.env.unwrapped.env.game
            me = env.possible_agents.index(agent)
            known = {card(each) for each in (*game.players[me].hand, *game.public_cards)}
            shown = re.search(r"shown so far: (.*)", text_view(env.spec, turn, agent))
            assert set(shown[1].split(", ")) == known


def test_gin_rummy_shows_the_hand_and_the_discards():
    for env, turn, agent in positions("classic/gin_rummy_v4"):
        game = env.env.unwrapped.env.game
        me = env.possible_agents.index(agent)
        lines = dict(line.split(": ") for line in text_view(env.spec, turn, agent).splitlines() if ": " in line)
        hand = {card(each) for each in game.round.players[me].hand}
        assert set(lines["Your hand"].split(", ")) == hand
        pile = [card(each) for each in game.round.dealer.discard_pile]
        assert lines["Top of the discard pile"] == (pile[-1] if pile else "none")


def test_hanabi_shows_the_partner_and_hides_the_own_hand():
    for env, turn, agent in positions("classic/hanabi_v5", steps=60):
        state = str(env.env.unwrapped.hanabi_env.game_state)
        lines = text_view(env.spec, turn, agent).splitlines()
        first, second = state.partition("Hands:")[2].partition("Deck size")[0].split("-----")
        hands = [re.findall(r"^([RYGWB])(\d) ", part, re.MULTILINE) for part in (first, second)]
        partner = hands[1 - env.possible_agents.index(agent)]
        start = lines.index("Your partner's cards:") + 1
        shown = [re.match(r"\d\. (\w)\w+ (\d),", line) for line in lines[start : lines.index("Your own cards:")]]
        assert [(found[1].upper(), found[2]) for found in shown] == [(colour, rank) for colour, rank in partner]
        lives, tokens = re.search(r"Life tokens: (\d)", state)[1], re.search(r"Info tokens: (\d)", state)[1]
        assert f"Lives: {lives} of 3" in lines
        assert f"Information tokens: {tokens} of 8" in lines
        fireworks = re.search(r"Fireworks: (.*)", state)[1].split()
        built = lines[1].removeprefix("Fireworks: ").split(", ")
        assert [f"{each.split()[0][0].upper()}{each.split()[1]}" for each in built] == fireworks
        deck = re.search(r"Deck size: (\d+)", state)[1]
        assert f"Cards in the deck: {deck}" in lines


def test_grids_show_where_the_agent_is():
    for env_id in ("gym/FrozenLake-v1", "gym/CliffWalking-v1", "mosaic/gridworld"):
        for env, turn, agent in positions(env_id, steps=15):
            rows = [
                line for line in text_view(env.spec, turn, agent).splitlines() if re.fullmatch(r"[@SFGH.#]{4,}", line)
            ]
            cell = "".join(rows).index("@")
            assert cell == turn.observations[agent]
    for env, turn, agent in positions("gym/Taxi-v3", steps=15):
        row, column, passenger, destination = env.env.unwrapped.decode(turn.observations[agent])
        text = text_view(env.spec, turn, agent)
        assert f"You are in row {row + 1}, column {column + 1}." in text
        places = ("red", "green", "yellow", "blue", "in your taxi")
        assert f"The passenger is {'' if passenger == 4 else 'at '}{places[passenger]}" in text
        assert f"The destination is {places[destination]}" in text
    assert "slippery" in next(text_view(e.spec, t, a) for e, t, a in positions("gym/FrozenLake-v1"))
    assert "slippery" not in next(
        text_view(e.spec, t, a) for e, t, a in positions("gym/FrozenLake-v1", is_slippery=False)
    )


def pair(values):
    return "({:+.2f}, {:+.2f})".format(*(round(float(value), 2) + 0.0 for value in values))


def test_particles_are_placed_relative_to_the_agent():
    for env, turn, agent in positions("mpe/simple_spread_v3", steps=6):
        lines = text_view(env.spec, turn, agent).splitlines()
        world = env.env.unwrapped.world
        here = {each.name: each.state.p_pos for each in world.agents}
        for number, landmark in enumerate(world.landmarks, start=1):
            assert f"Landmark {number}: {pair(landmark.state.p_pos - here[agent])}" in lines
        for other in here.keys() - {agent}:
            assert f"{other}: {pair(here[other] - here[agent])}" in lines
    for env, turn, agent in positions("mpe/simple_tag_v3", steps=6):
        text = text_view(env.spec, turn, agent)
        world = env.env.unwrapped.world
        (me,) = (each for each in world.agents if each.name == agent)
        assert ("You are one of them" in text) == me.adversary
        for other in world.agents:
            if other is not me:
                assert f"\n{other.name}: {pair(other.state.p_pos - me.state.p_pos)}" in text
                told = f"Velocity of {other.name}: {pair(other.state.p_vel)}"
                assert (told in text) == (not other.adversary)
    env, turn, agent = next(positions("mpe/simple_v3"))
    assert f"Landmark: {pair(turn.observations[agent][2:])}" in text_view(env.spec, turn, agent)


def test_pursuit_is_a_map_around_the_agent():
    for env, turn, agent in positions("sisl/pursuit_v4", steps=4):
        rows = [line.split() for line in text_view(env.spec, turn, agent).splitlines()[2:9]]
        game = env.env.unwrapped.env
        x, y = game.pursuer_layer.get_position(env.possible_agents.index(agent))
        assert rows[3][3] == "@"
        for row, column in np.ndindex(7, 7):
            at = x + column - 3, y + row - 3
            if not (0 <= at[0] < game.x_size and 0 <= at[1] < game.y_size) or game.model_state[0][at]:
                assert rows[row][column] == "#"
            elif (row, column) != (3, 3):
                found = rows[row][column]
                assert (("P" in found), ("E" in found)) == (game.model_state[1][at] > 0, game.model_state[2][at] > 0)


def test_knights_and_archers_see_who_is_there():
    for env, turn, agent in positions("butterfly/knights_archers_zombies_v10", steps=60):
        text = text_view(env.spec, turn, agent)
        game = env.env.unwrapped
        me, *others = (game.agent_list[game.agent_name_mapping[name]] for name in (agent, *env.agents) if name)
        right, down, *heading = me.vector_state
        assert f"You are {right:.2f} from its left and {down:.2f} from its top" in text
        assert ("facing up." in text) == (heading[1] < -0.93)
        assert text.count("\nzombie: ") == len(game.zombie_list)
        for other in others:
            if other is not me:
                dx, dy = other.vector_state[:2] - me.vector_state[:2]
                sides = "left" if dx < 0 else "right", "up" if dy < 0 else "down"
                assert f"\n{other.agent_name}: {abs(dx):.2f} {sides[0]} and {abs(dy):.2f} {sides[1]} from you" in text


def test_everything_else_has_names_and_numbers():
    env, turn, agent = next(positions("gym/CartPole-v1"))
    text = text_view(env.spec, turn, agent)
    assert f"pole angle in radians: {float(turn.observations[agent][2]):.4g}" in text
    env, turn, agent = next(positions("gym/Blackjack-v1"))
    assert f"Sum of your cards: {turn.observations[agent][0]}" in text_view(env.spec, turn, agent)
    env, turn, agent = next(positions("classic/rps_v2"))
    assert text_view(env.spec, turn, agent).endswith("last choice: none yet")
    config = EnvironmentConfig.model_validate({"env_id": "gym/CartPole-v1", "wrappers": ["flatten"]})
    with closing(make_env(config)) as wrapped:
        turn = wrapped.reset(0)
        assert "observation: " in text_view(wrapped.spec, turn, "agent_0")
        seen = {"a": np.array([[1, 2], [3, 4]]), "b": (0.5, 2)}
        odd = Turn({"agent_0": seen}, {}, {}, {}, {}, {}, {})
        lines = text_view(wrapped.spec, odd, "agent_0").splitlines()
        assert lines[1:] == [
            "observation.a[0]: 1 2",
            "observation.a[1]: 3 4",
            "observation.b[0]: 0.5",
            "observation.b[1]: 2",
        ]
        refused = {
            "has 1,001 numbers, too many for a text": np.zeros(1001),
            "is a picture": np.zeros((16, 16, 3), "u1"),
        }
        for reason, seen in refused.items():
            with pytest.raises(InputError, match=rf"{reason}.*prompt=python:"):
                text_view(wrapped.spec, Turn({"agent_0": seen}, {}, {}, {}, {}, {}, {}), "agent_0")


def test_actions_without_names_are_numbered_and_others_refused():
    env, turn, agent = next(positions("sisl/pursuit_v4"))
    assert list(legal_names(env.spec, turn, agent)) == ["left", "right", "down", "up", "rest"]
    env, turn, agent = next(positions("gym/LunarLander-v3"))
    assert list(legal_names(env.spec, turn, agent)) == ["no engine", "left engine", "main engine", "right engine"]
    env, turn, agent = next(positions("mosaic/recall"))
    assert legal_names(env.spec, turn, agent)["0"] == 0
    with closing(make_env("gym/Pendulum-v1")) as pendulum:
        turn = pendulum.reset(0)
        with pytest.raises(InputError, match=r"Actions of agent_0 in gym/Pendulum-v1 are Box\(1\) float32"):
            legal_names(pendulum.spec, turn, "agent_0")
