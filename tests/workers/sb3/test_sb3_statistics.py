"""VecNormalize statistics beside zips: their numbers are used, and nothing in them is unpickled."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

from mosaic import load_policy
from mosaic.core.errors import InputError, TrustError
from mosaic.workers.sb3.checkpoint.statistics import read_statistics, statistics_beside
from tests.workers.sb3.models import CHOICE, FORCE, VECTOR, Spaces, make_model

BOTH = spaces.Dict({"near": VECTOR, "far": spaces.Box(-50.0, 50.0, (2,), np.float32)})


@pytest.fixture(autouse=True)
def untrusting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MOSAIC_TRUST", raising=False)


def normalizer(seen: spaces.Space[Any], acts: spaces.Space[Any], **options: Any) -> VecNormalize:
    env = VecNormalize(DummyVecEnv([lambda: Spaces(seen, acts)]), **options)
    if not env.norm_obs:
        return env
    moments = env.obs_rms.values() if isinstance(env.obs_rms, dict) else [env.obs_rms]
    for number, each in enumerate(moments):
        each.mean = np.linspace(-0.4, 0.5, each.mean.size) + number
        each.var = np.linspace(0.1, 3.0, each.var.size)
    return env


@pytest.mark.parametrize(
    ("algorithm", "seen", "acts", "options"),
    [
        ("ppo", VECTOR, CHOICE, {}),
        ("sac", VECTOR, FORCE, {"clip_obs": 0.3}),
        ("ppo", BOTH, CHOICE, {"norm_obs_keys": ["near"]}),
        ("recurrent_ppo", VECTOR, CHOICE, {"norm_reward": False}),
        ("ppo", VECTOR, CHOICE, {"norm_obs": False}),
    ],
)
def test_a_zip_sees_observations_as_in_training(
    algorithm: str, seen: spaces.Space[Any], acts: spaces.Space[Any], options: dict[str, Any], tmp_path: Path
) -> None:
    model, env = make_model(algorithm, seen, acts), normalizer(seen, acts, **options)
    model.save(tmp_path / "model.zip")
    env.save(str(tmp_path / "vecnormalize.pkl"))
    seen.seed(4)
    state: Any = None
    with load_policy(f"sb3:{tmp_path / 'model.zip'}", Spaces(seen, acts)) as policy:
        for number in range(40):
            shown = seen.sample()
            wanted, state = model.predict(env.normalize_obs(shown), state, np.array([number == 0]), deterministic=True)
            np.testing.assert_allclose(policy.predict(shown), wanted, atol=1e-4)


def test_statistics_are_found_where_people_keep_them(tmp_path: Path) -> None:
    for name in (
        "CartPole-v1_2/CartPole-v1/vecnormalize.pkl",
        "steps/rl_model_vecnormalize_800_steps.pkl",
        "steps/rl_model_vecnormalize_1600_steps.pkl",
        "two/a_vecnormalize.pkl",
        "two/b_vecnormalize.pkl",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    zoo = tmp_path / "CartPole-v1_2"
    assert statistics_beside(zoo / "best_model.zip") == "CartPole-v1/vecnormalize.pkl"
    assert statistics_beside(zoo / "CartPole-v1.zip") == "CartPole-v1/vecnormalize.pkl"
    assert statistics_beside(tmp_path / "steps/rl_model_1600_steps.zip") == "rl_model_vecnormalize_1600_steps.pkl"
    assert statistics_beside(tmp_path / "model.zip") is None
    with pytest.raises(InputError, match=r"several statistics of VecNormalize: a_vecnormalize\.pkl, b_vecnormalize"):
        statistics_beside(tmp_path / "two" / "model.zip")


@pytest.mark.parametrize("protocol", [3, 4, 5])
def test_numbers_are_read_from_protocols_of_python_3(protocol: int, tmp_path: Path) -> None:
    env = normalizer(VECTOR, CHOICE, clip_obs=5.0)
    (tmp_path / "v.pkl").write_bytes(pickle.dumps(env, protocol))
    found = read_statistics(tmp_path / "v.pkl")
    np.testing.assert_array_equal(found.moments[None].mean, env.obs_rms.mean)
    np.testing.assert_array_equal(found.moments[None].var, env.obs_rms.var)
    assert (found.clip, found.epsilon) == (5.0, 1e-8)


class Mine(VecNormalize):
    """A user's own normalisation."""


def test_what_is_no_number_needs_trust(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = normalizer(VECTOR, CHOICE)
    made.__class__ = Mine
    (tmp_path / "v.pkl").write_bytes(pickle.dumps(made))
    with pytest.raises(
        TrustError, match=r"it names tests\.workers.*\.Mine, which is not an array of numbers.*add --trust"
    ):
        read_statistics(tmp_path / "v.pkl")
    monkeypatch.setenv("MOSAIC_TRUST", "1")
    assert read_statistics(tmp_path / "v.pkl").clip == 10.0
