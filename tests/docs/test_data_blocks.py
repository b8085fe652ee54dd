"""Blocks of settings and messages in the documentation: each is read by what it is written for."""

import json
import os
import re
import shlex
import tomllib
from configparser import ConfigParser
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from mosaic.config.file_formats import parse_document
from mosaic.config.loading import parse_run_config
from mosaic.config.project import parse_project
from mosaic.core.errors import MosaicError
from mosaic.runs.tuning.plan import TuneSettings, make_plan
from mosaic.store.store import Store
from mosaic.workers.script.checkpoints import read_announcement
from tests.docs.not_executed import is_covered
from tests.docs.pages import DATA, PAGES, ROOT, blocks_of, name_of
from tests.docs.test_commands import parse

GROUPS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]
CARTPOLE = {"environment": {"env_id": "gym/CartPole-v1"}}


def read(block):
    return parse_document(block.text, Path(f"block.{block.language}"))


def run_settings(block):
    """Read a part of a run's settings."""
    document = read(block)
    config = parse_run_config(CARTPOLE | document).model_dump(mode="json")
    assert all(config[section] for section in document)


def search(block):
    document = read(block)
    section = document.pop("tune")
    plan = make_plan(parse_run_config(document), TuneSettings.model_validate(section), 2, str(ROOT))
    assert plan.settings.trials == section["trials"]


def project(block):
    document = read(block)
    found = parse_project(document)
    assert found.train.keys() == document["train"].keys()
    assert found.export.keys() == document["export"].keys()


def entry_points(block):
    """Read a part of a plug-in's pyproject.toml: its groups are those that Mosaic looks into."""
    found = tomllib.loads(block.text)["project"]["entry-points"]
    assert found.keys() <= GROUPS.keys()
    for group, points in found.items():
        for name, value in points.items():
            point = EntryPoint(name, value, group)
            assert (point.module, bool(point.attr)) == ("my_package", True)


def assistant(block):
    """Read an assistant's configuration: its command is one of ours."""
    (server,) = json.loads(block.text)["mcpServers"].values()
    assert server["command"] == "mosaic"
    parse(shlex.join(["mosaic", *server["args"]]))


def systemd_unit(block):
    unit = ConfigParser(interpolation=None)
    unit.optionxform = str
    unit.read_string(block.text)
    service = unit["Service"]
    assert service.keys() == {"User", "ExecStart", "Environment", "Restart", "KillMode"}
    assert service["KillMode"] == "process"  # supervisors of runs are in the unit's control group
    program, *words = shlex.split(service["ExecStart"])
    assert (os.path.basename(program), words) == ("mosaic", ["serve"])
    assert (unit["Unit"]["After"], unit["Install"]["WantedBy"]) == ("network.target", "multi-user.target")
    name, _, home = service["Environment"].partition("=")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(name, home)
        assert Store().home == Path(home)


def announcement(block):
    """Read what a program prints for the worker `script`."""
    (line,) = block.text.splitlines()
    assert read_announcement(line) is not None


def drawing_of_packages(block):
    place = "tests/test_project_files.py::test_contributing_draws_the_checked_order_of_packages"
    assert is_covered(block.text, place)


BLOCKS = {  # the page, and which of its blocks of settings
    ("CONTRIBUTING.md", 0): drawing_of_packages,
    ("export.md", 0): run_settings,
    ("mcp.md", 0): assistant,
    ("operators.md", 0): systemd_unit,
    ("plugins.md", 0): entry_points,
    ("plugins.md", 1): entry_points,
    ("plugins.md", 2): entry_points,
    ("projects.md", 0): project,
    ("script.md", 0): announcement,
    ("training.md", 0): run_settings,
    ("tune.md", 0): search,
}
FOUND = {
    (name_of(page), number): block for page in PAGES for number, block in enumerate(blocks_of(page, *DATA, "text"))
}


@pytest.mark.parametrize(("name", "number"), BLOCKS)
def test_settings_are_read_by_what_they_are_for(name, number):
    BLOCKS[name, number](FOUND[name, number])


def test_every_block_of_settings_is_read():
    assert sorted(FOUND) == sorted(BLOCKS)


@pytest.mark.parametrize(
    ("key", "right", "wrong"),
    [
        (("export.md", 0), "at_end", "at_the_end"),
        (("training.md", 0), "until_reward", "until_rewards"),
        (("projects.md", 0), "default_preset", "preset"),
        (("projects.md", 0), "total_timesteps", "timesteps"),
        (("tune.md", 0), "asha", "asia"),
        (("tune.md", 0), "learning_rate", "learning_rates"),
        (("plugins.md", 1), "mosaic.policies", "mosaic.policy"),
        (("mcp.md", 0), '"mcp"]', '"mpc"]'),
        (("script.md", 0), "env_steps", "steps"),
        (("operators.md", 0), "mosaic serve", "mosaic server"),
        (("operators.md", 0), "MOSAIC_HOME", "MOSAIC_FOLDER"),
    ],
)
def test_a_setting_that_does_not_exist_is_noticed(key, right, wrong):
    block = FOUND[key]
    changed = block._replace(text=re.sub(re.escape(right), wrong, block.text))
    assert changed != block
    with pytest.raises((MosaicError, AssertionError, ValueError)):
        BLOCKS[key](changed)
