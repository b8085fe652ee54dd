"""Training, evaluating and playing from Python: env objects, files of code, callbacks."""

import os
import subprocess
import sys
import types
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import mosaic
from mosaic.config.loading import parse_run_config
from mosaic.config.programs import with_absolute_paths
from mosaic.core.errors import InputError
from mosaic.core.user_code import FOLDERS, absolute_code, load_code
from mosaic.envs.objects import stored_environment
from mosaic.runs.trainer import Trainer
from mosaic.workers.resolution import resolve

MAZE = """
import gymnasium as gym
from {beside} import GOAL

class Maze(gym.Env):
    observation_space, action_space = gym.spaces.Discrete(6), gym.spaces.Discrete(2)

    def __init__(self, goal=GOAL):
        self.goal = goal

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.at = 0
        return 0, {{}}

    def step(self, action):
        self.at = max(0, self.at + (1 if action else -1))
        return self.at, float(self.at == self.goal), self.at == self.goal, False, {{}}

def right(observation, mask):
    return 1
"""


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder of code, another folder to be in, and a store."""
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    monkeypatch.setenv(FOLDERS, "")
    name = f"maze_{os.urandom(4).hex()}"
    code = tmp_path / "code"
    code.mkdir()
    (code / f"beside_{name}.py").write_text("GOAL = 4\n")
    (code / f"{name}.py").write_text(MAZE.format(beside=f"beside_{name}"))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.setattr(sys, "path", list(sys.path))
    return code, name


class Corridor(gymnasium.Env):
    """One step to the right ends it."""

    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    def __init__(self, pay=1.0):
        self.pay = pay

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return int(action), self.pay * float(action), bool(action), False, {}


# Files of code.


def test_a_file_is_loaded_by_its_path_and_again_when_it_changes(place, monkeypatch):
    code, name = place
    monkeypatch.chdir(code.parent)
    reference = f"python:code/{name}.py:Maze"
    assert load_code(reference)().goal == 4
    assert load_code(reference) is load_code(absolute_code(reference))
    file = code / f"{name}.py"
    file.write_text(file.read_text().replace("goal=GOAL", "goal=3  "))
    os.utime(file, ns=(1, 1))
    assert load_code(reference)().goal == 3


def test_a_file_may_be_called_as_a_module_of_pythons(tmp_path):
    (tmp_path / "random.py").write_text("def seven():\n    return 7\n")
    assert load_code(f"python:{tmp_path}/random.py:seven")() == 7
    import random

    assert hasattr(random, "Random")


def test_errors_of_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"there is no file 'no/such\.py' \(looked in .*\)\. Give its path"):
        load_code("python:no/such.py:make")
    (tmp_path / "bad.py").write_text("open('missing.txt')\n")
    with pytest.raises(InputError, match=r"importing bad\.py failed: FileNotFoundError: .*missing\.txt"):
        load_code("python:bad.py:make")
    (tmp_path / "good.py").write_text("make = 1\n")
    with pytest.raises(InputError, match=r"no name in good\.py named 'mkae'\. Did you mean 'make'"):
        load_code("python:good.py:mkae")
    with pytest.raises(InputError, match=r"is not python:MODULE:NAME or python:FILE\.py:NAME"):
        load_code("python:good.py")


def test_paths_are_whole_wherever_a_configuration_names_code(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = with_absolute_paths(
        parse_run_config(
            {
                "environment": {"env_id": "python:a/env.py:make", "wrappers": ["python:w.py:Wrap", "flatten"]},
                "agents": {"*": "python:p.py:act", "b": "random"},
                "training": {"params": {"network": "python:n.py:Net", "extra_loss": "python:module:loss"}},
            }
        )
    )
    assert config.environment.id == f"python:{tmp_path}/a/env.py:make"
    assert config.environment.wrappers == (f"python:{tmp_path}/w.py:Wrap", "flatten")
    assert dict(config.agents) == {"*": f"python:{tmp_path}/p.py:act", "b": "random"}
    assert config.training.params == {"network": f"python:{tmp_path}/n.py:Net", "extra_loss": "python:module:loss"}


@pytest.mark.parametrize("form", ["python:{name}:Maze", "python:./{name}.py:Maze"])
def test_a_run_of_an_own_env_is_evaluated_from_another_folder(place, monkeypatch, runs_here, form):
    code, name = place
    monkeypatch.chdir(code)
    run = mosaic.train(form.format(name=name), worker="toy", total_timesteps=1000)
    env = run.config.environment.id
    program = (
        "import mosaic, sys\n"
        "if __name__ == '__main__':\n"
        "    result = mosaic.evaluate(sys.argv[1], {'*': 'run:latest'}, episodes=2, max_steps=9, num_workers=2)\n"
        "    print(result.notes, result.env_steps)\n"
    )
    file = code.parent / "elsewhere" / "program.py"
    file.write_text(program)
    done = subprocess.run(
        [sys.executable, str(file), env], cwd=file.parent, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("() ")


# Env objects.


def test_envs_are_given_as_objects_classes_factories_and_ids():
    made = [Corridor(), Corridor, lambda: Corridor(), "CartPole-v1", gymnasium.make("CartPole-v1")]
    assert [mosaic.make_env(env).possible_agents for env in made] == [("agent_0",)] * 5
    assert mosaic.make_env(Corridor, pay=3.0).step.__self__ is not None
    with pytest.raises(InputError, match="does not take these options"):
        mosaic.make_env(Corridor, prize=3)
    with pytest.raises(InputError, match="is one already"):
        mosaic.make_env(Corridor(), pay=3)
    with pytest.raises(InputError, match=r"returned a int\. It must return a gymnasium\.Env"):
        mosaic.make_env(lambda: 7)


def test_an_object_is_evaluated_in_place():
    found = mosaic.evaluate(Corridor(pay=5.0), {"*": "random"}, episodes=3, seed=1)
    assert found.to_json()["agents"]["agent_0"]["return_mean"] == 5.0
    assert mosaic.evaluate("CartPole-v1", {"*": "random"}, episodes=1).env == "gym/CartPole-v1"


def test_what_other_processes_need_is_stored(tmp_path):
    plain = stored_environment(gymnasium.make("FrozenLake-v1", is_slippery=False), tmp_path)
    assert (plain.id, dict(plain.options)) == (
        "gym/FrozenLake-v1",
        {**plain.options, "is_slippery": False},
    )
    assert stored_environment("CartPole-v1", tmp_path).id == "gym/CartPole-v1"
    kept = stored_environment(lambda: Corridor(2.0), tmp_path)
    assert kept.id.startswith(f"python:{tmp_path}/code/")
    assert kept == stored_environment(kept, tmp_path)
    assert mosaic.make_env(kept).reset(0).observations == {"agent_0": 0}
    wrapped = gymnasium.wrappers.TransformReward(Corridor(), lambda reward: 7 * reward)
    again = mosaic.make_env(stored_environment(wrapped, tmp_path))
    again.reset(0)
    assert again.step({"agent_0": 1}).rewards == {"agent_0": 7.0}
    with pytest.raises(InputError, match=r"cannot be sent to other processes: .* Give the class, or a function"):
        stored_environment(_Unpicklable(), tmp_path)


def test_an_env_of_a_module_without_a_file_is_kept_by_value(tmp_path, monkeypatch):
    made = types.ModuleType("made_by_a_program")
    monkeypatch.setitem(sys.modules, "made_by_a_program", made)
    exec("import gymnasium\ndef make():\n    return gymnasium.make('CartPole-v1')\n", vars(made))
    kept = stored_environment(made.make, tmp_path)
    monkeypatch.delitem(sys.modules, "made_by_a_program")
    assert mosaic.make_env(kept).spec.possible_agents == ("agent_0",)


class _Unpicklable(Corridor):
    def __reduce__(self):
        raise TypeError("a window is open")


SCRIPT = """
import sys
import gymnasium
import mosaic

class Mine(gymnasium.Env):
    observation_space, action_space = gymnasium.spaces.Discrete(2), gymnasium.spaces.Discrete(2)

    def __init__(self, pay=1.0):
        self.pay = pay

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return 0, {}

    def step(self, action):
        return int(action), self.pay * float(action), bool(action), False, {}

print("once")
run = mosaic.train(Mine, worker="tabular", total_timesteps=2000, options={"pay": 2.0})
run = mosaic.train(Mine(3.0), worker="toy", total_timesteps=500)
"""


def test_a_class_of_the_running_script_trains_and_is_played_from_another_process(place):
    code, _ = place
    (code / "script.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=code, capture_output=True, text=True, timeout=200, check=False
    )
    assert (done.returncode, done.stdout) == (0, "once\n"), done.stderr
    latest, first = Trainer().runs()
    assert mosaic.make_env(latest.config.environment).reset(0)
    found = mosaic.evaluate(first.config.environment, {"*": f"run:{first.id}"}, episodes=2, seed=1, num_workers=2)
    assert found.to_json()["agents"]["agent_0"]["return_mean"] == 2.0
    assert found.notes == ()
    (code / "script.py").unlink()  # what the run needs is in the store
    first.resume(settings=["training.total_timesteps=3000"])
    assert first.wait(90) == "finished", first.log()
    assert [event["env_steps"] for event in first.events() if event["kind"] == "iteration"][-1] == 3000


# Policies.


def test_a_policy_predicts(place, runs_here):
    run = mosaic.train("gym/FrozenLake-v1", worker="toy", total_timesteps=1000)
    env = gymnasium.make("FrozenLake-v1")
    observation, _ = env.reset(seed=0)
    for given in (env, "FrozenLake-v1", "gym/FrozenLake-v1", mosaic.make_env("gym/FrozenLake-v1")):
        with mosaic.load_policy(f"run:{run.id}", given) as policy:
            assert policy.predict(observation) in range(4)
    assert env.step(0)  # the caller's env is still open
    with mosaic.load_policy("random", "classic/tictactoe_v3") as policy:
        mask = np.zeros(9, bool)
        mask[5] = True
        board = {"observation": np.zeros((3, 3, 2), np.int8), "action_mask": mask}
        assert policy.predict(board, agent="player_1") == 5
        assert policy.predict(board["observation"], mask, agent="player_2") == 5
        with pytest.raises(InputError, match=r"Name the agent: .* player_1, player_2"):
            policy.predict(board)
        with pytest.raises(InputError, match=r"no agent of this policy named 'player_3'"):
            policy.predict(board, agent="player_3")


def test_a_seed_repeats_what_a_policy_draws():
    with mosaic.load_policy("random", "CartPole-v1", seed=3) as policy:
        first = [policy.predict(np.zeros(4)) for _ in range(20)]
        policy.reset()
        assert [policy.predict(np.zeros(4)) for _ in range(20)] == first
        policy.reset(seed=4)
        assert [policy.predict(np.zeros(4)) for _ in range(20)] != first


# Training.


def test_train_takes_what_a_configuration_has(place, runs_here):
    run = mosaic.train(
        "classic/tictactoe_v3",
        worker="tabular",
        total_timesteps=300,
        policies="parameter_sharing",
        agents={"player_2": "random"},
        runtime="single",
        wrappers=["time_limit:max_steps=9"],
    )
    config = run.config
    assert (config.policy_configuration, dict(config.agents)) == ("parameter_sharing", {"player_2": "random"})
    assert (config.resources.runtime, config.environment.wrappers) == ("single", ("time_limit:max_steps=9",))
    assert (
        mosaic.train("CartPole-v1", worker="toy", total_timesteps=300, num_workers=3).config.resources.num_workers == 3
    )
    runs = mosaic.train("gym/CartPole-v1", worker="toy", total_timesteps=300, seed=5, seeds=2)
    assert len({each.config.seed for each in runs}) == 2
    assert all(each.state == "finished" for each in runs)
    with pytest.raises(InputError, match="runtime"):
        mosaic.train("gym/CartPole-v1", worker="toy", total_timesteps=300, runtime="paralel")


def test_callbacks_see_every_event_and_stop_the_run(place):
    seen = []
    run = mosaic.train("gym/CartPole-v1", worker="toy", total_timesteps=1000, callbacks=seen.append)
    assert [event["seq"] for event in seen] == [event["seq"] for event in run.events()]
    slow = {"iteration_s": 0.01}
    run = mosaic.train(
        "gym/CartPole-v1",
        worker="toy",
        total_timesteps=10**9,
        params=slow,
        callbacks=[lambda event: None, lambda event: event["kind"] != "iteration"],
    )
    assert (run.state, run.reason) == ("stopped", "a callback asked to")

    def fail(event):
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        mosaic.train("gym/CartPole-v1", worker="toy", total_timesteps=10**9, params=slow, callbacks=fail)
    assert Trainer().run("latest").state == "stopped"


@pytest.mark.parametrize(
    ("worker", "algorithm", "text"),
    [
        ("native", "tqc", "The workers rllib and sb3 have tqc: type --worker rllib --algo tqc$"),
        ("tabular", "dqn", "have dqn: type --worker native --algo dqn$"),
        ("native", "mappo", "--algo ppo --policies shared_value_function --set training.params.shared_actor=true$"),
        ("native", "recurrent_ppo", "type --algo ppo --set training.params.memory=lstm$"),
        ("rllib", "Recurrent-PPO", "type --algo ppo --set training.params.use_lstm=true$"),
        ("tabular", "mappo", "training.params.shared_actor=true --worker native$"),
        ("native", "q_lerning", "Known: a2c, alphazero, bc, cql, dagger, dqn, ppo, sac, td3\\.$"),
    ],
)
def test_an_algorithm_that_another_worker_has_is_named_with_it(worker, algorithm, text):
    config = parse_run_config(
        {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": worker, "algorithm": algorithm}}
    )
    with pytest.raises(InputError, match=text):
        resolve(config)


def test_files_of_the_store_are_private(tmp_path):
    kept = stored_environment(lambda: Corridor(2.0), tmp_path / "home")
    folder = Path(kept.env_id.partition(".py:")[0]).parent
    assert folder.stat().st_mode & 0o077 == 0
