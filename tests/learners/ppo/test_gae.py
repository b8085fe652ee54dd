"""Advantages of any number of agents against a slow reading of the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from mosaic.envs.vector.encoding import ActionHead
from mosaic.envs.vector.layout import VectorShape
from mosaic.learners.ppo.gae import advantages, rows_of
from mosaic.learners.rollout.arrays import Track, make_track

F = np.float32


def shape_of(envs: int, agents: int, turn_based: bool) -> VectorShape:
    names = tuple(f"agent_{k}" for k in range(agents))
    head = ActionHead("categorical", (2,))
    return VectorShape(envs, names, turn_based, (1,) * agents, (head,) * agents, False)


def estimate(track: Track, agents: int, gamma: float, lam: float) -> tuple[NDArray[F], NDArray[F], NDArray[np.uint8]]:
    steps, slots = track.policy_of.shape
    adv, ret = np.zeros(steps * slots, F), np.zeros(steps * slots, F)
    known = np.zeros(steps * slots, np.uint8)
    advantages(track, agents, np.array([gamma], F), np.array([lam], F), np.ones(agents, F), adv, ret, known)
    return adv, ret, known


def by_definition(track: Track, agents: int, gamma: float, lam: float) -> dict[int, float]:
    """Place → advantage, one (env, agent) after another, forwards in time."""
    steps, slots = track.policy_of.shape
    envs = track.reward.shape[1] // agents
    per_env = slots // envs
    found = {}
    for env in range(envs):
        for agent in range(agents):
            row = env * agents + agent
            decisions = [
                (time, slot)
                for time in range(steps + 1)
                for slot in range(env * per_env, (env + 1) * per_env)
                if track.active[time, slot] and track.who[time, slot] == agent
            ]
            errors: list[tuple[int, float, bool] | None] = []
            for number, (time, slot) in enumerate(decisions):
                if time == steps:
                    break
                until = decisions[number + 1][0] if number + 1 < len(decisions) else steps
                paid, after, ended = 0.0, None, False
                for t in range(time, until):
                    paid += float(track.reward[t, row])
                    if track.ended[t, row]:
                        after, ended = float(track.bootstrap[t, row]), True
                        break
                if after is None and number + 1 < len(decisions):
                    later, at = decisions[number + 1]
                    after = float(track.value[later, at])
                place = time * slots + slot
                if after is None:
                    errors.append(None)
                else:
                    errors.append((place, paid + gamma * after - float(track.value[time, slot]), ended))
            for number, error in enumerate(errors):
                if error is None:
                    continue
                total, factor = 0.0, 1.0
                for later in errors[number:]:
                    if later is None:
                        break
                    total += factor * later[1]
                    factor *= gamma * lam
                    if later[2]:
                        break
                found[error[0]] = total
    return found


@st.composite
def tracks(draw: st.DrawFn) -> tuple[Track, int]:
    agents = draw(st.integers(1, 3))
    turn_based = agents > 1 and draw(st.booleans())
    envs, steps = draw(st.integers(1, 3)), draw(st.integers(1, 12))
    generator = np.random.default_rng(draw(st.integers(0, 2**32)))
    shape = shape_of(envs, agents, turn_based)
    track = make_track(shape, steps)
    track.value[:] = generator.normal(size=track.value.shape)
    track.reward[:] = generator.normal(size=track.reward.shape)
    if turn_based:
        track.who[:] = generator.integers(0, agents, track.who.shape)
        over = generator.random((steps, envs)) < 0.2  # a game ends for everybody
        track.ended[:] = np.repeat(over, agents, axis=1)
    else:
        track.who[:] = np.tile(np.arange(agents), envs)
        _let_die(track, generator, envs, agents)
    cut = (generator.random(track.ended.shape) < 0.5) & (track.ended > 0)
    track.bootstrap[:] = np.where(cut, generator.normal(size=track.ended.shape), 0.0)
    return track, agents


def _let_die(track: Track, generator: np.random.Generator, envs: int, agents: int) -> None:
    """Agents end one by one; when all have, everybody lives again."""
    steps = track.policy_of.shape[0]
    for env in range(envs):
        alive = np.ones(agents, bool)
        for time in range(steps + 1):
            slots = slice(env * agents, (env + 1) * agents)
            track.active[time, slots] = alive
            if time == steps:
                break
            ends = alive & (generator.random(agents) < 0.3)
            track.ended[time, slots] = ends
            track.reward[time, slots] *= alive
            alive &= ~ends
            if not alive.any():
                alive[:] = True


@settings(max_examples=60, deadline=None)
@given(tracks(), st.floats(0, 1), st.floats(0, 1))
def test_every_agents_decisions_form_a_trajectory_of_their_own(
    case: tuple[Track, int], gamma: float, lam: float
) -> None:
    track, agents = case
    adv, ret, known = estimate(track, agents, gamma, lam)
    expected = by_definition(track, agents, gamma, lam)
    assert set(np.flatnonzero(known)) == set(expected)
    value = track.value[:-1].ravel()
    for place, advantage in expected.items():
        assert adv[place] == pytest.approx(advantage, rel=1e-4, abs=1e-4)
        assert ret[place] == pytest.approx(advantage + value[place], rel=1e-4, abs=1e-4)


def test_a_cut_episode_is_worth_what_its_last_observation_promises() -> None:
    track = make_track(shape_of(1, 1, turn_based=False), 1)
    track.value[:, 0] = 5.0, 99.0  # the second belongs to the next episode
    track.reward[0, 0], track.ended[0, 0], track.bootstrap[0, 0] = 1.0, 1, 10.0
    adv, _, _ = estimate(track, 1, 0.9, 0.95)
    assert adv[0] == pytest.approx(1.0 + 0.9 * 10.0 - 5.0)


def test_rewards_are_scaled_per_agent() -> None:
    track = make_track(shape_of(1, 2, turn_based=False), 1)
    track.who[:] = [[0, 1], [0, 1]]
    track.reward[:], track.ended[:] = 1.0, 1
    adv, ret, known = np.zeros(2, F), np.zeros(2, F), np.zeros(2, np.uint8)
    advantages(track, 2, np.ones(1, F), np.ones(1, F), np.array([0.5, 3.0], F), adv, ret, known)
    assert adv.tolist() == [0.5, 3.0]


def test_a_policy_learns_from_its_own_known_rows() -> None:
    policy_of = np.array([[0, 1], [1, 0]])
    idx = np.zeros(4, np.int64)
    assert rows_of(policy_of, np.array([1, 1, 0, 1], np.uint8), 0, idx) == 2
    assert idx[:2].tolist() == [0, 3]
    assert rows_of(policy_of, np.array([1, 1, 0, 1], np.uint8), 1, idx) == 1
    assert idx[0] == 1
