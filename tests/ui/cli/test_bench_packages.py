"""Packages of the benchmarks: those of pyproject.toml, by the names that pip knows."""

from __future__ import annotations

import re
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from mosaic.core.errors import MosaicError
from mosaic.ui.cli.bench import packages

ROOT = Path(packages.__file__).parents[5]
PROJECT = """
[project]
name = "beads"
dependencies = ["msgspec>=0.19"]
[project.optional-dependencies]
torch = ["torch==2.13.0"]
rllib = ["beads[torch]", "ray[rllib]==2.60.0", "abacus-of-1642[wood]>=1"]
other = ["not-asked-for"]
all = ["beads[rllib,torch]"]
dev = ["pytest", "SuperSuit-of-1642", "beads[all]"]
"""


@pytest.fixture
def root(tmp_path):
    (tmp_path / "benchmarks" / "own").mkdir(parents=True)
    (tmp_path / "pyproject.toml").write_text(PROJECT)
    (tmp_path / "benchmarks" / "row.py").write_text("import json, row, ray.rllib\nfrom supersuit_of_1642 import suit\n")
    (tmp_path / "benchmarks" / "own" / "conflict.py").write_text("import another_numpy")
    return tmp_path


def test_requirements_are_those_of_all_features_and_of_the_tools_that_benchmarks_import(root):
    assert packages.needed(root) == [
        "msgspec>=0.19",
        "torch==2.13.0",
        "ray[rllib]==2.60.0",
        "abacus-of-1642[wood]>=1",
        "SuperSuit-of-1642",
    ]
    assert packages.foreign_imports(root / "benchmarks") == {"ray", "supersuit_of_1642"}


def test_a_copy_of_the_repository_in_a_folder_named_like_that_of_the_peers_has_the_same_imports(root):
    (copy := root / packages.OWN_PLACES).mkdir()
    (root / "benchmarks").rename(copy / "benchmarks")
    assert packages.foreign_imports(copy / "benchmarks") == {"ray", "supersuit_of_1642"}


def test_the_report_has_the_versions_of_all_of_them(root):
    assert packages.names(root) == ["msgspec", "torch", "ray", "abacus-of-1642", "SuperSuit-of-1642"]


def test_what_is_missing_is_named_as_pip_installs_it(root):
    assert packages.missing(root) == ["abacus-of-1642[wood]>=1", "SuperSuit-of-1642"]


def test_a_package_without_the_extra_that_is_named_is_missing(root, monkeypatch):
    class Plain:
        requires = ("numpy", "of-1642-too ; extra == 'wood'", "not-asked-for; extra == 'stone'")

    def found(name):
        if name == "abacus-of-1642":
            return Plain()
        raise packages.PackageNotFoundError(name)

    monkeypatch.setattr(packages, "distribution", found)
    assert "abacus-of-1642[wood]>=1" in packages.missing(root)
    Plain.requires = ("numpy", "not-asked-for; extra == 'stone'")
    assert "abacus-of-1642[wood]>=1" not in packages.missing(root)


def test_everything_that_benchmarks_import_is_named_in_pyproject():
    """By the distributions that are installed here: stable_baselines3 is of stable-baselines3, PIL of pillow."""
    known = packages_distributions()
    named = {re.split(r"[\[<>=; ]", each)[0].lower() for each in packages.needed(ROOT)}
    imported = packages.foreign_imports(ROOT / "benchmarks")
    assert {"torch", "ray", "stable_baselines3", "open_spiel", "supersuit", "playwright"} <= imported
    assert {
        name for name in imported if not {each.lower().replace("_", "-") for each in known.get(name, [])} & named
    } == set()


def test_an_installation_that_fails_shows_the_command(tmp_path):
    (tmp_path / "constraints.txt").write_text("not a requirement at all\n")
    with pytest.raises(MosaicError, match=r"pip install .*abacus-of-1642 failed: "):
        packages.install(tmp_path, ["abacus-of-1642"])
