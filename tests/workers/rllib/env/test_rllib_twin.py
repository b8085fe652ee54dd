"""Compiled envs sampled all at once give the episodes that RLlib's own runner would give."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ray.rllib.core.columns import Columns

from mosaic.envs.catalog import make_env
from mosaic.workers.rllib.config.build import configure, has_twin, runner_class
from mosaic.workers.rllib.config.setup import RllibSetup
from mosaic.workers.rllib.env.twin_episodes import TwinStep, pieces_of
from mosaic.workers.rllib.env.twin_runner import TwinEnvRunner
from tests.workers.rllib.rllib_setups import make_setup

SPREAD = "mpe/simple_spread_v3"


def runner_of(setup: RllibSetup) -> Any:
    return TwinEnvRunner(config=configure(setup), worker_index=0)


@pytest.mark.parametrize(
    ("env", "said", "fits"),
    [
        (SPREAD, {}, True),
        (SPREAD, {"policy_configuration": "shared_value_function"}, True),
        ("mpe/simple_tag_v3", {"policy_configuration": "independent"}, True),
        (SPREAD, {"params": {"use_lstm": True}}, False),
        (SPREAD, {"params": {"observation_filter": "MeanStdFilter"}}, False),
        (SPREAD, {"agents": {"agent_0": "random"}}, False),
        (SPREAD, {"env_options": {"continuous_actions": True}}, False),
        ("classic/tictactoe_v3", {}, False),
        ("gym/CartPole-v1", {}, False),
    ],
)
def test_only_envs_whose_agents_act_and_end_together_are_sampled_at_once(
    tmp_path: Path, env: str, said: dict[str, Any], fits: bool
):
    setup = make_setup(tmp_path, env, **said)
    assert has_twin(setup) == fits
    assert (runner_class(setup) is TwinEnvRunner) == fits


def test_pieces_follow_the_ends_of_episodes():
    """Two envs with one agent that sees the number of the step; the first env ends with its second step."""

    def step(number: int, *, over: tuple[bool, bool]) -> TwinStep:
        column = np.full((2, 1), number)
        return TwinStep(
            np.full((2, 1, 1), number, np.float32),
            column,
            column.astype(np.float32),
            np.zeros((2, 1), np.bool_),
            np.array(over)[:, np.newaxis],
            np.full((2, 1, 1), 90 + number, np.float32),
            {"m": {"logp": column}},
        )

    steps = [step(0, over=(False, False)), step(1, over=(True, False)), step(2, over=(False, False))]
    found = list(pieces_of(steps, np.full((2, 1, 1), 3, np.float32)))
    assert [(piece.env, piece.over, piece.shown.ravel().tolist()) for piece in found] == [
        (0, True, [0, 1, 91]),
        (0, False, [2, 3]),
        (1, False, [0, 1, 2, 3]),
    ]
    assert [piece.extras["m"]["logp"].ravel().tolist() for piece in found] == [[0, 1], [2], [0, 1, 2]]


@pytest.mark.parametrize("said", [{}, {"policy_configuration": "shared_value_function"}], ids=["own", "central"])
def test_an_episode_is_what_the_env_itself_would_have_shown(tmp_path: Path, said: dict[str, Any]):
    """The actions of a sampled episode, played again in the reference env from the same world."""
    setup = make_setup(tmp_path, SPREAD, seed=4, **said)
    runner = runner_of(setup)
    reference: Any = make_env(SPREAD)
    reference.reset(seed=0)
    runner._begin()
    vector = runner._vector
    assert (
        vector.state.shape[1] == 4 * 3 + 2 * 3 + 1
    )  # positions and velocities of agents, positions of landmarks, the camera's range
    vector.kernel.load(reference, vector.state[0].copy(), vector.ints[0].copy())
    episode = next(e for e in _sampled(runner, 60) if e.env_t_started == 0 and e.is_done)
    parts = episode.agent_episodes
    for t in range(25):
        turn = reference.step({agent: int(part.actions.data[t]) for agent, part in parts.items()})
        for agent, part in parts.items():
            seen = part.observations.data["observation"] if said else part.observations.data
            shown = turn.observations if t < 24 else turn.final_observations
            assert np.allclose(seen[t + 1], shown[agent], atol=1e-5)
            assert np.isclose(part.rewards.data[t], turn.rewards[agent], atol=1e-4)
    if said:
        states = parts["agent_1"].observations.data["state"]
        together = np.concatenate([parts[agent].observations.data["observation"] for agent in parts], axis=1)
        assert np.array_equal(states[:, :-3], together)
        assert np.array_equal(states[:, -3:], np.tile([0, 1, 0], (26, 1)))


def _sampled(runner: Any, steps: int) -> list[Any]:
    runner._needs_initial_reset = False  # begun already, and its first world is known
    return list(runner.sample(num_timesteps=steps))


def test_pieces_of_one_episode_go_on_where_the_last_one_was_cut(tmp_path: Path):
    runner = runner_of(make_setup(tmp_path, SPREAD, seed=4))
    first, second = runner.sample(num_timesteps=20), runner.sample(num_timesteps=40)
    assert [len(episode) for episode in first] == [10, 10]
    assert sorted(len(episode) for episode in second) == [5, 5, 15, 15]
    for before in first:
        after = next(episode for episode in second if episode.id_ == before.id_)
        assert after.env_t_started == 10
        assert after.is_truncated
        assert not after.is_terminated
        last = before.agent_episodes["agent_0"].observations.data[-1]
        assert np.array_equal(last, after.agent_episodes["agent_0"].observations.data[0])
    metrics = runner.get_metrics()
    assert metrics["num_env_steps_sampled"].peek() == 60
    assert metrics["episode_len_mean"].peek() == 25
    assert metrics["num_module_steps_sampled"]["shared"].peek() == 180


def test_what_a_module_says_belongs_to_what_it_was_shown(tmp_path: Path):
    runner = runner_of(make_setup(tmp_path, "mpe/simple_tag_v3", seed=4, policy_configuration="independent"))
    for episode in runner.sample(num_timesteps=40):
        episode.validate()
        for agent, part in episode.agent_episodes.items():
            assert part.module_id == agent
            seen = torch.from_numpy(part.observations.data[:-1].copy())
            logits = runner.module[agent].forward_inference({Columns.OBS: seen})[Columns.ACTION_DIST_INPUTS]
            kept = part.extra_model_outputs
            assert np.allclose(logits, kept[Columns.ACTION_DIST_INPUTS].data, atol=1e-5)
            chances = torch.log_softmax(logits, dim=-1).numpy()
            chosen = chances[np.arange(len(part)), part.actions.data]
            assert np.allclose(chosen, kept[Columns.ACTION_LOGP].data, atol=1e-5)


def test_whole_episodes_begin_anew(tmp_path: Path):
    runner = runner_of(make_setup(tmp_path, SPREAD, seed=4))
    runner.sample(num_timesteps=20)
    found = runner.sample(num_episodes=2, explore=False)
    assert [(len(episode), episode.env_t_started, episode.is_done) for episode in found] == [(25, 0, True)] * 2


@pytest.mark.parametrize("algorithm", ["dqn", "sac", "appo"])
def test_every_algorithm_can_be_sampled_at_once(tmp_path: Path, algorithm: str):
    runner = runner_of(make_setup(tmp_path, SPREAD, algorithm, seed=4))
    for episode in runner.sample(num_timesteps=20):
        for part in episode.agent_episodes.values():
            assert set(part.actions.data.tolist()) <= set(range(5))


def test_callbacks_see_what_an_episode_has_paid_so_far(tmp_path: Path):
    runner = runner_of(make_setup(tmp_path, SPREAD, seed=4))
    runner._begin()
    running = runner._ongoing_episodes[1]
    paid = []
    for _ in range(3):
        runner._steps.append(runner._step(True, False))
        paid.append(float(runner._vector.rew.reshape(2, 3)[1, 2]))
    part = running.agent_episodes["agent_2"]
    assert (list(part.rewards), len(part)) == (paid, 3)
    assert part.get_return() == pytest.approx(sum(paid))
    assert runner.env.envs[1].render().ndim == 3
