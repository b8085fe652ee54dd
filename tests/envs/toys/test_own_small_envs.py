"""Our own envs that a plain net, alone and with its own critic, cannot solve."""

from __future__ import annotations

import numpy as np
import pytest

from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.envs.toys.probes import CopyDuel, Pair
from mosaic.testing import check_env

AGENT = "agent_0"


def played(env, seed, decide):
    """Returns of one episode, with all its Turns."""
    turn = env.reset(seed)
    seen, returns = [turn], dict.fromkeys(env.possible_agents, 0.0)
    while not turn.over:
        turn = env.step(decide(turn))
        seen.append(turn)
        for agent, reward in turn.rewards.items():
            returns[agent] += reward
    return returns, seen


@pytest.mark.parametrize(
    ("env_id", "options", "picture"),
    [
        ("mosaic/catch_pixels", {}, (320, 320)),
        ("mosaic/catch_pixels", {"size": 8}, (320, 320)),
        ("mosaic/recall", {}, (64, 192)),
        ("mosaic/recall", {"delay": 0, "cues": 5}, (64, 384)),
        ("mosaic/blind_pair", {}, (128, 384)),
        ("mosaic/blind_pair", {"delay": 1, "cues": 2, "tide": 0}, (128, 256)),
    ],
)
def test_they_keep_the_contract(env_id, options, picture):
    report = check_env(lambda: make_env(env_id, **options))
    assert report.picture == picture
    assert report.episodes_ended > 0
    assert not report.turn_based


@pytest.mark.parametrize("make", [Pair, CopyDuel])
def test_the_probes_of_two_agents_keep_the_contract(make):
    assert check_env(make).turn_based == (make is CopyDuel)


# -- catch_pixels


def chase(turn):
    """Ball and paddle are read from the picture alone."""
    picture = turn.observations[AGENT]
    ball = np.argwhere(picture[..., 0] == 249)[0, 1]
    paddle = np.flatnonzero(picture[-1, :, 2] == 248).mean()
    return {AGENT: 1 + int(np.sign(ball - paddle))}


@pytest.mark.parametrize("size", [8, 15, 16])
def test_every_ball_can_be_caught_by_whoever_looks(size):
    env = make_env("mosaic/catch_pixels", size=size)
    results = [played(env, seed, chase) for seed in range(60)]
    assert {returns[AGENT] for returns, _ in results} == {1.0}
    assert {len(seen) for _, seen in results} == {size}


def test_whoever_stands_still_catches_few():
    env = make_env("mosaic/catch_pixels")
    caught = [played(env, seed, lambda turn: {AGENT: 1})[0][AGENT] for seed in range(200)]
    assert np.mean(caught) == pytest.approx(3 / 16, abs=0.08)


# -- recall


class Remembers:
    def __init__(self):
        self.cue = 0

    def __call__(self, turn):
        seen = turn.observations[AGENT]
        if seen[:-1].any():
            self.cue = int(seen[:-1].argmax())
        return {AGENT: self.cue}


@pytest.mark.parametrize(("delay", "cues"), [(0, 2), (4, 2), (9, 6)])
def test_memory_solves_recall(delay, cues):
    env = make_env("mosaic/recall", delay=delay, cues=cues)
    results = [played(env, seed, Remembers()) for seed in range(40)]
    assert {returns[AGENT] for returns, _ in results} == {1.0}
    assert {len(seen) for _, seen in results} == {delay + 3}  # the cue, the delay, the question, the end


def test_after_the_cue_every_episode_looks_the_same():
    env = make_env("mosaic/recall")
    nothing = [0.0, 0.0, 0.0]
    cues = set()
    for seed in range(20):
        _, seen = played(env, seed, lambda turn: {AGENT: 0})
        shown = [turn.observations[AGENT].tolist() for turn in seen[:-1]]
        cues.add(tuple(shown[0]))
        assert shown[1:] == [nothing] * 4 + [[0.0, 0.0, 1.0]]
    assert cues == {(1.0, 0.0, 0.0), (0.0, 1.0, 0.0)}


# -- blind_pair


def both_right(turn):
    seer, blind = turn.observations["seer"], turn.observations["blind"]
    return {"seer": int(seer[2] > 0), "blind": int(blind[4:].argmax())}


def blind_wrong(turn):
    actions = both_right(turn)
    return {**actions, "blind": (actions["blind"] + 1) % 4}


@pytest.mark.parametrize(("decide", "mean"), [(both_right, 1.0), (blind_wrong, 0.5)])
def test_the_tide_cancels_in_the_mean_and_the_lamp_tells(decide, mean):
    env = make_env("mosaic/blind_pair", tide=7.0)
    tides = set()
    for seed in range(30):
        returns, seen = played(env, seed, decide)
        assert sum(returns.values()) / 2 == pytest.approx(mean)
        tide = seen[1].rewards["seer"]
        tides.add(tide)
        assert seen[1].rewards["blind"] == -tide
        assert tide == 7.0 * seen[0].observations["seer"][1]
        assert {turn.observations["seer"][2] for turn in seen[1:-1]} == {1.0 if mean == 1.0 else -1.0}
    assert tides == {-7.0, 7.0}


def test_the_blind_one_sees_neither_tide_nor_lamp():
    env = make_env("mosaic/blind_pair")
    for seed in range(10):
        _, seen = played(env, seed, both_right)
        shown = np.array([turn.observations["blind"] for turn in seen[:-1]])
        assert not shown[:, 1:3].any()
        assert shown[0, 4:].sum() == 1
        assert not shown[1:, 4:].any()


def test_wrong_steps_of_the_pair_are_refused():
    env = make_env("mosaic/blind_pair")
    with pytest.raises(RuntimeError, match="call reset"):
        env.step({"seer": 0, "blind": 0})
    env.reset(0)
    with pytest.raises(ValueError, match=r"Actions for \['seer'\], but \['blind', 'seer'\] must act"):
        env.step({"seer": 0})


@pytest.mark.parametrize(
    ("env_id", "options", "message"),
    [
        ("mosaic/catch_pixels", {"size": 7}, "mosaic/catch_pixels: .*size"),
        ("mosaic/recall", {"delays": 3}, "mosaic/recall: .*Did you mean 'delay'"),
        ("mosaic/blind_pair", {"cues": 1}, "mosaic/blind_pair: .*cues"),
    ],
)
def test_wrong_options(env_id, options, message):
    with pytest.raises(InputError, match=message):
        make_env(env_id, **options)
