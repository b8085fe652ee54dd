"""Counters and stops of env runners: in the driver's process through memory, elsewhere through Ray's store."""

import json
from functools import partial
from types import SimpleNamespace

import pytest
from gymnasium.wrappers import OrderEnforcing
from ray.rllib.env.vector.sync_vector_multi_agent_env import SyncVectorMultiAgentEnv

from mosaic.envs.wrappers.limits import TimeLimit
from mosaic.testing.toys import Fading
from mosaic.workers.rllib.config.setup import SESSION as SETUP_SESSION
from mosaic.workers.rllib.env import sampling
from mosaic.workers.rllib.env.encoding import EncodedView
from mosaic.workers.rllib.env.env import LearnersEnv
from mosaic.workers.rllib.env.sampling import IterationLimit, RunnerCounters, SamplingView, StepLimit

SESSION = "run#1"


class Store:
    """Ray's key-value store in memory, which counts what is asked of it."""

    def __init__(self, monkeypatch):
        self.values, self.requests = {}, 0
        monkeypatch.setattr(sampling, "_internal_kv_initialized", lambda: True)
        for name in ("exists", "put", "list", "del"):
            monkeypatch.setattr(sampling, f"_internal_kv_{name}", getattr(self, f"{name}_"))
        monkeypatch.setattr(sampling, "internal_kv_get_gcs_client", lambda: self)

    def exists_(self, key, namespace):
        self.requests += 1
        return key in self.values

    def put_(self, key, value, overwrite=True, namespace=None):
        self.requests += 1
        self.values[key] = value

    def list_(self, prefix, namespace):
        self.requests += 1
        return [key for key in self.values if key.startswith(prefix)]

    def del_(self, key, del_by_prefix, namespace):
        self.values = {name: value for name, value in self.values.items() if not name.startswith(key)}

    def internal_kv_multi_get(self, keys, namespace):
        self.requests += 1
        return {key: self.values[key] for key in keys}


@pytest.fixture
def store(monkeypatch):
    made = Store(monkeypatch)
    yield made
    sampling.forget(SESSION)
    assert made.values == {}


def record(value):
    return {"length": 2, "returns": {"a": value}, "played": {}, "policies": {"a": "shared"}}


def sample(counters, steps, *returns):
    counters.env_steps += steps
    for value in returns:
        counters.end_episode(record(value))
    counters.publish()


def test_a_runner_elsewhere_publishes_in_rays_store_and_asks_it_for_a_stop(store):
    counters, view = RunnerCounters(SESSION), SamplingView(SESSION)
    sample(counters, 5, 1.0)
    assert [json.loads(value)["env_steps"] for value in store.values.values()] == [5]
    assert view.current() == (5, 1, [record(1.0)])
    assert StepLimit(10, SESSION) > 4
    sampling._state(SESSION).asked_at_s = float("-inf")
    store.values[f"{SESSION}/stop".encode()] = b"1"
    assert not StepLimit(10, SESSION) > 4
    assert StepLimit(10, SESSION) > 0, "RLlib cannot learn from nothing"


def test_counters_are_published_once_a_second_at_most(store):
    now = [0.0]
    counters = RunnerCounters(SESSION, lambda: now[0])
    published = []
    for now[0] in (0.5, 0.9, 1.0, 1.5, 1.9, 2.0):
        counters.env_steps += 1
        counters.publish_if_due()
        published.append(store.requests)
    assert published == [0, 0, 1, 1, 1, 2]
    assert SamplingView(SESSION).current().env_steps == 6


def test_the_drivers_own_runner_needs_no_request(store):
    counters, view = RunnerCounters(SESSION), SamplingView(SESSION)
    sampling.begin_iteration(SESSION)
    sample(counters, 5, 1.0)
    assert (view.current(), store.requests) == ((5, 1, [record(1.0)]), 0)
    view.complete(5, 1)
    sample(counters, 3, 2.0, 4.0)
    assert (view.current(), store.requests) == ((3, 2, [record(2.0), record(4.0)]), 0)
    assert StepLimit(10, SESSION) > 4
    assert (bool(IterationLimit(10, SESSION)), store.requests) == (True, 0)
    sampling.request_stop(SESSION)
    assert not StepLimit(10, SESSION) > 4
    assert not IterationLimit(10, SESSION)
    assert f"{SESSION}/stop".encode() in store.values, "for runners in other processes"


def test_envs_of_a_runner_that_end_elsewhere_are_asked_before_the_first_is_waited_for():
    """Also below the wrappers of RLlib and of Mosaic; RLlib itself closes one env after the other."""
    told = []

    class Game(Fading):
        def begin_end(self):
            told.append("asked")

        def close(self):
            told.append("closed")

    class Runner:
        """What `Stoppable` needs of RLlib's runners."""

        def __init__(self):
            envs = [TimeLimit(Game(), 9) for _ in range(3)]
            learners = [LearnersEnv(EncodedView(env, env.possible_agents, {})) for env in envs]
            self.env = SyncVectorMultiAgentEnv([partial(OrderEnforcing, env) for env in learners])

        def stop(self):
            self.env.close()

    sampling.stoppable(Runner)().stop()
    assert told == ["asked"] * 3 + ["closed"] * 3


def test_a_runner_without_envs_stops():
    class Runner:
        env, stopped = None, False

        def stop(self):
            self.stopped = True

    runner = sampling.stoppable(Runner)()
    runner.stop()
    assert runner.stopped


def test_a_rollout_asks_for_a_stop_only_if_it_takes_long(store, monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(sampling, "monotonic", lambda: now[0])
    store.values[f"{SESSION}/stop".encode()] = b"1"

    class Runner:
        """What `Stoppable` needs of RLlib's runners."""

        config = SimpleNamespace(env_config={SETUP_SESSION: SESSION})

        def _sample(self, num_timesteps, num_episodes):
            for count in range(1, 10):
                if not num_timesteps > count:
                    return count
                now[0] += self.step_s
            return 10

    runner = sampling.stoppable(Runner)()
    runner.step_s = 0.02
    assert (runner._sample(num_timesteps=10), store.requests) == (10, 0)
    runner.step_s = 0.1
    assert (runner._sample(num_timesteps=10), store.requests) == (4, 1)
