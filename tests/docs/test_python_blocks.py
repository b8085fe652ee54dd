"""Blocks of Python in the documentation are executed, each with the names that its page takes for granted."""

import inspect
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from unittest.mock import create_autospec

import gymnasium
import numpy as np
import pytest

import mosaic as package
from mosaic.plugins import MakesPolicies, PolicyController, Shot, Worker, WorkerContext
from mosaic.testing import check_env
from mosaic.workers.script.checkpoints import Announcement, ProgramFiles
from tests.docs.page_kit import Beside
from tests.docs.pages import PAGES, blocks_of, name_of
from tests.ui.conftest import mosaic as mosaic  # a fixture

Names = dict[str, Any]


def no_names(beside: Beside) -> Names:
    return {}


def nothing_more(names: Names) -> None:
    pass


class Example(NamedTuple):
    """What a block needs: its names, what is written in it and what it is here, and what is true afterwards."""

    names: Callable[[Beside], Names] = no_names
    instead: Mapping[str, str] = {}
    afterwards: Callable[[Names], None] = nothing_more
    processes: bool = False  # its runs are commanded while they train


class Sized(gymnasium.Env[Any, int]):
    """Env with an option, as a reader's own."""

    observation_space = gymnasium.spaces.Box(0, 1, (1,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, size: int = 4) -> None:
        self.size, self.place = size, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        self.place = 0
        return np.zeros(1, np.float32), {}

    def step(self, action: int) -> Any:
        self.place += 1
        return np.full(1, self.place / 20, np.float32), float(action), self.place == self.size, False, {}


class Still:
    """Scene of one env that is always the same."""

    envs, freezes = 1, False

    def shoot(self, index: int) -> Shot:
        raise AssertionError("there is no viewer")


def context(*done: str | None) -> Any:
    """Return a context that takes only the calls of a real one, and says the limits that are reached, in turn."""
    made = create_autospec(WorkerContext, instance=True)
    made.done.side_effect = done
    made.inbox, made.resume_from = create_autospec(object, instance=True), None
    made.inbox.wait_while_paused = lambda: None
    made.checkpoint_due.return_value = made.frame_wanted.return_value = True
    return made


def recorded_games(beside: Beside) -> Names:
    package.evaluate("classic/tictactoe_v3", {"*": "random"}, episodes=20, recorder=package.record_demo("games"))
    return {}


def script_of_cleanrl(beside: Beside) -> Names:
    layers = [(np.zeros((4, 8)), np.zeros(8)), (np.zeros((8, 2)), np.zeros(2))]
    return {"global_step": 500, "returns": np.ones(3), "layers": layers}


def policy_is_announced(names: Names) -> None:
    """Check the file as the worker does that hears of it."""
    assert ProgramFiles(names["folder"], Announcement(env_steps=500, policy="policy.safetensors")).policies


def policy_server(beside: Beside) -> Names:
    beside.start_server("mosaic policy-server random --env gym/CartPole-v1 --port 8643")
    return {"observation": [0.0, 0.1, 0.0, 0.1], "reward": 1.0}


def project(beside: Beside) -> Names:
    Path("mosaic.toml").write_text(
        'version = 1\nname = "hall"\nenv = "gym/CartPole-v1"\n'
        '[train.quick.training]\nworker = "toy"\ntotal_timesteps = 300\n'
    )
    return {}


def sb3_model(beside: Beside) -> Names:
    from stable_baselines3 import PPO

    return {"model": PPO("MlpPolicy", "CartPole-v1", device="cpu", n_steps=64)}


def pandas(beside: Beside) -> Names:
    return {"pandas": pytest.importorskip("pandas")}


def same_methods(names: Names) -> None:
    compare(names["PolicyController"], PolicyController, "begin", "act", "close")


def compare(shown: type, real: type, *methods: str) -> None:
    """Compare the parameters of the methods that a page shows with those of the real protocol."""
    for name in methods:
        parameters = [list(inspect.signature(getattr(each, name)).parameters) for each in (shown, real)]
        assert parameters[0] == parameters[1], name


def trains(names: Names) -> None:
    compare(names["MyWorker"], Worker, "options", "run")
    compare(names["MyWorker"], MakesPolicies, "controller")
    worker, saved = names["MyWorker"](), context(None, "its steps are done")
    worker.run(saved)
    assert saved.report.call_count == saved.checkpoint.call_count == 1


def is_an_env(names: Names) -> None:
    check_env(lambda: package.make_env(names["Corridor"]))


def ends(names: Names) -> None:
    names["run"].stop()
    assert names["run"].wait(60) == "stopped"
    assert names["trainer"].runs()[0].id == names["run"].id


def project_has_a_run(names: Names) -> None:
    assert [run.id for run in names["runs"]] == [names["run"].id]


def acts(names: Names) -> None:
    assert names["action"] in (0, 1)


def picture(beside: Beside) -> Names:
    numbers = {"env_steps": 7, "episodes": 1, "reward": 0.5, "return_so_far": 1.5}
    return {"context": context(), "env": create_autospec(gymnasium.Env, instance=True), **numbers}


def camera(beside: Beside) -> Names:
    made = context(None, None, "its steps are done")
    made.frame_wanted.return_value = False
    return {"context": made, "scene": Still(), "env_steps": 0}


def worker_parts(beside: Beside) -> Names:
    return {"MyOptions": None, "load": lambda checkpoint: (0, 0.0), "save": lambda folder: None, "episodes": 0}


EXAMPLES = {  # the page, and which of its blocks
    ("README.md", 0): Example(),
    ("demonstrations.md", 0): Example(),
    ("external.md", 0): Example(policy_server),
    ("external.md", 1): Example(lambda beside: {"PolicyClient": package.PolicyClient}, {"HOST:PORT": "127.0.0.1:8642"}),
    ("first-hour.md", 0): Example(afterwards=is_an_env),
    ("imitation.md", 0): Example(recorded_games),
    ("migrating/cleanrl.md", 0): Example(script_of_cleanrl, {}, policy_is_announced),
    ("plugins.md", 0): Example(lambda beside: {"Protocol": Protocol, "Mapping": Mapping}, {}, same_methods),
    ("plugins.md", 1): Example(worker_parts, {"PolicyEntry(...)": 'PolicyEntry(files=("policy.bin",))'}, trains),
    ("plugins.md", 2): Example(picture),
    ("plugins.md", 3): Example(camera),
    ("projects.md", 0): Example(project, {}, project_has_a_run),
    ("python.md", 0): Example(pandas, {}, ends, processes=True),
    ("python.md", 1): Example(
        lambda beside: {"MyEnv": Sized, "observation": np.zeros(1, np.float32)},
        {"100_000": "20_000", "50_000": "1_000"},
        acts,
    ),
    ("python.md", 2): Example(),
    ("sb3.md", 0): Example(sb3_model, {"100_000": "600"}),
    ("tabular.md", 0): Example(),
    ("training.md", 0): Example(),
}
FOUND = {
    (name_of(page), number): block.text for page in PAGES for number, block in enumerate(blocks_of(page, "python"))
}


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("name", "number"), EXAMPLES)
def test_python_does_what_the_page_says(name, number, mosaic, monkeypatch, request):
    example, text = EXAMPLES[name, number], FOUND[name, number]
    if not example.processes:
        request.getfixturevalue("runs_here")
    for written, here in example.instead.items():
        assert written in text
        text = text.replace(written, here)
    with ExitStack() as stack:
        beside = Beside(stack)
        names = {"mosaic": package, "__name__": "page", **example.names(beside)}
        exec(compile(beside.replaced(text), f"{name}, block {number}", "exec"), names)
        example.afterwards(names)


def test_every_block_of_python_is_executed():
    assert sorted(FOUND) == sorted(EXAMPLES)
