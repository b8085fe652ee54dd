"""A run's life in one process, with Ray up already: trained, reported, saved, gone on from, evaluated."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from mosaic.config.loading import parse_run_config
from mosaic.core.errors import InputError, TrustError
from mosaic.envs.catalog import make_env
from mosaic.policies.registry import load_policy
from mosaic.store.archives.archive import archive_run
from mosaic.store.archives.import_run import import_run
from mosaic.store.checkpoints import find_checkpoint, list_checkpoints
from mosaic.store.store import Store
from mosaic.telemetry.events.reader import read_events
from mosaic.telemetry.events.writer import EventWriter
from mosaic.workers.context import WorkerContext
from mosaic.workers.inbox import Inbox
from mosaic.workers.rllib.config.algorithms import OFFLINE
from mosaic.workers.rllib.config.options import OPTIONS
from mosaic.workers.rllib.training import Training, built, iterate, prepare, train
from tests.workers.rllib.rllib_setups import SMALL

pytestmark = pytest.mark.usefixtures("ray")

TINY: dict[str, Any] = {"fcnet_hiddens": [8], "num_envs_per_env_runner": 2, "num_env_runners": 0, "num_learners": 0}

IN_ENVS = [name for name in OPTIONS if name not in OFFLINE]


class Life:
    """One run in a store of its own; every `attempt` is a new algorithm."""

    def __init__(self, home, env: str, algorithm: str, steps: int, **said: Any) -> None:
        params = {**TINY, **SMALL[algorithm], "report_every_steps": 1, **said.pop("params", {})}
        training = {"worker": "rllib", "algorithm": algorithm, "params": params, **said.pop("training", {})}
        document = {
            "environment": {"env_id": env},
            "training": {"total_timesteps": steps} | training,
            "telemetry": {"frames": False},
            "evaluation": {"episodes": 1},
            "policy_configuration": "parameter_sharing",
            **said,
        }
        self.config = parse_run_config(document)
        self.folder = Store(home).create(self.config)
        self.inbox = Inbox()

    @contextmanager
    def attempt(self, number: int = 1, steps: int | None = None, **params: Any):
        config = self.config
        changes: dict[str, Any] = {"params": {**config.training.params, **params}}
        changes |= {} if steps is None else {"total_timesteps": steps}
        config = config.model_copy(update={"training": config.training.model_copy(update=changes)})
        options = OPTIONS[config.training.algorithm or ""].model_validate(config.training.params)
        found = find_checkpoint(self.folder, "latest", missing_ok=True)
        with EventWriter(self.folder.metrics, number) as writer:
            context = WorkerContext(config, options, self.folder, writer, self.inbox, found)
            setup = prepare(context, lambda cpus, address: None)
            with built(setup, context) as training:
                yield context, training

    def run(self, number: int = 1, steps: int | None = None, **params: Any) -> Training:
        with self.attempt(number, steps, **params) as (context, training):
            iterate(context, training)
            return training

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in read_events(self.folder.metrics) if event["kind"] == kind]


def _weights(training: Training) -> dict[str, Any]:
    state: Any = training.algo.learner_group.get_state(components="learner/rl_module")
    return state["learner"]["rl_module"]


def _same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return all(np.array_equal(one[module][name], other[module][name]) for module in one for name in one[module])


@pytest.mark.parametrize(
    "algorithm", ["ppo", *(pytest.param(name, marks=pytest.mark.slow) for name in IN_ENVS if name != "ppo")]
)
def test_every_algorithm_trains_saves_and_goes_on(tmp_path, algorithm):
    env = "gym/Pendulum-v1" if algorithm in ("sac", "tqc") else "gym/CartPole-v1"
    life = Life(tmp_path, env, algorithm, steps=200)
    with life.attempt() as (context, training):
        begun = _weights(training)
        begun = {module: {name: array.copy() for name, array in begun[module].items()} for module in begun}
        iterate(context, training)
        learned = _weights(training)
        assert not _same(begun, learned)
        learned = {module: {name: np.copy(array) for name, array in learned[module].items()} for module in learned}
    checkpoint = find_checkpoint(life.folder)
    assert checkpoint.env_steps >= 200
    assert set(checkpoint.manifest.policies) == {"shared"}
    assert [event["env_steps"] for event in life.events("evaluation")] == [checkpoint.env_steps]
    with life.attempt(2, steps=checkpoint.env_steps + 100) as (context, training):
        assert training.progress.env_steps == checkpoint.env_steps
        assert _same(learned, _weights(training))
        iterate(context, training)
    steps = [event["env_steps"] for event in life.events("iteration")]
    assert steps == sorted(set(steps))
    assert steps[-1] >= checkpoint.env_steps + 100
    json.dumps(life.events("iteration"), allow_nan=False)
    named = {name for event in life.events("iteration") for name in event.get("custom_metrics", ())}
    assert not named - {"interval/episodes", "interval/reward_mean"}, "metrics of RLlib taken for those of callbacks"


def test_a_changed_learning_rate_counts_from_the_first_update_after_a_resume(tmp_path):
    life = Life(tmp_path, "gym/CartPole-v1", "ppo", steps=100)
    life.run()
    with life.attempt(2, steps=200, lr=1e-12) as (context, training):
        before = {name: np.copy(array) for name, array in _weights(training)["default_policy"].items()}
        iterate(context, training)
        after = _weights(training)["default_policy"]
    assert all(np.allclose(before[name], after[name], rtol=0, atol=1e-8) for name in before)


@pytest.mark.slow
def test_a_run_goes_on_with_another_number_of_runners(tmp_path):
    life = Life(tmp_path, "gym/CartPole-v1", "ppo", steps=100, params={"observation_filter": "MeanStdFilter"})
    life.run()
    saved = find_checkpoint(life.folder)
    assert saved.manifest.policies["shared"].normalized is True
    with life.attempt(2, steps=300, num_env_runners=1) as (context, training):
        assert training.algo.env_runner_group.num_remote_env_runners() == 1
        iterate(context, training)
        lifetime = training.algo.metrics.peek(("env_runners", "num_env_steps_sampled_lifetime"))
        assert lifetime == training.progress.env_steps
    life.run(3, steps=400, lr=1e-4)  # what a fork changes counts, although the optimizer's state is restored
    assert life.events("iteration")[-1]["policies"]["shared"]["learner"]["default_optimizer_learning_rate"] == 1e-4
    steps = [event["env_steps"] for event in life.events("iteration")]
    assert steps == sorted(set(steps))
    assert steps[0] <= saved.env_steps < steps[-1]


def test_no_folder_is_left_in_ray_results(tmp_path, monkeypatch):
    results = tmp_path / "ray_results"
    monkeypatch.setattr("ray.tune.trainable.trainable.DEFAULT_STORAGE_PATH", str(results))
    with Life(tmp_path, "gym/CartPole-v1", "ppo", steps=100).attempt():
        assert not results.exists()


@pytest.mark.parametrize(
    ("algorithm", "env", "params", "per_iteration"),
    [
        ("sac", "gym/Pendulum-v1", {"num_envs_per_env_runner": 1}, {0, 1}),
        ("ppo", "gym/Pendulum-v1", {"train_batch_size_per_learner": 150, "num_envs_per_env_runner": 1}, {0, 1}),
        ("ppo", "gym/Pendulum-v1", {"train_batch_size_per_learner": 200, "num_envs_per_env_runner": 4}, {0, 4}),
    ],
)
def test_every_episode_counts_however_many_end_in_an_iteration(tmp_path, algorithm, env, params, per_iteration):
    life = Life(tmp_path, env, algorithm, steps=400 if algorithm == "sac" else 800, params=params)
    with life.attempt() as (context, training):
        train, theirs = training.algo.train, []

        def counted() -> Any:
            result = train()
            theirs.append(int(result["env_runners"].get("num_episodes", 0)))
            return result

        training.algo.train = counted
        iterate(context, training)
        assert training.progress.episodes == sum(theirs) == training.progress.env_steps // 200
    assert set(theirs) == per_iteration
    assert life.events("iteration")[-1]["episodes_total"] == sum(theirs)


def test_stop_reward_ends_a_run_and_the_event_says_it(tmp_path):
    life = Life(tmp_path, "gym/CartPole-v1", "ppo", steps=10**6, training={"stop_reward": 1.0})
    with life.attempt() as (context, training):
        iterate(context, training)
        assert context.stop_reward_reached_at is not None
    assert life.events("iteration")[-1]["episode_reward_mean"] >= 1.0


def test_the_mean_return_of_a_resumed_run_is_over_the_same_episodes(tmp_path):
    life = Life(tmp_path, "gym/CartPole-v1", "ppo", steps=300)
    before = life.run()
    assert len(before.progress.recent) > 1
    with life.attempt(2, steps=400) as (_, training):
        assert training.progress == before.progress
        assert training.reward == before.reward


def test_a_stop_is_heard_after_an_iteration_and_saves(tmp_path):
    life = Life(tmp_path, "gym/CartPole-v1", "ppo", steps=10**6)
    with life.attempt() as (context, training):
        train = training.algo.train

        def once() -> Any:
            life.inbox.put("stop")
            return train()

        training.algo.train = once
        iterate(context, training)
    (event,) = life.events("iteration")
    assert find_checkpoint(life.folder).env_steps == event["env_steps"]
    assert life.events("evaluation") == []  # who stops does not want to wait


def test_checkpoints_and_evaluations_come_when_they_are_due(tmp_path):
    every = {"checkpoint": {"every_steps": 100, "keep_last": 10}, "evaluation": {"every_steps": 200, "episodes": 1}}
    life = Life(tmp_path, "gym/CartPole-v1", "ppo", steps=400, **every)
    life.run()
    told = [event["env_steps"] for event in life.events("iteration")]
    assert [event["env_steps"] for event in life.events("checkpoint")] == told  # one each, also at the end
    due = {now for before, now in zip([0, *told], told, strict=False) if now // 200 > before // 200}
    assert {event["env_steps"] for event in life.events("evaluation")} == due | {told[-1]}


def test_a_run_that_goes_on_with_other_options_learns_with_them(tmp_path):
    """As copies in population-based training do: the step size is also in the optimizer's state, which is restored."""
    life = Life(tmp_path, "gym/CartPole-v1", "ppo", 200, params={"lr": 1e-3})
    life.run()
    training = life.run(2, 400, lr=5e-3)
    told = life.events("iteration")[-1]["policies"]["shared"]["learner"]["default_optimizer_learning_rate"]
    assert (told, training.algo.config.lr) == (pytest.approx(5e-3), 5e-3)


def test_where_nobody_said_when_a_run_is_saved_by_time(tmp_path, monkeypatch):
    monkeypatch.setattr("mosaic.workers.saving_pace.LEAST_SAVE_S", 0.0)
    monkeypatch.setattr("mosaic.workers.saving_pace.SAVE_SHARE", float("inf"))
    life = Life(tmp_path, "gym/CartPole-v1", "ppo", steps=300)
    life.run()
    told = [event["env_steps"] for event in life.events("iteration")]
    assert [event["env_steps"] for event in life.events("checkpoint")] == told  # one each, also at the end
    assert len(told) > 1


def test_reports_come_as_often_as_asked_and_tell_of_all_iterations(tmp_path):
    life = Life(tmp_path, "gym/CartPole-v1", "ppo", steps=600, params={"report_every_steps": 300})
    life.run()
    events = life.events("iteration")
    first, *others = (event["env_steps"] for event in events)
    assert first < 300  # at once
    assert len(others) == 2
    ended = [event["custom_metrics"].get("interval/episodes", 0) for event in events]
    assert sum(ended) == events[-1]["episodes_total"]


def test_what_rllib_refuses_is_told_as_what_was_asked(tmp_path):
    params = {"rollout_fragment_length": 33, "train_batch_size_per_learner": 100}
    life = Life(tmp_path, "gym/CartPole-v1", "ppo", steps=100, params=params)
    with pytest.raises(InputError, match=r"RLlib refuses these options: .*rollout_fragment_length") as refused:
        life.run()
    assert "suppress" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.chosen
def test_self_play_goes_on_with_its_league(tmp_path):
    params = {"snapshot_every_steps": 100}
    life = Life(tmp_path, "classic/tictactoe_v3", "ppo", 300, policy_configuration="self_play", params=params)
    first = life.run()
    assert first.self_play is not None
    known = [snapshot.env_steps for snapshot in first.self_play.league.snapshots]
    assert len(known) > 1
    with life.attempt(2, steps=400) as (_, training):
        assert [snapshot.env_steps for snapshot in training.self_play.league.snapshots] == known
    event = life.events("iteration")[-1]
    assert event["policies"]["learner"]["rating"] == pytest.approx(first.self_play.league.rating)
    assert event["custom_metrics"]["league_size"] == len(known)
    evaluation = life.events("evaluation")[-1]
    assert evaluation["opponent"] == "league"
    assert evaluation["agents"]["player_1"]["policy"] == "learner"
    assert evaluation["agents"]["player_1"]["others"] == {"player_2": "league"}
    assert [each["snapshot"] for each in evaluation["snapshots"]] == [f"learner@{known[-1]}"]
    manifest = list_checkpoints(life.folder)[-1].manifest
    assert (manifest.best_by, manifest.rating) == ("rating", pytest.approx(first.self_play.league.rating))


@pytest.mark.slow
def test_agents_that_do_not_learn_are_played_while_others_train(tmp_path):
    agents = {"player_2": "random"}
    life = Life(tmp_path, "classic/tictactoe_v3", "dqn", 200, agents=agents)
    assert life.run().setup.single
    assert life.events("evaluation")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env", "algorithm"),
    [
        ("sisl/pursuit_v4", "ppo"),
        ("sisl/multiwalker_v9", "sac"),
        ("butterfly/knights_archers_zombies_v10", "ppo"),  # agents that die early
        ("butterfly/pistonball_v6", "ppo"),  # pictures
        ("classic/chess_v6", "dqn"),
        ("gym/Blackjack-v1", "dqn"),
    ],
)
def test_every_family_trains_saves_and_plays(tmp_path, env, algorithm):
    life = Life(tmp_path, env, algorithm, 60)
    life.run()
    assert life.events("evaluation")
    assert find_checkpoint(life.folder).env_steps == life.events("iteration")[-1]["env_steps"] >= 60


def test_a_player_that_is_not_there_is_told_before_ray_is_started(tmp_path):
    life = Life(tmp_path, "classic/tictactoe_v3", "ppo", 200, agents={"player_1": "learner", "player_2": "run:nope"})
    options = OPTIONS["ppo"].model_validate(life.config.training.params)
    with EventWriter(life.folder.metrics, 1) as writer:
        context = WorkerContext(life.config, options, life.folder, writer, life.inbox, None)
        with pytest.raises(InputError, match="'nope'"):
            prepare(context, lambda cpus, address: pytest.fail("Ray was started"))


@pytest.mark.slow
def test_several_policies_learn_side_by_side(tmp_path):
    life = Life(tmp_path, "mpe/simple_tag_v3", "sac", 200, params={}, policy_configuration="parameter_sharing")
    training = life.run()
    assert set(training.setup.modules) == {"adversary", "agent"}
    assert set(find_checkpoint(life.folder).manifest.policies) == {"adversary", "agent"}


def test_an_imported_run_plays_without_pickles_and_goes_on_only_with_trust(tmp_path, monkeypatch):
    life = Life(tmp_path / "theirs", "gym/CartPole-v1", "ppo", steps=100)
    life.run()
    ours = Store(tmp_path / "ours")
    gift = import_run(ours, archive_run(life.folder, tmp_path / "gift.tar.gz"))
    monkeypatch.setenv("MOSAIC_HOME", str(ours.home))
    monkeypatch.delenv("MOSAIC_TRUST", raising=False)

    def refuse(*given: Any, **also: Any) -> None:
        raise AssertionError("something was unpickled")

    with monkeypatch.context() as without:
        without.setattr("pickle.load", refuse)
        without.setattr("pickle.loads", refuse)
        env = make_env(life.config.environment)
        player = load_policy(f"run:{gift.run_id}", env.spec)
        player.begin(("agent_0",), 0)
        assert player.act(env.reset(0))["agent_0"] in (0, 1)
        env.close()

    found = find_checkpoint(gift)
    options = OPTIONS["ppo"].model_validate(life.config.training.params)
    with EventWriter(gift.metrics, 2) as writer:
        context = WorkerContext(life.config, options, gift, writer, Inbox(), found)
        text = rf"holds pickles.* it was imported\. If .*, type: mosaic runs resume {gift.run_id} --trust\.$"
        with pytest.raises(TrustError, match=text):
            train(context)
