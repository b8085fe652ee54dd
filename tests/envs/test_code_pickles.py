"""Code of a script or notebook that is sent to other processes: the user's own classes stay as they are."""

import os
import pickle
import subprocess
import sys
import types

import cloudpickle
import pytest

import mosaic
from mosaic.envs.code_pickles import digest_of, dumps
from mosaic.envs.objects import stored_environment

CELL = """
import enum
from dataclasses import dataclass
from typing import Generic, TypeVar
import gymnasium

scale = 1.0
WORDS = {"up", "down", "left", "right", "stay", "jump"}
T = TypeVar("T")

class Move(enum.Enum):
    STAY = 0
    GO = 1

@dataclass
class Place:
    at: int = 0

class Kept(Generic[T]):
    def __init__(self, value: T) -> None:
        self.value = value

class Base(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(7)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = Place()
        return 0, {}

class Own(Base):
    def reset(self, *, seed=None, options=None):
        found = super().reset(seed=seed, options=options)
        assert isinstance(self, Base) and isinstance(self.place, Place) and self.place == Place(0)
        assert Move(1) is Move.GO and isinstance(Kept(3), Kept) and "up" in WORDS
        return found

    def step(self, action):
        assert "fly" not in {"walk", "run", "swim"}
        self.place.at += 1
        return self.place.at % 7, scale, self.place.at >= 10, False, {}

class Always:
    def __init__(self, spec, agent, seed): pass
    def begin(self, agents, seed): pass
    def act(self, turn): return {agent: round(scale) % 2 for agent in turn.observations}
    def close(self): pass
"""


@pytest.fixture
def notebook(tmp_path, monkeypatch):
    """The names of a notebook that has run one cell."""
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    made = types.ModuleType("made_in_a_notebook")
    monkeypatch.setitem(sys.modules, made.__name__, made)
    exec(compile(CELL, "<ipython-input-1>", "exec"), vars(made))
    cloudpickle.register_pickle_by_value(made)  # as `stored_environment` does with modules that no file has
    yield made
    cloudpickle.unregister_pickle_by_value(made)


def _is_untouched(notebook) -> bool:
    classes = (notebook.Own.step, notebook.Own.reset, notebook.Base.reset, notebook.Always.act, notebook.Place.__eq__)
    return all(each.__globals__ is vars(notebook) for each in classes[:-1]) and notebook.Place(3) == notebook.Place(3)


def _mean(notebook, **options) -> float:
    found = mosaic.evaluate(notebook.Own, {"*": notebook.Always}, episodes=2, **options)
    return found.to_json()["agents"]["agent_0"]["return_mean"]


def test_a_class_of_a_notebook_is_unchanged_after_it_was_evaluated_and_trained(notebook, runs_here):
    assert (_mean(notebook), _mean(notebook, num_env_runners=2)) == (10.0, 10.0)
    mosaic.train(notebook.Own, worker="toy", total_timesteps=100)
    assert _is_untouched(notebook)
    notebook.scale = 3.0  # a later cell: everybody plays with the new value
    assert (_mean(notebook), _mean(notebook, num_env_runners=2)) == (30.0, 30.0)
    env = notebook.Own()
    env.reset()
    assert env.step(1)[1] == 3.0


def test_a_loaded_class_is_a_new_one_with_the_same_meaning(notebook):
    loaded = pickle.loads(
        dumps([notebook.Own, notebook.Base, notebook.Move, notebook.Place, notebook.Kept, notebook.T])
    )
    own, base, move, place, kept, variable = loaded
    assert own is not notebook.Own
    assert issubclass(own, base)
    assert not issubclass(own, notebook.Base)
    assert [(each.name, each.value) for each in move] == [("STAY", 0), ("GO", 1)]
    assert move(1) is move.GO
    assert place(2) == place(2) != place(3)
    assert repr(place(2)) == "Place(at=2)"
    assert kept.__parameters__ == (variable,)
    assert variable is not notebook.T
    env = own()
    assert env.reset(seed=3) == (0, {})
    assert isinstance(env, base)
    assert _is_untouched(notebook)


def test_an_id_changes_with_the_source_and_with_nothing_else(notebook, tmp_path):
    kept = stored_environment(notebook.Own, tmp_path)
    mosaic.make_env(kept)
    assert stored_environment(notebook.Own, tmp_path) == kept
    exec(compile(CELL, "<ipython-input-2>", "exec"), vars(notebook))  # the same cell once more
    assert stored_environment(notebook.Own, tmp_path) == kept
    exec(compile(CELL.replace("at >= 10", "at >= 11"), "<ipython-input-3>", "exec"), vars(notebook))
    assert stored_environment(notebook.Own, tmp_path) != kept
    assert stored_environment(notebook.Base, tmp_path) != kept


def test_an_id_is_the_same_in_every_process(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(f"{CELL}\nfrom mosaic.envs.code_pickles import digest_of\nprint(digest_of(Own))\n")
    digests = [
        subprocess.run(
            [sys.executable, str(script)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert digests[0] == digests[1] != ""


def test_sets_count_by_what_is_in_them():
    assert digest_of({"a", "b", "c"}) == digest_of({"c", "b", "a"})
    assert len({digest_of(each) for each in ({1}, {"1"}, {1.0}, frozenset({1}), {True}, {1, 2}, {(1,)})}) == 7
