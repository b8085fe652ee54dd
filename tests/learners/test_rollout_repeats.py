"""Rollouts that repeat: the same seed, saved scalers, threads, resumed envs."""

import numpy as np
import pytest

from mosaic.core.seeding import child_seed
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.vector import CompiledVector
from mosaic.envs.vector.encoding import action_code, row_code
from mosaic.learners.ppo import build
from mosaic.learners.rollout.compiled_memory import CompiledMemoryRollouts
from mosaic.learners.rollout.python import PythonRollouts
from mosaic.models.fused import build_model, make_scratch, probabilities
from mosaic.policies.network import NetworkPolicyController
from tests.learners.small_runs import SPREAD, assembled, learner, trained_weights

CARTPOLE, TAG, ADVERSARY = "gym/CartPole-v1", "mpe/simple_tag_v3", "mpe/simple_adversary_v3"
FADING = "python:mosaic.testing.toys:Fading"


def test_a_saved_scaler_shows_observations_as_training_does():
    with assembled(CARTPOLE, {"normalize_observations": True, "threads": 1}) as whole:
        made, worker = whole.learner, whole.learner.workers[0]
        for _ in range(3):
            made.iterate()
        moments = made.scaler(0)
        assert abs(moments.shift).sum() > 0
        rows = {"agent_0": row_code(whole.spec.observation_spaces["agent_0"])}
        actions = {"agent_0": action_code(whole.spec.action_spaces["agent_0"])}
        scaler = moments.shift, moments.scale
        player = NetworkPolicyController(whole.architectures[0], made.weights(0), rows, actions, scaler)
        worker.collect()  # by the weights and the scaler of now
        shown = worker.buffer.rows.obs
        raw = shown / moments.scale + moments.shift
        model = build_model(whole.architectures[0])
        odds = np.zeros((len(shown), 2), np.float32)
        everything = np.zeros((0, 2), np.uint8)
        probabilities(made.weights(0), model, shown, everything, make_scratch(model, len(shown)), odds)
        env = make_env(CARTPOLE)
        turn = env.reset(0)
        env.close()
        player.begin(("agent_0",), 0)
        sure = np.flatnonzero((np.abs(shown).max(axis=1) < 10) & (np.abs(odds[:, 0] - 0.5) > 1e-3))
        assert len(sure) > 40
        played = [player.act(turn._replace(observations={"agent_0": raw[row]}))["agent_0"] for row in sure]
        np.testing.assert_array_equal(played, odds[sure].argmax(axis=1))


def test_a_snapshot_keeps_the_scaler_of_its_day():
    options = {"normalize_observations": True, "snapshot_every_steps": 10**9, "league_places": 1}
    with learner(SPREAD, options, envs=4, policy_configuration="self_play") as made:
        made.iterate()
        made.snapshot()
        worker = made.workers[0]
        frozen = worker.policies._pool.shift[1].copy()
        np.testing.assert_array_equal(frozen, made.scaler(0).shift)
        made.iterate()
        np.testing.assert_array_equal(worker.policies._pool.shift[1], frozen)
        assert not np.array_equal(made.scaler(0).shift, frozen)


@pytest.mark.parametrize(("engine", "threads"), [("fused", 1), ("fused", 2), ("torch", 1)])
def test_the_same_seed_gives_the_same_weights(engine, threads):
    options = {"engine": engine, "threads": threads, "normalize_observations": True}
    kind = {"policy_configuration": "independent", "envs": 4}
    first, again = (trained_weights(SPREAD, options, 2, seed=3, **kind) for _ in range(2))
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(first[0], trained_weights(SPREAD, options, 2, seed=4, **kind)[0])


def test_threads_share_a_minibatch_and_make_as_many_steps_as_one():
    def steps(threads):
        with learner(CARTPOLE, {"threads": threads, "batch_size": 64}) as made:
            made.iterate()
            return [worker.policies.training_state(0)["optimiser.count"].item() for worker in made.workers]

    assert steps(1) == [4]  # two epochs of 8 × 16 rows
    assert steps(2) == [4, 4]


def test_the_torch_engine_steps_compiled_twins_and_learns_there():
    with assembled(CARTPOLE, {"engine": "torch", "n_steps": 64, "n_epochs": 4, "memory": "gru"}, envs=16) as made:
        assert isinstance(made.learner.vector, CompiledVector)
        assert made.said.startswith("torch engine (asked for), 16 × gym/CartPole-v1 (compiled twin), 64 steps")
        before = made.learner.weights(0)
        made.learner.iterate()
        assert not np.array_equal(made.learner.weights(0), before)


def test_learner_and_frozen_places_do_not_share_chance_in_torch():
    with learner("classic/tictactoe_v3", {"engine": "torch"}, policy_configuration="self_play") as made:
        streams = [engine._generator.initial_seed() for engine in made.workers[0].policies.engines]
        assert len(set(streams)) == len(streams) == 5
        weights = [engine.weights().tobytes() for engine in made.workers[0].policies.engines]
        assert len(set(weights)) == 1
        assert child_seed(0, "weights", 0) not in streams


@pytest.mark.parametrize(
    ("env_id", "options", "settings"),
    [
        (CARTPOLE, {"normalize_observations": True, "normalize_rewards": True, "threads": 1}, {}),
        (
            "classic/tictactoe_v3",
            {"threads": 2, "snapshot_every_steps": 300, "league_places": 2},
            {"policy_configuration": "self_play"},
        ),
        ("mosaic/repeat_previous", {"memory": "gru", "memory_size": 8}, {}),
        (CARTPOLE, {"memory": "mingru", "memory_size": 8, "normalize_observations": True}, {}),
        (CARTPOLE, {"engine": "torch", "memory": "lstm", "memory_size": 8}, {}),
        (
            "mosaic/kuhn_poker",
            {"memory": "gru", "memory_size": 8, "snapshot_every_steps": 300, "opponent_slip": 0.2},
            {"policy_configuration": "self_play"},
        ),
    ],
)
def test_compiled_envs_continue_bit_for_bit(env_id, options, settings):
    with learner(env_id, options, **settings) as whole, learner(env_id, options, **settings) as again:
        for _ in range(5):
            whole.iterate()
        resume(whole, again)
        for _ in range(6):
            whole.iterate()
            again.iterate()
        np.testing.assert_array_equal(whole.weights(0), again.weights(0))
        one, other = whole.progress(), again.progress()
        assert (one.env_steps, one.agent_steps, one.episodes) == (other.env_steps, other.agent_steps, other.episodes)
        assert one.return_mean == other.return_mean
        assert whole.league is None or whole.league.facts() == again.league.facts()


@pytest.mark.parametrize(("env_id", "memory"), [("mosaic/repeat_previous", "gru"), (SPREAD, "mingru")])
def test_rollouts_with_memory_are_the_same_in_compiled_code(monkeypatch, env_id, memory):
    options = {"memory": memory, "memory_size": 8, "n_steps": 64}
    with learner(env_id, options, envs=4) as made:
        monkeypatch.setattr(build, "is_simple", lambda *_: False)
        with learner(env_id, options, envs=4) as stepped:
            ours, theirs = made.workers[0], stepped.workers[0]
            assert (type(ours), type(theirs)) == (CompiledMemoryRollouts, PythonRollouts)
            for _ in range(2):
                made.iterate()
                stepped.iterate()
            for name in ("obs", "act", "logp", "val", "ret"):
                one, other = (getattr(worker.buffer.rows, name) for worker in (ours, theirs))
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=name)
            for name in ("who", "policy_of", "ended", "bootstrap", "value", "reward"):
                one, other = (getattr(worker.buffer.track, name) for worker in (ours, theirs))
                np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=name)
            assert ours.buffer.track.bootstrap.any() == (env_id == SPREAD)  # its episodes are cut off
            for name in ("owner", "first", "fresh"):
                np.testing.assert_array_equal(getattr(ours.buffer, name), getattr(theirs.buffer, name))
            np.testing.assert_allclose(made.weights(0), stepped.weights(0), atol=1e-4)
            assert made.progress().agent_steps == stepped.progress().agent_steps


def test_python_envs_go_on_in_new_episodes():
    with learner(FADING, envs=2) as whole, learner(FADING, envs=2) as again:
        first = whole.workers[0].vector.obs.copy()
        whole.iterate()
        resume(whole, again)
        np.testing.assert_array_equal(whole.weights(0), again.weights(0))
        assert again.progress().episodes == whole.progress().episodes
        assert not np.array_equal(again.workers[0].vector.obs, first)


def resume(whole, again):
    progress = whole.progress()
    again.before.env_steps, again.before.episodes = progress.env_steps, progress.episodes
    again.before.agent_steps = progress.agent_steps
    again.load_training_state([whole.weights(0)], whole.training_state())


@pytest.mark.parametrize(
    ("env", "sections"),
    [
        (FADING, {}),
        ("classic/tictactoe_v3", {"policy_configuration": "parameter_sharing"}),
        (SPREAD, {"policy_configuration": "shared_value_function"}),
    ],
)
def test_a_rollout_that_ends_early_teaches_what_a_short_one_would(env, sections):
    learned = []
    for steps, ends_after in ((5, None), (16, 5)):
        with learner(env, {"engine": "torch", "n_steps": steps, "batch_size": 8}, envs=2, **sections) as made:
            calls = iter(range(1, 100))
            made.watch(lambda calls=calls, last=ends_after: next(calls) == last)
            made.iterate()
            assert isinstance(made.workers[0], PythonRollouts)
            assert made.env_steps == 2 * 5
            learned.append([made.weights(policy) for policy in range(len(made.plan.names))])
    for short, cut in zip(*learned, strict=True):
        np.testing.assert_array_equal(short, cut)
