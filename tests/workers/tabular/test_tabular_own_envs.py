"""Tables in envs of the user's own: compiled where that is proven, else stepped."""

import os

import pytest

from mosaic.core.errors import InputError
from mosaic.runs.trainer import Trainer
from tests.in_process import trained_here
from tests.workers.hosting import run_config
from tests.workers.tabular.tabular_cases import finished

ENVS = """
import gymnasium, numpy as np
from gymnasium.spaces import Discrete, MultiBinary

class FirstBit(gymnasium.Env):
    observation_space, action_space = MultiBinary(100), Discrete(2)
    odd_reward, odd_mask = 0.0, [1, 1]

    def _show(self):
        self.shown = np.zeros(100, np.int8)
        self.shown[:2] = self.np_random.integers(0, 2, 2)
        mask = self.odd_mask if self.count == 2 else [1, 1]
        return self.shown, {"action_mask": np.array(mask, np.int8)}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.count = 0
        return self._show()

    def step(self, action):
        reward = float(action == self.shown[0]) + (self.odd_reward if self.count == 2 else 0.0)
        self.count += 1
        seen, info = self._show()
        return seen, reward, self.count == 8, False, info

class Ring(gymnasium.Env):
    observation_space, action_space = Discrete(5), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.place, {}

    def step(self, action):
        self.place = (self.place + int(self.np_random.integers(3)) + action) % 5
        return self.place, float(self.place == 0), False, False, {}

class Corridor(gymnasium.Env):
    observation_space, action_space = Discrete(6), Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 0
        return self.place, {}

    def step(self, action):
        self.place = min(max(self.place + (1 if action else -1), 0), 5)
        return self.place, float(self.place == 5), self.place == 5, False, {}

class Counted(Corridor):
    def step(self, action):
        *step, info = super().step(action)
        return *step, {"custom_metrics": {"coins": 4}} if step[2] else info

class PaysNan(FirstBit):
    odd_reward = float("nan")

class ForbidsAll(FirstBit):
    odd_mask = [0, 0]
"""


@pytest.fixture
def own_envs(tmp_path, monkeypatch):
    place = tmp_path / "own"
    place.mkdir()
    (place / "tabular_worker_envs.py").write_text(ENVS)
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")]))
    return "python:tabular_worker_envs:"


def test_an_env_that_never_ends_stops_when_asked_and_reports_meanwhile(tmp_path, own_envs):
    run = finished(
        tmp_path,
        run_config("tabular", {"report_every_steps": 1000}, environment={"env_id": f"{own_envs}Ring"},
                   training={"total_timesteps": 4321}),
    )  # fmt: skip
    events = [event for event in run.events() if event["kind"] == "iteration"]
    reports = [event for event in events if event.get("trigger") != "clock"]  # a slow machine has more
    assert [event["env_steps"] for event in reports] == [1000, 2000, 3000, 4321]
    assert all(event["custom_metrics"]["td_error"] > 0.0 for event in reports)
    assert run.checkpoints()[-1].env_steps == 4321


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({}, "every action was tried in each of 5 states"),
        ({"resources": {"runtime": "parallel", "num_env_runners": 2}}, "every action was tried in each of 5 states"),
        ({"params": {"compile_env": False}}, "itself, step by step: compile_env is off"),
    ],
    ids=["single", "parallel", "off"],
)
def test_an_own_env_is_compiled_where_that_is_proven_and_the_log_says_which_way(tmp_path, own_envs, settings, text):
    params = settings.pop("params", {})
    run = finished(
        tmp_path,
        run_config("tabular", params, environment={"env_id": f"{own_envs}Corridor"},
                   training={"total_timesteps": 20_000}, **settings),
    )  # fmt: skip
    assert text in run.log()
    assert "compiled twin" not in run.log()
    if not params:
        assert f"q_learning on arrays compiled from {own_envs}Corridor" in run.log()
    examined = [event for event in run.events() if event["kind"] == "evaluation"]
    assert examined[-1]["episode_reward_mean"] == 1.0
    assert examined[-1]["episode_len_mean"] == 5.0
    assert run.checkpoints()[-1].env_steps == 20_000


ON_RUNTIMES = [
    ("parallel", "2 processes"),
    pytest.param("ray", "2 Ray actors here", marks=[pytest.mark.slow, pytest.mark.chosen]),
    pytest.param("mpi", "2 MPI ranks", marks=[pytest.mark.slow, pytest.mark.chosen]),
]


@pytest.mark.parametrize(("runtime", "words"), ON_RUNTIMES)
def test_an_own_env_that_cannot_be_compiled_is_stepped_in_several_processes(tmp_path, own_envs, runtime, words):
    config = run_config("tabular", environment={"env_id": f"{own_envs}Ring"}, training={"total_timesteps": 3001},
                        resources={"runtime": runtime, "num_env_runners": 2})  # fmt: skip
    run = finished(tmp_path, config)
    assert "stepped in several processes: it cannot be compiled to arrays: it is stochastic" in run.log()
    assert f"q_learning in {own_envs}Ring, {words}" in run.log()
    assert run.checkpoints()[-1].env_steps == 3001


@pytest.mark.parametrize(("runtime", "words"), ON_RUNTIMES[1:])
def test_an_own_env_is_compiled_for_an_algorithm_that_looks_back_on_several_processes(
    tmp_path, own_envs, runtime, words
):
    config = run_config("tabular", {"epsilon": 0.5}, environment={"env_id": f"{own_envs}Corridor"},
                        training={"total_timesteps": 40_000, "algorithm": "monte_carlo"},
                        resources={"runtime": runtime, "num_env_runners": 2})  # fmt: skip
    run = finished(tmp_path, config)
    assert f"monte_carlo on arrays compiled from {own_envs}Corridor, {words}" in run.log()
    examined = [event for event in run.events() if event["kind"] == "evaluation"]
    assert examined[-1]["episode_reward_mean"] == 1.0
    assert run.checkpoints()[-1].env_steps == 40_000


def test_what_is_not_merged_is_refused_on_several_processes_with_the_reason(tmp_path, own_envs):
    config = run_config("tabular", {"table": "hashed"}, environment={"env_id": f"{own_envs}Ring"},
                        training={"total_timesteps": 100},
                        resources={"runtime": "parallel", "num_env_runners": 2})  # fmt: skip
    with pytest.raises(InputError, match="cannot be stepped in several processes: hashed tables are not merged"):
        Trainer(tmp_path).submit(config)


LIST = {"table_engine": "list", "discount_factor": 0.5, "epsilon": 0.3}


def test_states_without_number_are_learned_resumed_and_played(tmp_path, monkeypatch, own_envs):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    from mosaic import evaluate

    env_id = f"{own_envs}FirstBit"
    run = finished(
        tmp_path,
        run_config("tabular", {**LIST, "report_every_steps": 400}, environment={"env_id": env_id},
                   training={"total_timesteps": 4000}, evaluation={"every_steps": 2000, "episodes": 5}),
    )  # fmt: skip
    assert "each is known by a hash: the probability that any two of a million states share one is 1 in" in run.log()
    result = evaluate(env_id, {"*": f"run:{run.id}"}, episodes=5, seed=1).to_json()
    assert result["agents"]["agent_0"]["return_mean"] == 8.0
    examined = [event for event in run.events() if event["kind"] == "evaluation"]
    assert [event["env_steps"] for event in examined] == [2000, 4000]
    assert examined[-1]["episode_reward_mean"] == 8.0
    assert examined[-1]["episodes"] == 5


@pytest.mark.parametrize(
    ("name", "text"),
    [("PaysNan", "The reward is nan; it should be a finite number"), ("ForbidsAll", "allows no action")],
)
def test_an_env_that_misbehaves_ends_the_run(tmp_path, own_envs, name, text):
    environment = {"env_id": own_envs + name, "options": {"info_masks": True}}
    run = trained_here(
        tmp_path, run_config("tabular", LIST, environment=environment, training={"total_timesteps": 100})
    )
    assert run.state == "failed"
    assert text in run.reason


def test_an_own_env_with_custom_metrics_is_stepped_and_they_are_reported(tmp_path, own_envs):
    config = run_config("tabular", environment={"env_id": f"{own_envs}Counted"}, training={"total_timesteps": 200})
    run = finished(tmp_path, config)
    assert "its info has numbers (coins), which arrays do not have" in run.log()
    last = [event for event in run.events() if event["kind"] == "iteration"][-1]
    (policy,) = last["policies"].values()
    assert policy["custom_metrics"] == {"coins": 4.0}
    assert last["custom_metrics"]["epsilon"] > 0
