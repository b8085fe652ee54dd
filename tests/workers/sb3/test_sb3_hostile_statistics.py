"""Hostile and damaged VecNormalize files beside a zip: exit code 2, a clear message, nothing run, nothing written."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stable_baselines3 import PPO
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecNormalize

from mosaic.ui.cli.main import main


class Canary:
    """An object whose pickle creates a file when it is loaded."""

    def __reduce__(self) -> Any:
        return Path.touch, (Path("canary"),)


NAMED = f"it names {Path.touch.__module__}.Path.touch"  # the module has another name in Python 3.13


def changed(change: Callable[[VecNormalize], object], env: VecNormalize) -> bytes:
    change(env)
    return pickle.dumps(env)


def moments(**arrays: Any) -> Callable[[VecNormalize], bytes]:
    return lambda env: changed(lambda made: made.obs_rms.__dict__.update(arrays), env)


CASES: dict[str, tuple[bytes | Callable[[VecNormalize], bytes], str]] = {
    "canary": (pickle.dumps(Canary()), NAMED),
    "canary among the numbers": (moments(mean=Canary()), NAMED),
    "system by its name": (b'cposix\nsystem\n(S"touch canary"\ntR.', "it names posix.system"),
    "system as an instance": (b'(S"touch canary"\niposix\nsystem\n.', "its step INST belongs to no array"),
    "built with arguments": (b'(cposix\nsystem\nS"touch canary"\no.', "it names posix.system"),
    "getattr": (pickle.dumps(getattr), "it names builtins.getattr"),
    "a name with a known beginning": (b"cnumpy.dtypes\nsystem\n.", "it names numpy.dtypes.system"),
    "extension registry": (b"\x82\x01.", "its step EXT1 belongs to no array"),
    "persistent id": (b"Pcanary\n.", "its step PERSID belongs to no array"),
    "a call of a text": (b'S"posix.system"\n(tR.', "it calls what it does not name"),
    "empty": (b"", "it is damaged"),
    "text": (b"not even a pickle", "cannot be read without unpickling"),
    "truncated": (lambda env: pickle.dumps(env)[:-40], "it is damaged"),
    "giant header": (b"\x80\x04\x8e" + struct.pack("<Q", 1 << 62) + b"x.", "it is damaged"),
    "nothing on the stack": (b"\x80\x04R.", "finds too few values"),
    "no mark": (b"\x80\x04t.", "finds no mark"),
    "a memo that is not there": (b"\x80\x04h\x07.", "it is damaged"),
    "another class": (pickle.dumps(np.zeros(3)), "it is not a VecNormalize"),
    "a plain dict": (pickle.dumps({"obs_rms": 1}), "it is not a VecNormalize"),
    "wrong shape": (moments(mean=np.zeros(3), var=np.ones(3)), "statistics of the shape (3,)"),
    "two shapes": (moments(var=np.ones(3)), "mean and variance are not the moments"),
    "NaN": (moments(mean=np.full(4, np.nan)), "mean and variance are not the moments"),
    "negative variance": (moments(var=-np.ones(4)), "mean and variance are not the moments"),
    "objects for numbers": (moments(mean=np.array([None] * 4, object)), "_reconstruct is not an array of numbers"),
    "text for numbers": (moments(mean="many"), "an array of numbers is missing"),
    "no limit": (lambda env: changed(lambda made: setattr(made, "clip_obs", -1.0), env), "clip_obs -1"),
    "endless steps": (b"\x80\x04(" + b"N" * 100_000 + b"t.", "it has more than 100,000 steps"),
}
EXPORTED_TOO = ("canary",)  # the same reader, in a process of its own


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "model.zip"
    PPO("MlpPolicy", "CartPole-v1", n_steps=8, batch_size=8, seed=0, device="cpu").save(path)
    return path


@pytest.mark.parametrize("name", CASES)
def test_it_is_refused_with_the_reason(
    name: str, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MOSAIC_TRUST", raising=False)
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    made, reason = CASES[name]
    (folder / "model.zip").write_bytes(whole.read_bytes())
    env = VecNormalize(make_vec_env("CartPole-v1", 1))
    (folder / "vecnormalize.pkl").write_bytes(made if isinstance(made, bytes) else made(env))
    commands = [["evaluate", "gym/CartPole-v1", "--agent", "*=sb3:model.zip", "--episodes", "1"]]
    if name in EXPORTED_TOO:
        commands += [["export", "checkpoint:model.zip", "--env", "gym/CartPole-v1", "--out", "x.onnx"]]
    for words in commands:
        with pytest.raises(SystemExit) as ended:
            main(words)
        said = " ".join(capsys.readouterr().err.split())
        assert ended.value.code == 2, said
        assert reason in said
        assert "vecnormalize.pkl" in said
    assert sorted(each.name for each in folder.iterdir()) == ["model.zip", "vecnormalize.pkl"]
