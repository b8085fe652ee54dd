"""Rollouts as tensors, here on the CPU: their mathematics against the compiled one, learning, and resumption."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest
import torch

from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError
from mosaic.envs.vector.encoding import ActionHead
from mosaic.envs.vector.layout import VectorShape
from mosaic.learners.base import Assembled
from mosaic.learners.ppo.algorithm import PpoLearner
from mosaic.learners.ppo.build import assemble
from mosaic.learners.ppo.gae import advantages
from mosaic.learners.rollout.arrays import WINDOW, make_track
from mosaic.learners.rollout.tensor_buffers import (
    estimate_advantages,
    make_results,
    make_tensor_rollout,
    record_episodes,
    record_step,
)
from mosaic.learners.rollout.tensors import TensorRollouts
from mosaic.workers.native.worker import NativePpoOptions
from tests.learners.test_learning_gates import losing_lines

CPU = torch.device("cpu")
F = np.float32


def shape(envs: int, agents: int, *, turn_based: bool) -> VectorShape:
    names = tuple(f"agent_{number}" for number in range(agents))
    return VectorShape(envs, names, turn_based, (3,) * agents, (ActionHead("categorical", (2,)),) * agents, False)


@pytest.mark.parametrize(("agents", "turn_based"), [(1, False), (3, False), (2, True)])
@pytest.mark.parametrize("seed", range(5))
def test_advantages_are_those_of_the_compiled_loop(agents: int, turn_based: bool, seed: int) -> None:
    """Policies differ in their discounts; agents take turns in any order."""
    envs, steps, random = 7, 23, np.random.default_rng(seed)
    layout = shape(envs, agents, turn_based=turn_based)
    track, slots = make_track(layout, steps), layout.slots_per_env
    ended = random.random((steps, envs)) < 0.2
    cut = ended & (random.random((steps, envs)) < 0.5) & (not turn_based)
    track.reward[:] = random.normal(size=track.reward.shape)
    track.value[:] = random.normal(size=track.value.shape)
    track.ended[:] = np.repeat(ended, agents, axis=1)
    track.bootstrap[:] = np.repeat(cut, agents, axis=1) * random.normal(size=track.bootstrap.shape)
    track.policy_of[:] = random.integers(0, 2, track.policy_of.shape)
    if turn_based:
        track.who[:] = random.integers(0, agents, track.who.shape)
    else:
        track.who[:] = np.tile(np.arange(agents), envs)
    gamma, lam = np.array([0.9, 0.99], F), np.array([0.8, 1.0], F)
    adv, ret = np.zeros(steps * layout.slots, F), np.zeros(steps * layout.slots, F)
    known = np.zeros(steps * layout.slots, np.uint8)
    advantages(track, agents, gamma, lam, np.ones(agents, F), adv, ret, known)

    rollout = make_tensor_rollout(layout, steps, CPU)
    rollout.reward.copy_(torch.from_numpy(track.reward).view_as(rollout.reward))
    rollout.value.copy_(torch.from_numpy(track.value).view_as(rollout.value))
    rollout.ended.copy_(torch.from_numpy(ended))
    rollout.bootstrap.copy_(torch.from_numpy(track.bootstrap).view_as(rollout.bootstrap))
    rollout.decider.copy_(torch.from_numpy(track.policy_of).view_as(rollout.decider))
    if rollout.who is not None:
        rollout.who.copy_(torch.from_numpy(track.who))
    estimate_advantages(rollout, torch.from_numpy(gamma), torch.from_numpy(lam))
    of_outcome = known > 0
    np.testing.assert_array_equal(rollout.known.flatten().numpy(), of_outcome)
    np.testing.assert_allclose(rollout.adv.flatten().numpy()[of_outcome], adv[of_outcome], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(rollout.ret.flatten().numpy()[of_outcome], ret[of_outcome], rtol=1e-4, atol=1e-5)
    assert slots == rollout.adv.shape[2]
    assert turn_based == bool((known == 0).any())


def test_the_last_episodes_and_the_scores() -> None:
    """Two agents, one learner, two frozen places: the third env is self-play."""
    layout, steps = shape(3, 2, turn_based=True), 60
    policy_of = torch.tensor([[0, 1], [2, 0], [0, 0]])
    results = make_results(layout, steps, 1, 2, policy_of)
    results.rated[1] = False
    ended = torch.zeros(steps, 3, dtype=torch.bool)
    ended[1::2, 0] = True  # 30 games of two steps, each won by agent 0: the learner
    ended[2::3, 1] = True  # 20 games of three steps, won by agent 0: the second place; the first game does not count
    ended[-1, 2] = True
    reward = torch.tensor([[1.0, -1.0], [1.0, -1.0], [0.0, 0.0]])
    for time in range(steps):
        record_step(results, time, torch.where(ended[time][:, None], reward, 0.0), ended[time], self_play=True)
    record_episodes(results, ended, self_play=True)
    assert results.scores.tolist() == [[30, 0, 0], [0, 0, 19]]
    assert results.selfplay.tolist() == [0, 1, 0]
    assert results.finished.tolist() == [30 + 20 + 2, 30 + 20 + 1]
    lengths = results.recent_length[:51]
    assert sorted(lengths.tolist()) == [2] * 30 + [3] * 20 + [60]
    for _ in range(3):  # the ring is overwritten from its oldest
        record_episodes(results, ended, self_play=True)
    assert results.finished.tolist() == [4 * 52, 4 * 51]
    assert sorted(results.recent_length[:WINDOW].tolist()).count(3) in (39, 40)


def made(env_id: str, policies: str = "parameter_sharing", envs: int = 64, seed: int = 0, **options: Any) -> Assembled:
    config = RunConfig.model_validate(
        {"environment": {"env_id": env_id, "num_envs": envs}, "policy_configuration": policies, "seed": seed,
         "training": {"total_timesteps": options.pop("total", 200_000)}}
    )  # fmt: skip
    return assemble(config, NativePpoOptions(engine="torch", device="cpu", env_device="learner", **options))


QUICK = {
    "n_steps": 32,
    "batch_size": 256,
    "n_epochs": 8,
    "learning_rate": 3e-3,
    "share_layers": True,
    "hidden": (32, 32),
}


@pytest.mark.slow
def test_cartpole_is_learned() -> None:
    assembled = made("gym/CartPole-v1", gae_lambda=0.8, gamma=0.98, **{**QUICK, "n_epochs": 4})
    assert "tensors on the learner's device" in assembled.said
    with closing(assembled.learner) as learner:
        while learner.env_steps < 150_000 and (learner.progress().return_mean or 0) < 150:
            learner.iterate()
        progress = learner.progress()
        assert progress.return_mean is not None
        assert progress.return_mean >= 150  # random play lasts 22 steps
        assert progress.agent_steps == progress.env_steps == learner.env_steps


@pytest.mark.slow
def test_tictactoe_is_learned_by_self_play() -> None:
    """Snapshots of the learner play in half of the envs; greedy play must not lose against most moves."""
    assembled = made("classic/tictactoe_v3", "self_play", envs=256, total=1_000_000, ent_coef=0.02, gamma=1.0,
                     **{**QUICK, "n_steps": 16, "batch_size": 1024, "n_epochs": 4})  # fmt: skip
    with closing(assembled.learner) as learner:
        assert isinstance(learner, PpoLearner)
        while learner.env_steps < 600_000:
            learner.iterate()
        league = learner.league
        assert league is not None
        assert len(league.snapshots) > 5
        assert learner.workers[0].tally.selfplay.sum() > 1000
        assert losing_lines(assembled) < 120  # about 500 before; the fused engine comes to 45–49 on three seeds


@pytest.mark.parametrize("policies", ["parameter_sharing", "independent"])
def test_all_agents_learn(policies: str) -> None:
    assembled = made("mpe/simple_spread_v3", policies, envs=8, **{**QUICK, "n_steps": 30})
    with closing(assembled.learner) as learner:
        first = [learner.weights(policy) for policy in range(len(learner.plan.names))]
        learner.iterate()
        assert len(first) == (1 if policies == "parameter_sharing" else 3)
        for policy, before in enumerate(first):
            assert not np.array_equal(before, learner.weights(policy))
        progress = learner.progress()
        assert progress.episodes == 8
        assert progress.lengths.tolist() == [25] * 8
        assert all({"policy_loss", "value_loss", "entropy", "gradient_norm"} <= loss.keys() for loss in progress.losses)


@pytest.mark.parametrize(
    ("env_id", "policies"), [("gym/CartPole-v1", "parameter_sharing"), ("classic/tictactoe_v3", "self_play")]
)
def test_a_new_attempt_continues_exactly(env_id: str, policies: str) -> None:
    options = {**QUICK, "n_steps": 16, "snapshot_every_steps": 1000}
    straight, first, second = (made(env_id, policies, envs=32, **options).learner for _ in range(3))
    with closing(straight), closing(first), closing(second):
        for _ in range(6):
            straight.iterate()
        for _ in range(3):
            first.iterate()
        state, progress = first.training_state(), first.progress()
        second.before.env_steps = progress.env_steps
        second.before.agent_steps, second.before.episodes = progress.agent_steps, progress.episodes
        second.load_training_state([first.weights(0)], state)
        for _ in range(3):
            second.iterate()
        np.testing.assert_array_equal(straight.weights(0), second.weights(0))
        assert straight.progress().episodes == second.progress().episodes
        assert straight.progress().return_mean == second.progress().return_mean
        if policies == "self_play":  # games that run at a checkpoint count, as they would have
            for name, array in straight.training_state().items():
                if name.startswith("league."):
                    np.testing.assert_array_equal(array, second.training_state()[name], err_msg=name)


@pytest.mark.parametrize("on_device", [True, False])
def test_a_checkpoint_is_continued_by_the_other_engine(on_device: bool) -> None:
    """From tensors to the compiled envs and back: the weights and moments are the same, episodes begin again."""
    config = RunConfig.model_validate({"environment": {"env_id": "gym/CartPole-v1", "num_envs": 16}})
    fused = assemble(config, NativePpoOptions(**QUICK)).learner
    tensors = made("gym/CartPole-v1", envs=16, **QUICK).learner
    old, new = (tensors, fused) if on_device else (fused, tensors)
    with closing(old), closing(new):
        old.iterate()
        new.load_training_state([old.weights(0)], old.training_state())
        np.testing.assert_array_equal(old.weights(0), new.weights(0))
        for name in ("first", "second", "count"):
            key = f"{old.plan.names[0]}/optimiser.{name}"
            np.testing.assert_allclose(old.training_state()[key], new.training_state()[key], rtol=1e-6)
        new.iterate()
        assert not np.array_equal(old.weights(0), new.weights(0))


def test_what_cannot_be_done_on_the_device_is_refused_or_left_to_the_cpu() -> None:
    for env_id, options, message in (
        ("gym/LunarLander-v3", {}, "has no form as tensors; these have: classic/connect_four"),
        ("gym/CartPole-v1", {"normalize_observations": True}, "observations or rewards are normalised"),
        ("gym/CartPole-v1", {"target_kl": 0.1}, "target_kl ends an update early"),
    ):
        with pytest.raises(InputError, match=message):
            made(env_id, **options)
    config = RunConfig.model_validate({"environment": {"env_id": "gym/CartPole-v1"}})
    with pytest.raises(InputError, match="fused engine does not support env_device=learner"):
        assemble(config, NativePpoOptions(engine="fused", env_device="learner"))
    with closing(assemble(config, NativePpoOptions(engine="torch", device="cpu")).learner) as learner:
        assert isinstance(learner, PpoLearner)
        assert not isinstance(learner.workers[0], TensorRollouts)
