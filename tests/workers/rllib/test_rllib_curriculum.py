"""Curricula in RLlib's env runners: told between iterations, also to restarted ones."""

import os
import signal
from collections import deque

import numpy as np
import pytest

from mosaic.core.errors import InputError
from mosaic.core.proc import command_line
from mosaic.runs.processes import marked
from mosaic.runs.trainer import Trainer
from mosaic.store.state import State
from mosaic.testing import Duel
from mosaic.workers.rllib.reporting.episodes import NOTHING_SAMPLED
from mosaic.workers.rllib.reporting.metrics import RllibProgress, sampled_fields
from tests.in_process import trained_here
from tests.workers.rllib.rllib_setups import make_setup

DUEL = "python/mosaic.testing.duel:Duel"
STAGES = [
    {"options": {"ends": 2}, "until_steps": 600},
    {"options": {"ends": 3}, "until_reward": 1.0},
    {"options": {"ends": 4}},
]
SMALL = {"train_batch_size_per_learner": 200, "minibatch_size": 100, "num_epochs": 1, "fcnet_hiddens": [8]}


def record(stage, value):
    return {"length": 2, "returns": {"a": value}, "played": {}, "policies": {"a": "shared"}, "stage": stage}


def test_rewards_of_earlier_stages_are_forgotten_also_those_in_transit():
    progress = RllibProgress()
    progress.add({}, [record(1, 9.0)])
    assert progress.reward(["shared"]) == 9.0
    progress.begin_stage(2)
    assert progress.reward(["shared"]) is None
    progress.add({}, [record(1, 9.0), record(2, 1.0)])
    assert (progress.reward(["shared"]), progress.episodes) == (1.0, 3)
    late = NOTHING_SAMPLED._replace(records=[record(1, 9.0), record(2, 3.0)])
    assert sampled_fields(progress, late, ["shared"])["episode_reward_mean"] == 2.0
    again = RllibProgress.from_json(progress.to_json())
    assert (again.stage, again.recent) == (2, deque([record(2, 1.0)]))


class Gate(Duel):
    """Duel in which a closed gate forbids the last action."""

    def __init__(self, closed=False):
        super().__init__()
        self._closed = closed

    def reset(self, seed=None):
        return self._masked(super().reset(seed))

    def step(self, actions):
        return self._masked(super().step(actions))

    def _masked(self, turn):
        masks = {agent: np.array([1, 1, 0], np.int8) for agent in turn.observations} if self._closed else {}
        return turn._replace(action_masks=masks)


@pytest.mark.parametrize("stages", [(False, True), (True, False)])
def test_masks_in_some_stages_only_are_refused_before_the_run(tmp_path, stages):
    curriculum = [{"options": {"closed": closed}} for closed in stages]
    curriculum[0]["until_steps"] = 100
    config = {
        "environment": {"env_id": f"python:{__name__}:Gate", "curriculum": curriculum},
        "training": {"worker": "rllib", "algorithm": "ppo"},
    }
    first = stages.index(True) + 1
    text = rf"environment.curriculum: stage {first} has illegal actions .* and stage {3 - first} has none"
    with pytest.raises(InputError, match=text):
        Trainer(tmp_path).submit(config, start=False)
    curriculum[1]["options"] = curriculum[0]["options"]
    Trainer(tmp_path).submit(config, start=False)


def test_native_trains_with_masks_in_some_stages_only(tmp_path):
    curriculum = [{"options": {"closed": False}, "until_steps": 300}, {"options": {"closed": True}}]
    environment = {"env_id": f"python:{__name__}:Gate", "curriculum": curriculum, "num_envs": 2}
    params = {"hidden": [8], "n_steps": 50, "batch_size": 50}
    training = {"worker": "native", "algorithm": "ppo", "total_timesteps": 1000, "params": params}
    run = trained_here(tmp_path, {"environment": environment, "training": training})
    closed = [event for event in run.events() if event["kind"] == "iteration" and event["curriculum_stage"] == 2]
    assert closed[-1]["episode_reward_mean"] <= 44.0, "both play at most 1 in each of four steps, of which 11 is paid"


@pytest.mark.parametrize("env", [DUEL, "mpe/simple_spread_v3"])
def test_a_runner_makes_the_envs_of_the_stage_that_it_enters(tmp_path, env):
    from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner

    from mosaic.workers.rllib.config.build import configure, runner_class
    from mosaic.workers.rllib.env.stages import staged
    from mosaic.workers.rllib.reporting.episodes import EPISODES

    option = "ends" if env == DUEL else "max_cycles"
    stages = [{"options": {option: 2}, "until_steps": 600}, {"options": {option: 3}}]
    setup = make_setup(tmp_path, env, curriculum=stages)
    made = staged(runner_class(setup) or MultiAgentEnvRunner)(config=configure(setup), worker_index=0)

    def lengths():
        made.sample()
        found = made.get_metrics()[EPISODES].peek()
        return {(each["stage"], each["length"]) for each in (found if isinstance(found, list) else [found])}

    assert lengths() == {(1, 2)}
    made.enter_stage(2, setup.stages[1].model_dump(mode="json"))
    assert lengths() == {(2, 3)}
    made.stop()


def submit(home, algorithm="ppo", runners=2, steps=3000, **params):
    if algorithm == "ppo":
        params = SMALL | params
    return Trainer(home).submit(
        {
            "environment": {"env_id": "python:mosaic.testing.duel:Duel", "curriculum": STAGES},
            "training": {
                "worker": "rllib",
                "algorithm": algorithm,
                "total_timesteps": steps,
                "params": {"num_env_runners": runners, "fcnet_hiddens": [8], **params},
            },
            "evaluation": {"episodes": 1},
            "checkpoint": {"every_steps": 400, "keep_last": 100},
        }
    )


def pids_of_runners(run):
    """Yield the processes of the run's env runners, which Ray names after their class."""
    for row in marked(run.id):
        if "EnvRunner" in command_line(row.pid):
            yield row.pid


def by_stage(events):
    found = {}
    for event in events:
        if event["kind"] == "iteration" and event.get("episode_len_mean") is not None:
            found.setdefault(event["curriculum_stage"], set()).add(event["episode_len_mean"])
    return found


@pytest.mark.slow
def test_every_runner_follows_the_stages_also_a_killed_one_and_a_resumed_run(tmp_path):
    run = submit(tmp_path, steps=10**9)
    last_stage = next(event for event in run.events(follow=True) if event.get("stage") == 3)
    before = set(pids_of_runners(run))
    os.kill(min(before), signal.SIGKILL)
    restarted = False
    for event in run.events(last_stage["seq"], follow=True):
        restarted = restarted or bool(set(pids_of_runners(run)) - before)
        if restarted and event["kind"] == "checkpoint":
            break
    os.kill(run.record().attempts[-1].worker.pid, signal.SIGKILL)
    assert run.wait() is State.FAILED
    events = list(run.events())
    assert by_stage(events) == {1: {2.0}, 2: {3.0}, 3: {4.0}}
    assert [event["stage"] for event in events if event["kind"] == "curriculum"] == [2, 3]
    steps = max(event["env_steps"] for event in events if event.get("env_steps"))
    run.resume(settings=[f"training.total_timesteps={steps + 800}"])
    assert run.wait() is State.FINISHED
    resumed = [event for event in run.events() if event["attempt"] == 2]
    assert by_stage(resumed) == {3: {4.0}}
    assert {event["episode_len_mean"] for event in resumed if event["kind"] == "evaluation"} == {4.0}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "params"), [("impala", {}), ("appo", {}), ("dqn", {"rollout_fragment_length": 20})]
)
def test_other_algorithms_follow_the_stages_too(tmp_path, algorithm, params):
    run = submit(tmp_path, algorithm, runners=1, steps=6000, **params)
    assert run.wait() is State.FINISHED, run.log()
    events = list(run.events())
    assert [event["stage"] for event in events if event["kind"] == "curriculum"] == [2, 3]
    assert by_stage(events)[3] == {4.0}
    assert by_stage(events)[1] == {2.0}
