"""The package: everything is in it, and it works in an empty environment, without extras and with each one."""

import json
import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from mosaic.core.version import VERSION
from tests.docs.pages import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
OLDEST = [need.replace(">=", "==") for need in PROJECT["dependencies"]]
MODULES = {  # of extras that the doctor does not list one by one
    "offline": ["ray", "minari"],
    "llm-test": ["xllamacpp"],
    "docs": ["mkdocs"],
    "dev": ["pytest", "ruff", "mypy", "hypothesis"],
}
UNPINNED = {"trackio": "pillow=="}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Source distribution, and the wheel that is built from it, as for a release but with the build backend of here."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


def tracked(folder):
    listed = subprocess.run(["git", "ls-files", folder], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return {path for path in listed.split() if (ROOT / path).exists()}


def test_every_file_of_the_tree_is_in_the_wheel(built):
    with zipfile.ZipFile(built[0]) as wheel:
        inside = {name for name in wheel.namelist() if ".dist-info/" not in name}
        metadata = wheel.read(next(name for name in wheel.namelist() if name.endswith("METADATA"))).decode()
    tree = {path.removeprefix("src/") for path in tracked("src/mosaic")}
    assert {Path(name).suffix for name in inside} >= {".js", ".css", ".toml", ".typed"}
    assert sorted(tree - inside) == []
    assert "Provides-Extra: rllib" in metadata


def test_the_source_distribution_can_build_and_test(built):
    with tarfile.open(built[1]) as source:
        inside = {name.partition("/")[2] for name in source.getnames()}
    assert {"pyproject.toml", "LICENSE", "README.md", "Makefile", "constraints.txt", "src/mosaic/__init__.py"} <= inside
    excluded = (".ci/", ".github/", ".devcontainer/")
    assert sorted(path for path in tracked(".") - inside if not path.startswith(excluded)) == []
    assert not any(name.startswith((*excluded, "build/")) for name in inside)


def install(folder, *what, unpinned="-"):
    """Install with our pins, except those of packages that are to have other versions."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.lower().startswith(unpinned)]
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(pins))
    command = [folder / "bin" / "python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    done = subprocess.run([*command, "-c", constraints, *what], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]


def mosaic(folder, *words, home):
    kept = {name: os.environ[name] for name in ("PATH", "LANG", "HOME", "CC", "CXX") if name in os.environ}
    environment = {**kept, "MOSAIC_HOME": str(home), "SDL_VIDEODRIVER": "dummy"}
    command = [folder / "bin" / "python", "-m", "mosaic", *words]
    return subprocess.run(command, capture_output=True, text=True, env=environment, cwd=home)


@pytest.fixture(scope="module")
def bare(built, tmp_path_factory):
    """An empty environment with the wheel and nothing else; nothing in it was compiled here."""
    folder = tmp_path_factory.mktemp("bare") / "venv"
    venv.create(folder, with_pip=True)
    install(folder, "--only-binary=:all:", built[0])
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def above(bare, tmp_path):
    """An environment above the bare one, in a folder of its own."""
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=True)
    (site,) = (folder / "lib").glob("python*/site-packages")
    (base,) = (bare / "lib").glob("python*/site-packages")
    (site / "base.pth").write_text(f"{base}\n")
    yield folder
    shutil.rmtree(folder)


def findings(folder, home, *asked):
    """Let the doctor import what is required and what is asked for; its exit code says whether that works."""
    doctor = mosaic(folder, "doctor", *asked, "--json", home=home)
    assert doctor.returncode == 0, doctor.stderr
    return {finding["id"]: finding["ok"] for finding in json.loads(doctor.stdout)}


def test_without_extras_it_plays_trains_and_is_healthy(bare, tmp_path):
    assert findings(bare, tmp_path)
    for words in (
        ["evaluate", "gym/CartPole-v1", "--agent", "*=random", "--episodes", "2"],
        ["train", "gym/CartPole-v1", "--worker", "toy", "--steps", "200"],
        ["train", "gym/FrozenLake-v1", "--steps", "2000"],
        ["evaluate", "gym/FrozenLake-v1", "--agent", "*=run:latest", "--episodes", "2"],
    ):
        done = mosaic(bare, *words, home=tmp_path)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
    missing = mosaic(bare, "train", "gym/CartPole-v1", "--worker", "rllib", "--steps", "10", home=tmp_path)
    assert missing.returncode == 2
    assert "mosaic-rl[rllib]" in missing.stderr


def test_without_extras_and_without_a_compiler_the_demo_runs_to_its_end(bare, tmp_path, monkeypatch):
    for variable in ("CC", "CXX"):
        monkeypatch.setenv(variable, "false")
    done = mosaic(bare, "demo", home=tmp_path)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "Proven by exhaustive search" in done.stdout
    assert "mosaic play mosaic/tictactoe" in done.stderr + done.stdout


@pytest.mark.skipif(
    sys.version_info >= (3, 12), reason="needs Python 3.11, for which all the oldest packages have wheels"
)
def test_the_oldest_packages_that_are_allowed_suffice(built, tmp_path):
    """pip keeps an installed package whose version is allowed."""
    folder = tmp_path / "venv"
    venv.create(folder, with_pip=True)
    names = tuple(need.partition("==")[0] + "==" for need in OLDEST)
    install(folder, "--only-binary=:all:", *OLDEST, built[0], unpinned=(*names, "llvmlite==", "pydantic_core=="))
    helped = mosaic(folder, "train", "--help", home=tmp_path)
    assert helped.returncode == 0, helped.stderr
    assert "--num-env-runners" in helped.stdout
    assert "\\[" not in helped.stdout
    done = mosaic(folder, "demo", home=tmp_path)
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert "Proven by exhaustive search" in done.stdout
    shutil.rmtree(folder)


@pytest.mark.parametrize("name", ["mosaic", "mosaic-rl"])
def test_the_command_has_the_name_of_the_package_too(bare, name):
    """`uvx mosaic-rl` and `pipx run mosaic-rl` start the command that is named like the package."""
    done = subprocess.run([bare / "bin" / name, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == VERSION


def test_the_source_distribution_installs(bare, above, built, tmp_path):
    install(above, "hatchling")
    install(above, "--no-build-isolation", "--no-deps", "--force-reinstall", built[1])
    assert findings(above, tmp_path)


@pytest.mark.parametrize("extra", EXTRAS)
def test_with_an_extra_the_doctor_is_content(above, built, extra, tmp_path):
    install(above, f"mosaic-rl[{extra}] @ {built[0].as_uri()}", unpinned=UNPINNED.get(extra, "-"))
    if extra in MODULES:
        assert findings(above, tmp_path)
        code = f"import {', '.join(MODULES[extra])}"
        subprocess.run([above / "bin" / "python", "-c", code], check=True, cwd=tmp_path)
    else:  # `all` leaves out the services wandb, mlflow and trackio, which few people use together
        assert all(findings(above, tmp_path, extra).values())
