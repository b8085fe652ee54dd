"""The pure parts of a match: keys, pace, policies of agents, messages."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.policies.mapping import PolicyMapping
from mosaic.server.play.clicks import Choice, Spot, choices, next_spots, press
from mosaic.server.play.keys import KeyBinding, KeyMap, check_bindings, held_action, key_map
from mosaic.server.play.messages import AssignPolicy, Key, read_message
from mosaic.server.play.pace import Pace, plays_in_real_time, rate_of
from mosaic.server.play.participants import PolicyAssignments, Viewer, acts_for, read_action, who_acts


def _keys(env_id: str) -> KeyMap:
    env = make_env(env_id)
    env.reset(0)
    found = key_map(env, env.action_spaces[env.possible_agents[0]])
    env.close()
    return found


def _meaning(bindings: tuple[KeyBinding, ...]) -> dict[str, int | None]:
    return {"+".join(binding.keys): binding.action for binding in bindings}


def test_keys_of_a_pettingzoo_manual_policy_for_both_hands() -> None:
    keys = _keys("butterfly/knights_archers_zombies_v10")
    assert _meaning(keys.left) == {"KeyW": 0, "KeyS": 1, "KeyA": 2, "KeyD": 3, "Space": 4}
    assert _meaning(keys.right) == {"ArrowUp": 0, "ArrowDown": 1, "ArrowLeft": 2, "ArrowRight": 3, "Enter": 4}
    assert keys.rest == 5


def test_keys_of_gymnasiums_own_map() -> None:
    keys = _keys("gym/MountainCar-v0")
    assert _meaning(keys.right) == {"ArrowLeft": 0, "ArrowRight": 2, "ArrowRight+ArrowLeft": 1}
    assert keys.rest == 1
    assert held_action(keys, keys.both, ("ArrowRight",), ()) == 2
    assert held_action(keys, keys.both, ("ArrowRight", "ArrowLeft"), ()) == 1
    assert held_action(keys, keys.both, (), ()) == 1


def test_the_key_pressed_last_wins_and_an_env_without_rest_answers_none() -> None:
    keys = _keys("gym/CartPole-v1")
    assert held_action(keys, keys.both, ("ArrowLeft", "ArrowRight"), ()) == 1
    assert held_action(keys, keys.both, ("ArrowRight", "ArrowLeft"), ()) == 0
    assert held_action(keys, keys.both, (), ()) is None


def test_the_number_row_has_keys_for_ten_actions_and_later_ones_have_buttons_only() -> None:
    env, space = make_env("gym/CartPole-v1"), spaces.Discrete(12)
    turn = env.reset(0)
    numbered = {"Digit1": 0, "Digit2": 1, "Digit8": 7, "Digit9": 8, "Digit0": 9}
    found = _meaning(key_map(env, space).left)
    assert {key: found[key] for key in numbered} == numbered
    assert len(found) == 10
    (agent,) = env.possible_agents
    offered = choices(replace(env.spec, action_spaces={agent: space}), turn, agent)
    assert "/".join(choice.spots[0].key for choice in offered) == "1/2/3/4/5/6/7/8/9/0//"
    env.close()


def test_boards_have_spots_and_no_keys_to_hold() -> None:
    assert _keys("classic/tictactoe_v3").both == ()


@given(st.lists(st.sampled_from(["KeyA", "KeyD", "KeyW", "KeyS", "KeyQ"]), unique=True), st.lists(st.floats(-1, 1)))
def test_continuous_actions_stay_within_their_bounds(held: list[str], axes: list[float]) -> None:
    space = spaces.Box(np.array([-2, 0, -1], np.float32), np.array([2, 1, 1], np.float32))
    bindings = (
        KeyBinding(keys=("KeyA",), axis=0, value=-2.0),
        KeyBinding(keys=("KeyD",), axis=0, value=2.0),
        KeyBinding(keys=("KeyW",), axis=1, value=1.0),
        KeyBinding(keys=("KeyQ",), axis=2, value=-1.0),
    )
    action = held_action(KeyMap(space, bindings, (), None), bindings, held, axes)
    assert space.contains(action)
    if not held and not axes:
        assert action is not None
        assert action.tolist() == [0, 0, 0]


def test_a_stick_at_its_end_reaches_the_bound() -> None:
    space = spaces.Box(np.array([-2, 0], np.float32), np.array([2, 1], np.float32))
    keys = KeyMap(space, (), (), None)
    assert held_action(keys, (), (), (1.0, 1.0)).tolist() == [2, 1]  # type: ignore[union-attr]
    assert held_action(keys, (), (), (-1.0, -1.0)).tolist() == [-2, 0]  # type: ignore[union-attr]
    assert held_action(keys, (), (), (0.5, 0.0)).tolist() == [1, 0]  # type: ignore[union-attr]


def test_bindings_that_name_nothing_are_refused() -> None:
    with pytest.raises(InputError, match=r"KeyQ: there is no axis 3; axes are 0 to 0\."):
        check_bindings(spaces.Box(-1, 1, (1,)), [KeyBinding(keys=("KeyQ",), axis=3)])
    with pytest.raises(InputError, match="Keys cannot play actions"):
        check_bindings(spaces.MultiDiscrete([2, 2]), [KeyBinding(keys=("KeyQ",), action=0)])


@pytest.mark.parametrize(
    ("env_id", "real_time", "rate_hz"),
    [
        ("classic/tictactoe_v3", False, 2.0),
        ("classic/rps_v2", False, 2.0),
        ("gym/FrozenLake-v1", False, 2.0),
        ("gym/CartPole-v1", True, 50.0),
        ("gym/Pendulum-v1", True, 30.0),
        ("butterfly/cooperative_pong", True, 15.0),
    ],
)
def test_the_pace_follows_the_env(env_id: str, real_time: bool, rate_hz: float) -> None:
    env = make_env(env_id)
    assert plays_in_real_time(env, "auto", env.possible_agents) is real_time
    assert rate_of(env, real_time) == rate_hz
    assert plays_in_real_time(env, "turns", env.possible_agents) is False
    env.close()


def _wait_s(
    *, steps: int = 0, paused: bool = False, due_s: float = 10.5, real_time: bool = False, **facts: bool
) -> float:
    now_s = due_s - 0.5
    pace = Pace("real_time" if real_time else "turns", 2.0, lambda: now_s)
    pace.real_time = real_time
    pace.begin_time()
    pace.advance()
    pace.pause(paused)
    for _ in range(steps):
        pace.step_once()
    now_s = 10.0
    return pace.wait_s(**{"over": False, "watched": True, "people_play": True, "people_wait": False, **facts})


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, 0.0),
        ({"people_wait": True}, math.inf),
        ({"people_wait": True, "steps": 1}, math.inf),
        ({"people_play": False}, 0.5),
        ({"people_play": False, "steps": 1}, 0.0),
        ({"real_time": True}, 0.5),
        ({"real_time": True, "people_wait": True}, 0.5),
        ({"real_time": True, "due_s": 9.0}, 0.0),
        ({"paused": True}, math.inf),
        ({"paused": True, "steps": 1}, 0.0),
        ({"paused": True, "steps": 1, "real_time": True}, 0.0),
        ({"watched": False}, math.inf),
        ({"over": True, "steps": 1}, math.inf),
    ],
)
def test_when_the_next_step_is_taken(parts: dict[str, Any], expected: float) -> None:
    assert _wait_s(**parts) == expected


def test_a_single_step_pauses_and_is_taken_once() -> None:
    pace = Pace("turns", 2.0, lambda: 0.0)
    free = {"over": False, "watched": True, "people_play": False, "people_wait": False}
    pace.step_once()
    assert pace.paused
    assert pace.wait_s(**free) == 0.0
    pace.take_step()
    assert pace.wait_s(**free) == math.inf
    pace.step_once()
    pace.pause(True)  # takes back steps that were asked for
    assert pace.wait_s(**free) == math.inf


def test_after_a_delay_at_most_one_step_is_made_up_for() -> None:
    now_s = 0.0
    pace = Pace("real_time", 2.0, lambda: now_s)
    pace.real_time = True
    pace.begin_time()
    now_s = 60.0
    waits = []
    for _ in range(3):
        pace.advance()
        waits.append(pace.wait_s(over=False, watched=True, people_play=True, people_wait=False))
    assert waits == [0.0, 0.0, 0.5]


def test_seats_go_back_to_who_had_them() -> None:
    seats = PolicyAssignments(PolicyMapping.of({"a": "human", "b": "minimax"}))
    assert seats.back_of("a") == "minimax"
    seats.put("b", "human")
    assert seats.is_human("b")
    assert seats.back_of("b") == "minimax"
    seats.put("b", "random")
    seats.put("b", "human")
    assert seats.back_of("b") == "random"
    assert PolicyAssignments(PolicyMapping.of({"*": "human"})).back_of("a") == "random"
    assert PolicyAssignments(PolicyMapping.of({"a": "x", "b": "y", "c": "z"})).rotated("abc") == {
        "a": "z",
        "b": "x",
        "c": "y",
    }


def test_who_acts_for_whom() -> None:
    one, two = Viewer(lambda: None), Viewer(lambda: None, {"b"})
    assert acts_for(one, [one], ["a", "b"]) == ["a", "b"]
    assert acts_for(one, [one, two], ["a", "b"]) == ["a"]
    assert acts_for(two, [one, two], ["a", "b"]) == ["b"]
    assert who_acts(None, ["a"], ["b", "a"], human=False) == "a"
    with pytest.raises(InputError, match="take it over first"):
        who_acts("b", ["a"], ["b"], human=False)
    with pytest.raises(InputError, match="You watch; you have no agent"):
        who_acts(None, [], ["b"], human=False)


def test_spots_are_pressed_one_after_another() -> None:
    def choice(action: int, *names: str) -> Choice:
        return Choice(action, "".join(names), tuple(Spot(name, name) for name in names))

    among = (choice(1, "a", "b"), choice(2, "a", "c"), choice(3, "d"))
    assert [spot.id for spot in next_spots(among, ())] == ["a", "d"]
    assert [spot.id for spot in next_spots(among, ("a",))] == ["b", "c"]
    assert press(among, (), "a") == (None, ("a",))
    assert press(among, ("a",), "c") == (2, ())
    assert press(among, ("a",), "d") == (3, ())
    assert press(among, ("a",), "a") == (None, ())
    with pytest.raises(InputError, match=r"'x' cannot be chosen here after a\. You can choose: b, c\."):
        press(among, ("a",), "x")


def test_messages_are_read_strictly() -> None:
    assert read_message('{"type": "key", "code": "KeyA", "down": true}') == Key(type="key", code="KeyA", down=True)
    assert read_message('{"type": "assign", "agent": "a"}') == AssignPolicy(type="assign", agent="a")
    for wrong in ("", "[]", '{"type": "key", "code": "KeyA", "down": 1}', '{"type": "rate", "hz": 1e9}', '{"type": 3}'):
        with pytest.raises(InputError, match="does not understand this message"):
            read_message(wrong)


def test_actions_are_read_as_the_space_wants_them() -> None:
    assert read_action(spaces.Discrete(3), 2) == 2
    read = read_action(spaces.Box(-1, 1, (2,)), [0.5, 1])
    assert read.dtype == np.float32
    assert read.tolist() == [0.5, 1]
    with pytest.raises(InputError, match="is not an action of"):
        read_action(spaces.Box(-1, 1, (2,)), [0.5])
    with pytest.raises(InputError, match="is not an action of"):
        read_action(spaces.Discrete(3), [1])
