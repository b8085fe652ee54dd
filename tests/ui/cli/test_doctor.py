"""The doctor's findings and its exit code: 0 only if everything required, and everything asked for, works."""

import json
import tomllib

import pytest

from mosaic.core.plugins import EXTRAS
from mosaic.ui import health
from tests.docs.pages import ROOT


@pytest.fixture
def broken(tmp_path, monkeypatch):
    """A package that is installed and cannot be imported."""

    def make(module):
        (tmp_path / f"{module}.py").write_text("raise OSError('libgone.so: cannot open shared object file')\n")
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))
        return module

    return make


def test_a_missing_extra_is_no_fault_unless_it_is_asked_for(mosaic, monkeypatch):
    monkeypatch.setitem(EXTRAS, "hub", {"no_such_module": "no-such-package"})
    plain = mosaic("doctor", "--json")
    assert plain.code == 0
    assert [row["ok"] for row in json.loads(plain.out) if row["id"] == "extra hub"] == [False]
    asked = mosaic("doctor", "hub")
    assert asked.code == 1
    assert "extra hub (without no-such-package): pip install 'mosaic-rl[hub]'" in " ".join(asked.err.split())


def test_what_is_not_installed_is_listed_apart_from_what_is_broken(mosaic, monkeypatch):
    monkeypatch.setitem(EXTRAS, "hub", {"no_such_module": "no-such-package"})
    monkeypatch.setitem(EXTRAS, "mcp", {"no_such_module": "numpy"})  # pip says it is installed
    checked, _, options = mosaic("doctor").out.partition("not installed")
    assert [line.split()[:3] for line in checked.splitlines() if " broken " in line] == [["extra", "mcp", "broken"]]
    assert "--force-reinstall" in checked
    assert "no-such-package" not in checked
    assert "pip install 'mosaic-rl[hub]'" in options
    found = {finding.id: finding for finding in health.examine()}
    assert [found[name].optional for name in ("extra hub", "extra mcp", "numpy")] == [True, False, False]
    assert "missing" in mosaic("doctor", "hub").out  # it was asked for


def test_a_package_that_does_not_load_is_found(mosaic, monkeypatch, broken):
    monkeypatch.setitem(EXTRAS, "hub", {broken("gone_hub"): "gone-hub"})
    assert mosaic("doctor").code == 0  # not asked for: looked for, not imported
    answer = mosaic("doctor", "hub", "--json")
    assert answer.code == 1
    (row,) = (row for row in json.loads(answer.out) if row["id"] == "extra hub")
    assert row["detail"] == "gone-hub does not load: OSError: libgone.so: cannot open shared object file"


def test_a_required_package_that_does_not_load_is_a_fault(mosaic, monkeypatch, broken):
    monkeypatch.setitem(health._REQUIRED, broken("gone_core"), "gone-core")
    answer = mosaic("doctor")
    assert answer.code == 1
    assert "gone-core does not load: OSError" in " ".join(answer.err.split())


def test_named_extras_are_shown_beside_what_is_required(mosaic):
    answer = mosaic("doctor", "godot", "--json")
    assert answer.code == 0
    assert [row["id"] for row in json.loads(answer.out)] == ["python", *health._REQUIRED.values(), "extra godot"]


def test_an_unknown_extra_names_the_nearest(mosaic):
    answer = mosaic("doctor", "rlib")
    assert answer.code == 2
    assert "There is no extra named 'rlib'. Did you mean 'rllib'?" in " ".join(answer.err.split())


def test_the_tables_are_those_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert sorted(health._REQUIRED.values()) == sorted(line.split(">")[0] for line in project["dependencies"])
    members = project["optional-dependencies"]["all"][0].partition("[")[2].rstrip("]").split(",")
    assert set(health._members("all")) == {*members} - {"offline"}
