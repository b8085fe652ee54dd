"""Evaluations by native self-play, and the contract that their events name all agents and policies."""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

from mosaic.learners.ppo.options import PpoOptions
from mosaic.models.weights_file import load_weights
from mosaic.testing.worker.plays import check_evaluations, missing_names
from mosaic.testing.worker.rehearsal import WorkerContractError
from mosaic.workers.native import training as native
from tests.learners.small_runs import TICTACTOE, assembled, run_config

WHOLE = {
    "agents": {"a": {"policy": "red", "others": {"b": "random"}}, "b": {"policy": "random", "others": {"a": "red"}}},
    "policies": {"red": {"reward_mean": 1.0}, "random": {"reward_mean": None}},
}


@contextmanager
def training(**settings):
    """A native training in self-play, and the weights of each policy that it evaluated."""
    settings = {"policy_configuration": "self_play", **settings}
    with assembled(TICTACTOE, {"snapshot_every_steps": 256}, **settings) as made:
        context = SimpleNamespace(
            config=run_config(TICTACTOE, **settings),
            options=PpoOptions(),
            resume_from=None,
            inbox=SimpleNamespace(stop_asked=lambda: None),
        )
        camera = SimpleNamespace(glance=lambda: None, wanted=lambda: False)
        yield native.NativeTraining(context, made, camera, lambda: made), made


@pytest.mark.parametrize("agents", [{}, {"player_1": "self@-300"}], ids=["league", "bound"])
def test_snapshots_of_the_league_play_with_their_own_weights(monkeypatch, agents):
    files = []
    make = native.make_controller

    def watched(folder, file, request):
        files.append((folder.name, request.agents, load_weights(folder / file).flat))
        return make(folder, file, request)

    monkeypatch.setattr(native, "make_controller", watched)
    with training(agents=agents, evaluation={"episodes": 6}) as (running, made):
        for _ in range(9):
            running.iterate()
        (record,) = running.evaluate()
        league, learner = made.learner.league, made.learner.weights(0)
    snapshots = {str(each.env_steps): each.weights for each in league.snapshots}
    assert record["opponent"] == "league"
    if agents:
        old = league.aged(300, 9 * 128).env_steps
        assert record["agents"]["player_1"]["policy"] == "self@-300"
        assert [each["snapshot"] for each in record["snapshots"]] == [f"learner@{old}"]
        assert {seats[0]: name in snapshots for name, seats, _ in files} == {"player_1": True, "player_2": False}
        assert str(old) in [name for name, _, _ in files]
    else:
        assert len({name for name, _, _ in files}) > 3
        assert {record["agents"][agent]["policy"] for agent in record["agents"]} == {"learner"}
        assert record["agents"]["player_1"]["others"] == {"player_2": "league"}
    for name, _, weights in files:
        np.testing.assert_array_equal(weights, snapshots.get(name, learner))


def test_what_an_event_does_not_name_is_found():
    assert missing_names(WHOLE, ("a", "b"), ("red",)) == []
    assert missing_names({}, ("a", "b"), ("red",)) == ["agent a", "agent b", "policy red"]
    assert missing_names({**WHOLE, "policies": {"red": {}}}, ("a",), ()) == ["policy of b", "mean reward of red"]
    alone = {"agents": {"a": {"policy": "red", "others": {}}}, "policies": WHOLE["policies"]}
    assert missing_names(alone, ("a",), ("red",)) == ["other agents of a"]


@pytest.mark.parametrize("env_id", [TICTACTOE, "gym/CartPole-v1"])
def test_a_worker_whose_evaluations_name_nobody_breaks_its_promise(env_id):
    class Rehearsed:
        run = SimpleNamespace(config=run_config(env_id), checkpoints=list)

        def events(self):
            return [{"kind": "iteration"}, {"kind": "evaluation", "episode_reward_mean": 1.0}]

        def broken(self, capability, found, promise, advice):
            return WorkerContractError("mine", capability, found, promise, advice)

    if env_id != TICTACTOE:
        check_evaluations(Rehearsed(), "setting evaluation.every_steps")
        return
    with pytest.raises(WorkerContractError, match="an evaluation has no agent player_1, agent player_2"):
        check_evaluations(Rehearsed(), "setting evaluation.every_steps")
