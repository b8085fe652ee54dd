"""What RLlib runs decide for themselves is decided once and stored: snapshots of self-play, and room on a cluster."""

from types import SimpleNamespace

import pytest

from mosaic.core.errors import InputError
from mosaic.store.store import Store
from mosaic.workers.registry import load_worker, parse_params
from mosaic.workers.resolution import resolve
from mosaic.workers.rllib import training as loop
from mosaic.workers.rllib.config.resources import AvailableResources, Node
from tests.workers.hosting import run_config

GAME = {"env_id": "classic/tictactoe_v3"}
ADDRESS = "10.0.0.9:6379"


def params(steps=20_000, environment=GAME, **asked):
    training = {"algorithm": "ppo", "total_timesteps": steps}
    return resolve(run_config("rllib", asked, environment=environment, training=training)).config.training.params


def test_the_interval_of_snapshots_is_stored():
    assert params()["snapshot_every_steps"] == 1000
    assert params(snapshot_every_steps=77)["snapshot_every_steps"] == 77
    assert params(snapshot_win_rate=0.6)["snapshot_every_steps"] is None  # only the win rate decides
    assert params(environment={"env_id": "gym/CartPole-v1"})["snapshot_every_steps"] is None  # no self-play


@pytest.fixture
def joined(tmp_path, monkeypatch):
    """Prepare an attempt of a run on a cluster with this many free CPUs; no Ray is started."""
    monkeypatch.setattr("mosaic.runtimes.ray.session.find_cluster", lambda address: None)
    resources = {"ray_address": ADDRESS}
    training = {"algorithm": "ppo", "total_timesteps": 1000}
    config = resolve(run_config("rllib", {}, training=training, resources=resources)).config
    folder = Store(tmp_path).create(config)

    def attempt(cpus):
        machine = AvailableResources(cpus, 0.0, f"the Ray cluster at {ADDRESS}", (Node(cpus, 0.0),))
        monkeypatch.setattr(loop, "_join", lambda *_: machine)
        stored = folder.read_config()
        options = parse_params(load_worker("rllib"), "ppo", dict(stored.training.params))
        context = SimpleNamespace(
            config=stored, options=options, folder=folder, attempt=1, curriculum=None, resume_from=None
        )
        return loop.prepare(context, lambda *_: None)

    return attempt, folder


def test_what_a_cluster_had_room_for_is_stored_when_it_is_joined(joined):
    attempt, folder = joined
    assert folder.read_config().resources.num_env_runners is None
    assert attempt(2).placement.runners == 1  # of two that are usual
    stored = folder.read_config()
    assert stored.resources.num_env_runners == 1
    assert stored.training.params["num_learners"] == 0
    assert stored.training.params["num_cpus_per_learner"] == 1


def test_a_later_attempt_asks_for_the_same_on_another_cluster(joined):
    attempt, folder = joined
    attempt(2)
    before = folder.config.read_bytes()
    assert attempt(64).placement.runners == 1
    assert folder.config.read_bytes() == before


def test_a_later_attempt_is_refused_where_the_same_does_not_fit(joined):
    attempt, _ = joined
    assert attempt(64).placement.runners == 2
    with pytest.raises(InputError, match=r"2 env runners cannot be placed: the Ray cluster at .* has 1 CPU\."):
        attempt(1)
