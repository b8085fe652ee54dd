"""Checkpoints that RLlib wrote without Mosaic become files that act as RLlib does."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mosaic import export, load_policy
from mosaic.core.errors import InputError, TrustError
from mosaic.envs.catalog import make_env
from mosaic.envs.env import EnvSpec
from mosaic.policies.controller import PolicyRequest
from mosaic.store.archives.trust import VARIABLE
from mosaic.store.policies.foreign_checkpoint import ForeignSource
from mosaic.workers.rllib.checkpoint.controllers import load_policy as load_written
from mosaic.workers.rllib.checkpoint.foreign_export import convert_folder
from tests.workers.rllib.checkpoint.foreign_makers import (
    Pair,
    save_dqn,
    save_flattened,
    save_pair,
    save_ppo,
    save_sac,
)

pytestmark = [pytest.mark.slow]
PENDULUM, CARTPOLE = "gym/Pendulum-v1", "gym/CartPole-v1"


@pytest.fixture(scope="module")
def folder(ray: object, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("foreign")
    save_ppo(folder / "filtered", "Pendulum-v1", filtered=True)
    save_sac(folder / "sac")
    save_dqn(folder / "dqn")
    save_pair(folder / "pair")
    save_flattened(folder / "flattened")
    return folder


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "1")
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")


def request(env: str = CARTPOLE) -> PolicyRequest:
    made = make_env(env)
    made.close()
    return PolicyRequest("checkpoint:it", made.spec, made.spec.possible_agents)


def pair() -> EnvSpec:
    own = Pair()
    return replace(
        request().spec,
        possible_agents=tuple(own.possible_agents),
        observation_spaces=own.observation_spaces,
        action_spaces=own.action_spaces,
    )


@pytest.mark.parametrize(
    ("name", "algorithm", "env", "width"),
    [("filtered", "ppo", PENDULUM, 3), ("sac", "SAC", PENDULUM, 3), ("dqn", "dqn", CARTPOLE, 4)],
)
def test_a_file_acts_as_the_checkpoint_plays(folder: Path, name: str, algorithm: str, env: str, width: int) -> None:
    reference = f"checkpoint:{folder / name}"
    (file,) = export(f"{reference},algo={algorithm}", "it.onnx", environment=env)
    assert (file.policy, file.agents, file.parity.passed) == ("default_policy", ("agent_0",), True)
    with (
        load_policy("onnx:it.onnx", env) as exported,
        load_policy(f"{reference},sample=false", env) as played,
    ):
        for shown in np.random.default_rng(0).normal(0, 2, (50, width)).astype(np.float32):
            np.testing.assert_allclose(exported.predict(shown), played.predict(shown), atol=1e-4)


def test_each_agent_gets_its_module_and_one_can_be_named(folder: Path, tmp_path: Path) -> None:
    spec = pair()
    asked = PolicyRequest("checkpoint:pair", spec, spec.possible_agents)
    entries = convert_folder(ForeignSource(folder / "pair"), tmp_path, asked)
    assert {name: each.agents for name, each in entries.items()} == {"eyes": ("scout",), "hands": ("digger",)}
    load_written(tmp_path, "hands", replace(asked, agents=("digger",))).close()
    named = convert_folder(ForeignSource(folder / "pair", "hands"), tmp_path, asked)
    assert {name: each.agents for name, each in named.items()} == {"hands": ("digger",)}


@pytest.mark.parametrize(
    ("name", "env", "reason"),
    [
        ("flattened", CARTPOLE, r"through the connector ray.*FlattenObservations, .* default ones and MeanStdFilter"),
        ("sac", CARTPOLE, "whose spaces differ"),
        ("sac,algo=ppo", PENDULUM, "was written by RLlib's SAC, not by ppo"),
        ("sac", None, "does not name its env"),
    ],
)
def test_refusals(folder: Path, name: str, env: str | None, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        export(f"checkpoint:{folder}/{name}", "it.onnx", environment=env)
    assert os.listdir() == []


def test_nothing_is_loaded_without_trust(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    monkeypatch.setattr("pickle.load", lambda *_: pytest.fail("unpickled"))
    with pytest.raises(TrustError, match="add --trust"):
        export(f"checkpoint:{folder / 'sac'}", "it.onnx", environment=PENDULUM)
