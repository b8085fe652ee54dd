"""Policies with a user's own module or connectors play as they were trained, without Ray."""

from __future__ import annotations

import json
import os
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ray.rllib.connectors.connector_v2 import ConnectorV2

from mosaic.core.errors import InputError, TrustError
from mosaic.core.user_code import code_refused
from mosaic.policies.controller import Sampling
from mosaic.workers.rllib.checkpoint.controllers import FACTS
from mosaic.workers.rllib.checkpoint.export import CONNECTORS, policy_files
from mosaic.workers.rllib.checkpoint.user_controller import UserPolicyController, connector_states
from tests.workers.rllib.checkpoint.test_rllib_play import (
    BOARD,
    LSTM,
    MOVING,
    SPREAD,
    compared,
    export_new,
    players_of,
    runner_of,
)
from tests.workers.rllib.rllib_setups import make_setup

EXAMPLES = f"python:{Path(__file__).parents[4] / 'examples' / 'rllib_classes.py'}:"
CLASSES = "python:tests.workers.rllib.config.test_rllib_user_classes:"
HERE = "python:tests.workers.rllib.checkpoint.test_rllib_user_play:"
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "module": ("gym/CartPole-v1", {"params": {"rl_module": EXAMPLES + "SkipModule"}}),
    "module and connectors": (
        "gym/CartPole-v1",
        {
            "params": {
                "rl_module": EXAMPLES + "SkipModule",
                "env_to_module": EXAMPLES + "Scaled",
                "module_to_env": EXAMPLES + "stay_inside",
            }
        },
    ),
    "masks": (BOARD, {"params": {"rl_module": CLASSES + "OwnDefault"}}),
    "masks and memory": (BOARD, {"params": LSTM | {"rl_module": CLASSES + "OwnDefault"}}),
    "several agents": (SPREAD, {"policy_configuration": "independent", "params": {"env_to_module": HERE + "Doubled"}}),
    "numbers": (SPREAD, {"env_options": MOVING, "params": {"env_to_module": HERE + "Counted"}}),
    "filter": (SPREAD, {"params": {"env_to_module": HERE + "Doubled", "observation_filter": "MeanStdFilter"}}),
}


class Doubled(ConnectorV2):
    def __call__(self, *, batch: Any, episodes: list[Any], **also: Any) -> Any:
        for episode in self.single_agent_episode_iterator(episodes):
            episode.set_observations(at_indices=-1, new_data=2 * np.asarray(episode.get_observations(-1)))
        return batch


class Counted(Doubled):
    """Connector with a state, which acting depends on."""

    factor = 1.0

    def get_state(self, *given: Any, **also: Any) -> dict[str, Any]:
        return {"factor": self.factor}

    def set_state(self, state: dict[str, Any]) -> None:
        self.factor = state["factor"]

    def __call__(self, *, batch: Any, episodes: list[Any], **also: Any) -> Any:
        for episode in self.single_agent_episode_iterator(episodes):
            seen = np.asarray(episode.get_observations(-1))
            episode.set_observations(at_indices=-1, new_data=self.factor * seen)
        return batch


def exported(folder: Path, case: str) -> tuple[Any, Any]:
    env, said = CASES[case]
    setup = make_setup(folder, env, seed=3, **said)
    runner = runner_of(setup)
    for connector in runner._env_to_module.connectors:
        if isinstance(connector, Counted):
            connector.factor = 3.0
    export_new(folder, setup, runner)
    if CONNECTORS in policy_files(setup, next(iter(setup.modules))):
        (folder / CONNECTORS).write_bytes(connector_states(runner._env_to_module, runner._module_to_env))
    return setup, runner


@pytest.mark.parametrize(
    "case", ["module", "module and connectors", "masks", "masks and memory", "several agents", "numbers", "filter"]
)
def test_a_policy_plays_as_it_was_trained(case: str, tmp_path: Path):
    setup, runner = exported(tmp_path, case)
    players = players_of(tmp_path, setup)
    assert all(isinstance(player, UserPolicyController) for player in players.values())
    count, agreed = compared(setup, runner, players)
    assert agreed == count > 0


def test_draws_repeat_with_their_seed_and_follow_the_module(tmp_path: Path):
    setup, _ = exported(tmp_path, "module")
    player = players_of(tmp_path, setup, Sampling())["agent_0"]
    from mosaic.envs.catalog import make_env

    env = make_env("gym/CartPole-v1")
    turn = env.reset(1)
    drawn = []
    for _ in range(2):
        player.begin(("agent_0",), 5)
        drawn.append([player.act(turn)["agent_0"] for _ in range(20)])
    env.close()
    assert drawn[0] == drawn[1]
    assert len(set(map(int, drawn[0]))) == 2


def test_a_temperature_is_refused(tmp_path: Path):
    setup, _ = exported(tmp_path, "module")
    with pytest.raises(InputError, match="draw actions themselves: use sample=true instead of a temperature"):
        players_of(tmp_path, setup, Sampling(0.5))


@pytest.mark.parametrize("case", ["module", "numbers"])
def test_code_of_a_foreign_run_is_not_loaded(tmp_path: Path, case: str):
    setup, _ = exported(tmp_path, case)
    (tmp_path / CONNECTORS).write_bytes(b"a pickle that must not be read")
    with code_refused("it was imported"), pytest.raises(TrustError, match="is not loaded: it was imported"):
        players_of(tmp_path, setup)


class Bomb:
    """Pickle that creates a folder when it is loaded."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self._path),)


def test_a_forged_policy_of_a_foreign_run_unpickles_nothing(tmp_path: Path):
    """It names no code, only a pickle."""
    setup, _ = exported(tmp_path, "module")
    document = json.loads((tmp_path / FACTS).read_text())
    for facts in document["policies"].values():
        facts["code"] = {"rl_module": None, "env_to_module": None, "module_to_env": None, "connectors": CONNECTORS}
    (tmp_path / FACTS).write_text(json.dumps(document))
    (tmp_path / CONNECTORS).write_bytes(pickle.dumps(Bomb(tmp_path / "exploded")))
    with code_refused("it was imported"), pytest.raises(TrustError, match="is not loaded: it was imported"):
        players_of(tmp_path, setup)
    assert not (tmp_path / "exploded").exists()
