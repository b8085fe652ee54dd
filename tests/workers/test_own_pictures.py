"""Pictures of a user's own envs, in training and in evaluations; why there are none."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.policies.registry import load_policy
from mosaic.runners.screen import why_undrawn
from mosaic.telemetry.events.reader import read_events
from mosaic.workers.evaluation import evaluate_learners
from mosaic.workers.tabular.frames import watched
from tests.workers.hosting import run_config
from tests.workers.watching import EagerContext, train_here

MAZES = """
import gymnasium
import numpy as np


class Plain(gymnasium.Env):
    observation_space = gymnasium.spaces.Discrete(9)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return 0, {}

    def step(self, action):
        self.steps += 1
        return self.steps, float(action), self.steps == 8, False, {}

    def render(self):
        assert self.render_mode == "rgb_array"
        return np.full((4, 6, 3), 10 * self.steps, np.uint8)


class Drawn(Plain):
    metadata = {"render_modes": ["human", "rgb_array"]}

    def __init__(self, render_mode=None):
        assert render_mode is None or render_mode in self.metadata["render_modes"]
        self.render_mode = render_mode


class Undeclared(Plain):
    def __init__(self, render_mode=None):
        self.render_mode = render_mode


class Textual(Plain):
    metadata = {"render_modes": ["ansi"]}

    def __init__(self, *, render_mode=None):
        assert render_mode is None or render_mode in self.metadata["render_modes"]
        self.render_mode = render_mode


class Chosen(Plain):
    metadata = {"render_modes": ["ansi", "rgb_array"]}

    def __init__(self, render_mode="ansi"):
        self.render_mode = render_mode


def made(render_mode):
    return Drawn(render_mode)
"""


PARAMS = {
    "native": {"hidden": [8], "n_steps": 32, "n_epochs": 1, "batch_size": 64},
}


@pytest.fixture
def mazes(tmp_path):
    path = tmp_path / "mazes.py"
    path.write_text(MAZES)
    return f"python:{path}"


@pytest.mark.parametrize(
    ("name", "options", "mode"),
    [
        ("Drawn", {}, "rgb_array"),
        ("Undeclared", {}, "rgb_array"),
        ("made", {}, "rgb_array"),
        ("Drawn", {"render_mode": None}, None),
        ("Plain", {}, None),
        ("Textual", {}, None),
        ("Chosen", {}, "ansi"),
    ],
)
def test_a_class_that_takes_a_render_mode_draws_unless_something_else_was_asked_for(mazes, name, options, mode):
    env = make_env(f"{mazes}:{name}", **options)
    assert env.env.render_mode == mode
    assert env.spec.facts.config.options == options  # what was asked for
    env.reset(0)
    assert mode == "ansi" or (env.render() is None) is (mode is None)
    given = make_env(type(env.env), **options)  # the class itself, from a script
    assert given.env.render_mode == mode


def test_options_that_a_class_does_not_take_are_refused_as_they_were_given(mazes):
    with pytest.raises(InputError, match=r"Drawn does not take these options \{'size': 3\}: "):
        make_env(f"{mazes}:Drawn", size=3)


def trained(tmp_path, worker, env_id):
    """The context of a run that was watched all the time, and the alerts that it raised."""
    config = run_config(
        worker,
        PARAMS[worker],
        environment={"env_id": env_id},
        training={"total_timesteps": 256, "preset": False},
        evaluation={"episodes": 2},
    )
    context = train_here(tmp_path / "home", config, EagerContext)
    alerts = [event["message"] for event in read_events(context.folder.metrics) if event["kind"] == "alert"]
    return context, alerts


@pytest.mark.parametrize("worker", PARAMS)
def test_training_and_evaluations_of_an_own_env_are_seen(tmp_path, mazes, worker, monkeypatch):
    monkeypatch.setattr("mosaic.workers.evaluation.ASK_EVERY_S", 0.0)
    context, alerts = trained(tmp_path, worker, f"{mazes}:Drawn")
    assert alerts == []
    assert context.shown
    assert {int(rgb[0, 0, 0]) for rgb, _ in context.evaluated} == set(range(0, 90, 10))


@pytest.mark.parametrize("worker", PARAMS)
def test_viewers_of_an_env_that_draws_nothing_are_told_why_once(tmp_path, mazes, worker):
    context, alerts = trained(tmp_path, worker, f"{mazes}:Plain")
    assert (context.shown, context.evaluated) == ([], [])
    (alert,) = alerts
    assert alert.startswith(f"No pictures: {mazes}:Plain draws none. Let its class take render_mode, list 'rgb_array'")


def test_evaluations_of_a_table_of_a_compiled_own_env_are_seen_though_its_training_is_not(mazes):
    shown = []
    context = SimpleNamespace(
        config=RunConfig.model_validate({"environment": {"env_id": f"{mazes}:Drawn"}, "evaluation": {"episodes": 1}}),
        frame_wanted=lambda: True,
        frame=lambda rgb, **facts: shown.append(facts["agent"]),
    )
    with watched(context, SimpleNamespace(advance=lambda steps, episodes: None)) as training:
        training.advance(5, 0)
        make = lambda spec, agent: load_policy("random", spec, (agent,), seed=1)  # noqa: E731
        assert len(list(evaluate_learners(context.config, make, screen=training.camera))) == 1
    assert shown[0] == "evaluation, return=0"


def test_the_reason_is_an_option_where_one_was_given():
    asked = EnvironmentConfig(env_id="gym/CartPole-v1", options={"render_mode": None})
    assert why_undrawn(asked) == (
        "No pictures: the option render_mode of gym/CartPole-v1 is None. Leave it out to see the env."
    )
    assert why_undrawn(EnvironmentConfig(env_id="gym/CartPole-v1")) == ""
