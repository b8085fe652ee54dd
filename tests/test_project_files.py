"""Files around the code: they agree with the code and with each other."""

import ast
import itertools
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

from mosaic.core.version import VERSION
from tests.conftest import HERE, SLOW_PLACES
from tests.distribution import GROUPS, LONGEST

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "mosaic"
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
JOBS = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text())["jobs"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_the_version_is_written_once():
    assert "version" not in PROJECT["project"]
    assert PROJECT["tool"]["hatch"]["version"]["path"] == "src/mosaic/core/version.py"
    assert re.fullmatch(r"\d+\.\d+\.\d+(\.dev\d+)?", VERSION)
    written = [
        path.relative_to(ROOT)
        for path in [*SOURCE.rglob("*.py"), ROOT / "pyproject.toml", ROOT / "CITATION.cff"]
        if re.search(rf"version\W*[:=]\s*[\"']{re.escape(VERSION)}[\"']", path.read_text(), re.I)
    ]
    assert [str(path) for path in written] == ["src/mosaic/core/version.py"]


def test_ci_makes_what_the_makefile_has():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    commands = [step["run"].split() for job in JOBS.values() for step in job["steps"] if "run" in step]
    made = {word for first, *words in commands for word in words if first == "make" and "=" not in word}
    assert made <= targets
    assert {"test", "fast", "test-portable", "docs", "test-packaging"} <= made


@pytest.mark.parametrize(("name", "target"), [("test", "test"), ("packaging", "test-packaging")])
def test_ci_runs_it_on_every_declared_python(name, target):
    job = JOBS[name]
    tested = job["strategy"]["matrix"]["python"]
    declared = [c.rpartition(" ")[2] for c in PROJECT["project"]["classifiers"] if ":: 3." in c]
    assert tested == ["3.11", "3.12", "3.13"]
    assert set(declared) <= set(tested)
    assert PROJECT["project"]["requires-python"] == ">=3.11,<3.14", "the next has no packages of Box2D"
    assert [step["run"] for step in job["steps"] if "run" in step] == [f"make {target} PYTHON=python"]


def test_every_file_of_tests_that_make_names_exists():
    """Files that `make test-all` runs alone, or that have a job of their own, are named by their paths."""
    named = re.findall(r"\btests/[\w/]+\.py\b", (ROOT / "Makefile").read_text())
    assert "tests/docs/test_packaging.py" in named
    assert [name for name in named if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("name", ["CITATION.cff", ".pre-commit-config.yaml", ".github/ISSUE_TEMPLATE/bug.yml"])
def test_files_for_other_programs_can_be_read(name):
    document = yaml.safe_load((ROOT / name).read_text())
    required = {
        "CITATION.cff": {"cff-version", "message", "title", "authors"},
        ".pre-commit-config.yaml": {"repos"},
        ".github/ISSUE_TEMPLATE/bug.yml": {"name", "description", "body"},
    }
    assert required[name] <= document.keys()


def test_sections_of_the_changelog_are_dated():
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.M)
    assert headings
    for heading in headings:
        assert re.fullmatch(r"(Unreleased|\d+\.\d+\.\d+), \d{4}-\d{2}-\d{2}", heading), heading
    dates = [heading[-10:] for heading in headings]
    assert dates == sorted(dates, reverse=True)


def test_setup_with_an_old_python_says_which_to_use(tmp_path):
    old = tmp_path / "python"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo Python 3.10.12\n[ "$1" = --version ]\n')
    old.chmod(0o755)
    command = ["make", "setup", f"PYTHON={old}", f"VENV={tmp_path / 'venv'}"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode != 0
    said = f"Mosaic needs Python 3.11, 3.12 or 3.13; {old} is Python 3.10.12. Type, where you have it: make setup"
    assert done.stdout.strip() == f"{said} PYTHON=python3.12"
    assert not (tmp_path / "venv").exists()


def test_make_bench_runs_every_benchmark():
    """The smoke benchmark has a target of its own."""
    (line,) = re.findall(r"^BENCHMARKS \?= (.+)$", (ROOT / "Makefile").read_text(), re.M)
    helpers = {"figures", "row_table"}
    assert {*line.split(), "smoke"} == {path.stem for path in (ROOT / "benchmarks").glob("*.py")} - helpers


def test_what_benchmarks_import_of_ours_exists():
    """Rows import what they measure when they run: a name that has moved would be noticed only then."""
    missing = []
    for path in (ROOT / "benchmarks").rglob("*.py"):
        nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.ImportFrom)]
        for node in nodes:
            folder = SOURCE.parent.joinpath(*(node.module or "").split("."))
            if not folder.is_relative_to(SOURCE):
                continue
            file = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
            known = set(re.findall(r"\w+", file.read_text())) if file.exists() else set()
            known |= {each.stem for each in folder.glob("*.py")}
            missing += [f"{path.name}: {node.module}.{each.name}" for each in node.names if each.name not in known]
    assert missing == []


@pytest.mark.parametrize("name", ["godot", "ppo", "rllib", "sb3"])
def test_rows_of_benchmarks_exist(name):
    folder = ROOT / "benchmarks"
    tree = ast.parse((folder / f"{name}.py").read_text())
    rows = next(node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "ROWS")
    for row in rows.values:
        module, _, function = row.elts[0].value.partition(":")
        found = ast.parse((folder / f"{name}_rows" / f"{module}.py").read_text()).body
        assert function in {node.name for node in found if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text())
    assert [link for link in links if "://" not in link and not (page.parent / link).exists()] == []


def test_contributing_names_files_that_exist():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = re.findall(r"`((?:[a-z_]+/)+(?:[a-z_]+\.py)?)`", text)
    assert len(paths) > 30
    assert sorted({path for path in paths if not (SOURCE / path).exists() and not (ROOT / path).exists()}) == []


def test_contributing_draws_the_checked_order_of_packages():
    """The map has the packages in the order that import-linter enforces."""
    drawing = (ROOT / "CONTRIBUTING.md").read_text().split("## The packages")[1].split("```")[1]
    drawn = re.findall(r"^([a-z]+)(?:, [a-z]+)? {2,}", drawing, re.M)
    layers = PROJECT["tool"]["importlinter"]["contracts"][0]["layers"]
    checked = [re.findall(r"[a-z]+", layer)[0] for layer in reversed(layers)]
    assert drawn == [name for name in checked if (SOURCE / name).exists() or (SOURCE / f"{name}.py").exists()]


def test_the_paths_through_the_code_stay_short():
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.partition("## Five paths, file by file")[2].partition("\n## ")[0] + "\n\n"
    found = {}
    for title, count, files in re.findall(r"\*\*(.+?)\*\* \((\d+)\s+files\):(.*?)\n\n", section, re.S):
        names = re.findall(r"`([a-z_/]+\.(?:py|js))`", files)
        assert len(names) == int(count) == len({*names}), title
        assert [name for name in names if not (SOURCE / name).exists()] == [], title
        found[title] = int(count)
    assert [
        limit - count for limit, count in zip((60, 16, 18, 8, 14), found.values(), strict=True) if count > limit
    ] == []


def test_places_of_slow_long_and_grouped_tests_exist():
    places = itertools.chain(SLOW_PLACES, *GROUPS.values())
    assert [place for place in places if not (HERE / place).exists()] == []
    tests = [place.partition("::")[::2] for place in LONGEST]
    assert [name for file, name in tests if name and f"def {name}(" not in (HERE / file).read_text()] == []
