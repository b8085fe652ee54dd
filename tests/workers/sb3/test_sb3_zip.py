"""Zips that SB3 wrote take an agent's place: `sb3:FILE`, read without unpickling."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor

from mosaic import evaluate, load_policy
from mosaic.core.errors import InputError, TrustError, UnknownNameError
from mosaic.policies.registry import parse_policy
from mosaic.workers.sb3.checkpoint.space_text import UnreadableSpaceError, space_from_fields
from mosaic.workers.sb3.checkpoint.zip_file import read_zip
from mosaic.workers.sb3.checkpoint.zip_policy import zip_algorithm
from tests.workers.sb3.models import CHOICE, CLASSES, VECTOR, Spaces, action_of, make_model


class Halved(BaseFeaturesExtractor):
    """A user's own features extractor."""

    def __init__(self, observation_space: spaces.Box) -> None:
        super().__init__(observation_space, 3)
        self.mine = torch.nn.Linear(observation_space.shape[0], 3)

    def forward(self, observations: Any) -> Any:
        return self.mine(observations) / 2


@pytest.fixture
def cartpole(tmp_path: Path) -> Path:
    from stable_baselines3 import PPO

    PPO("MlpPolicy", "CartPole-v1", seed=1, device="cpu").save(tmp_path / "pole.zip")
    return tmp_path / "pole.zip"


def own(tmp_path: Path) -> tuple[Any, Path]:
    model = make_model("ppo", VECTOR, CHOICE, policy_kwargs={"features_extractor_class": Halved})
    model.save(tmp_path / "own.zip")
    return model, tmp_path / "own.zip"


@pytest.mark.parametrize("algorithm", CLASSES)
def test_the_algorithm_is_found_in_the_file_or_given(algorithm: str, tmp_path: Path) -> None:
    make_model(algorithm, VECTOR, action_of(algorithm)).save(tmp_path / "model.zip")
    found = read_zip(tmp_path / "model.zip")
    assert zip_algorithm(found, None) == algorithm
    assert zip_algorithm(found, algorithm) == algorithm


def test_a_zip_is_evaluated_and_loaded_as_any_policy(cartpole: Path) -> None:
    found = evaluate("gym/CartPole-v1", {"*": f"sb3:{cartpole}"}, episodes=2, seed=1)
    assert found.agents["agent_0"].returns.mean >= 8
    with load_policy(f"sb3:{cartpole},algo=ppo,sample=true", "gym/CartPole-v1") as policy:
        assert policy.predict(np.zeros(4, np.float32)) in (0, 1)
    kind, _ = parse_policy(f"sb3:{cartpole}")
    assert kind.usage.startswith("sb3:FILE")


def test_an_algorithm_that_does_not_fit_is_refused(cartpole: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"no algorithm of a zip of SB3 named 'pppo'\. Did you mean 'ppo'"):
        load_policy(f"sb3:{cartpole},algo=pppo", "gym/CartPole-v1")
    with pytest.raises(InputError, match="holds no sac policy: its weights are those of one of ppo, a2c"):
        load_policy(f"sb3:{cartpole},algo=sac", "gym/CartPole-v1")
    with pytest.raises(InputError, match="There is no file"):
        load_policy("sb3:nowhere.zip", "gym/CartPole-v1")


def test_other_spaces_are_refused_with_their_differences(cartpole: Path) -> None:
    with pytest.raises(
        InputError, match=r"as agent_0, whose spaces differ: its observation is Box\(.*\(2,\), float32\)"
    ):
        load_policy(f"sb3:{cartpole}", "gym/MountainCar-v0")
    with pytest.raises(InputError, match=r"its action is Discrete\(3\) here and Discrete\(2\) in training"):
        load_policy(f"sb3:{cartpole}", Spaces(gym.make("CartPole-v1").observation_space, spaces.Discrete(3)))


def test_a_class_of_the_users_own_needs_trust_and_then_plays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOSAIC_TRUST", raising=False)
    model, path = own(tmp_path)
    env = Spaces(VECTOR, CHOICE)
    with pytest.raises(TrustError, match=r"its field policy_kwargs\.features_extractor_class is .*Halved.*add --trust"):
        load_policy(f"sb3:{path}", env)
    monkeypatch.setenv("MOSAIC_TRUST", "1")
    with load_policy(f"sb3:{path}", env) as policy:
        for _ in range(50):
            shown = VECTOR.sample()
            assert policy.predict(shown) == int(model.predict(shown, deterministic=True)[0])
    with load_policy(f"sb3:{path},sample=true", env) as drawn:
        drawn.reset(3)
        first = [drawn.predict(VECTOR.low) for _ in range(30)]
        before = torch.get_rng_state()
        drawn.reset(3)
        assert first == [drawn.predict(VECTOR.low) for _ in range(30)]
        assert torch.equal(before, torch.get_rng_state())  # the process's own stream is not touched
    with pytest.raises(InputError, match="use sample=true instead of a temperature"):
        load_policy(f"sb3:{path},temperature=2", env)


def test_weights_without_a_name_for_their_class_need_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOSAIC_TRUST", raising=False)
    _, path = own(tmp_path)
    edited(path, policy_kwargs={})
    with pytest.raises(TrustError, match=r"has the weights 'pi_features_extractor\.mine\.(weight|bias)'"):
        load_policy(f"sb3:{path}", Spaces(VECTOR, CHOICE))


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("observation_space", {":type:": "<class 'mine.Space'>"}, "its field observation_space is it is a 'Space'"),
        ("policy_class", {"__module__": "__main__"}, "its field policy_class is a class of __main__"),
        (
            "policy_kwargs",
            {"activation_fn": "<class 'mine.Wave'>"},
            "its field policy_kwargs.activation_fn is <class 'mine.Wave'>",
        ),
    ],
)
def test_a_field_that_only_a_pickle_restores_is_named(
    field: str, value: Any, message: str, cartpole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MOSAIC_TRUST", raising=False)
    edited(cartpole, **{field: value})
    with pytest.raises(TrustError) as caught:
        load_policy(f"sb3:{cartpole}", "gym/CartPole-v1")
    assert message in str(caught.value)


def edited(path: Path, **fields: Any) -> None:
    """Change fields of the zip's JSON."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["data"] = json.dumps({**json.loads(members["data"]), **fields}).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def test_spaces_are_read_from_the_text_that_sb3_writes(tmp_path: Path) -> None:
    shown = spaces.Dict(
        {
            "it's": spaces.Box(np.array([-1.5, 0], np.float32), np.array([2, np.inf], np.float32)),
            "image": spaces.Box(0, 255, (3, 36, 36), np.uint8),
            "gear": spaces.Discrete(4),
            "levers": spaces.MultiDiscrete([3, 4]),
            "lamps": spaces.MultiBinary(5),
        }
    )
    text = {":type:": "<class 'gymnasium.spaces.dict.Dict'>", "spaces": str(shown.spaces)}
    parts: Any = space_from_fields(text)["parts"]
    found = dict(parts)
    assert list(found) == list(shown.spaces)
    assert found["it's"]["low"] == [-1.5, 0.0]
    assert found["it's"]["high"] == [2.0, "inf"]
    assert found["image"] == {"space": "Box", "shape": [3, 36, 36], "dtype": "uint8", "low": 0.0, "high": 255.0}
    assert found["gear"]["n"] == 4
    assert found["levers"]["nvec"] == [3, 4]
    assert found["lamps"]["shape"] == [5]
    for damaged in ({}, "x", {":type:": "<class 'gymnasium.spaces.box.Box'>"}, {**text, "spaces": "{'a': Box(1"}):
        with pytest.raises(UnreadableSpaceError):
            space_from_fields(damaged)


def test_a_zip_is_a_checkpoint_like_any_other(cartpole: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOSAIC_TRUST", raising=False)
    shown = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    with (
        load_policy(f"sb3:{cartpole}", "gym/CartPole-v1") as one,
        load_policy(f"checkpoint:{cartpole},algo=ppo", "gym/CartPole-v1") as other,
        load_policy(f"checkpoint:{cartpole.parent}", "gym/CartPole-v1") as found,
    ):
        assert one.predict(shown) == other.predict(shown) == found.predict(shown)
    with pytest.raises(InputError, match="holds no sac policy"):
        load_policy(f"checkpoint:{cartpole},algo=sac", "gym/CartPole-v1")
    with pytest.raises(InputError, match=r"a zip of SB3 holds one policy, without a name\. Leave policy out"):
        load_policy(f"checkpoint:{cartpole},policy=red", "gym/CartPole-v1")
