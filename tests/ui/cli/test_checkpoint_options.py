"""The options --checkpoint-every and --checkpoint-folder."""

import pytest

from mosaic.core.errors import InputError
from mosaic.ui.cli.options import checkpoint_interval
from mosaic.ui.cli.run_config import resolved
from mosaic.ui.cli.setting_layers import SettingLayers

ASKED = {"env": "gym/CartPole-v1", "training": {"worker": "toy"}, "resources": {}, "top": {}}


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        ("10000", "every_steps", 10_000),
        ("10_000", "every_steps", 10_000),
        ("20it", "every_iterations", 20),
        ("5m", "every_minutes", 5.0),
        ("30s", "every_minutes", 0.5),
        ("1.5h", "every_minutes", 90.0),
    ],
)
def test_an_interval_is_one_of_three_settings(text, name, value):
    chosen = checkpoint_interval(text)
    assert {key: value for key, value in chosen.items() if value is not None} == {name: value}
    assert chosen.keys() == {"every_steps", "every_iterations", "every_minutes"}


@pytest.mark.parametrize("text", ["", "often", "5 minutes", "1.5it", "2.5", "-5", "5d"])
def test_anything_else_is_refused(text):
    with pytest.raises(InputError, match="is not an interval: type env steps"):
        checkpoint_interval(text)


def test_a_typed_interval_replaces_that_of_the_file():
    typed = {**ASKED, "checkpoint_every": "5m", "checkpoint": {"folder": None}}
    found = resolved(SettingLayers(typed, given={"checkpoint": {"every_steps": 7, "keep_last": 9}}), quiet=True).config
    assert (found.checkpoint.every_steps, found.checkpoint.every_minutes, found.checkpoint.keep_last) == (None, 5.0, 9)


def test_a_typed_folder_is_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = resolved(SettingLayers({**ASKED, "checkpoint": {"folder": "saved"}}), quiet=True).config
    assert found.checkpoint.folder == str(tmp_path / "saved")
