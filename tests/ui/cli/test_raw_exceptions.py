"""Damage and odd surroundings are explained in words, never as an exception of Python's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mosaic.config.loading import parse_run_config
from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.store.store import Store

CONFIG = {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "toy"}, "run_id": "one"}


@pytest.mark.parametrize("text", ["{", "[]", "5", "", "\\xff", "[" * 100_000])
def test_a_damaged_configuration_is_shown_as_damaged(mosaic, tmp_path: Path, text: str) -> None:
    folder = Store(tmp_path / "home").create(parse_run_config(CONFIG))
    folder.config.write_text(text)
    answer = mosaic("runs", "show", "one")
    assert answer.code == 2
    assert "config.json' is damaged" in " ".join(answer.err.split())


@pytest.mark.parametrize(
    ("env", "options"),
    [
        ("gym/FrozenLake-v1", {"map_name": "99x99"}),
        ("gym/FrozenLake-v1", {"desc": 5}),
        ("gym/CartPole-v1", {"nope": 1}),
        ("mpe/simple_spread_v3", {"N": -1}),
        ("mpe/simple_spread_v3", {"N": "x"}),
    ],
)
def test_options_that_an_env_does_not_take_are_named(env: str, options: dict[str, object]) -> None:
    with pytest.raises(InputError, match=f"^{env} does not take these options .*{next(iter(options))}"):
        make_env(env, **options)


FULL_DEVICE = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


@pytest.mark.parametrize("words", [("schema", "run"), ("runs", "list", "--json"), ("envs", "gym")])
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", pytest.param(">/dev/full", marks=FULL_DEVICE)])
def test_output_that_goes_nowhere_is_a_failure(tmp_path: Path, words: tuple[str, ...], closed: str) -> None:
    line = f"exec {sys.executable} -m mosaic {' '.join(words)} {closed}"
    environment = {**os.environ, "MOSAIC_HOME": str(tmp_path / "home")}
    ended = subprocess.run(["sh", "-c", line], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "Traceback" not in ended.stderr
    assert "Mosaic failed" not in ended.stderr
    if "2>&-" not in closed:
        assert "Standard output is closed" in ended.stderr or "No space left on device" in ended.stderr


def test_a_store_that_cannot_be_written_is_explained(mosaic, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file where the store should be")
    train = ("train", "gym/CartPole-v1", "--worker", "toy", "--steps", "10")
    for words in (train, ("runs", "list"), ("runs", "reindex")):
        answer = mosaic(*words)
        assert answer.code in (1, 2), words
        assert "Mosaic failed" not in answer.err
        assert str(tmp_path / "home") in "".join(answer.err.split())
