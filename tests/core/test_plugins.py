"""Plug-ins are listed without being imported; names that do not exist are explained."""

import subprocess
import sys

import pytest

from mosaic.core import plugins as module
from mosaic.core.errors import InputError, MissingExtraError, MosaicError, UnknownNameError
from mosaic.core.plugins import load_plugin, plugins
from mosaic.core.user_code import load_code

HEAVY = {"torch", "ray", "pygame", "nicegui", "textual", "numba", "scipy"}


def test_listing_imports_nothing():
    code = (
        "import sys; from mosaic.core.plugins import plugins\n"
        "print(len(plugins('mosaic.policies')), 'mosaic.policies' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert int(answer[0]) >= 6
    assert answer[1] == "False"


@pytest.mark.parametrize("code", ["import mosaic", "import mosaic.ui.cli.main"])
def test_nothing_heavy_comes_with_the_command_line(code):
    script = f"import sys; {code}; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    assert not HEAVY & set(loaded)
    assert not {"gymnasium", "pettingzoo", "numpy"} & set(loaded)


def test_unknown_plugin():
    with pytest.raises(UnknownNameError, match=r"There is no policy named 'minmax'. Did you mean 'minimax'\?"):
        load_plugin("mosaic.policies", "minmax")


class Entry:
    def __init__(self, name, value, error=None):
        self.name, self.value, self.error = name, value, error

    def load(self):
        raise self.error


def with_entries(monkeypatch, *entries):
    monkeypatch.setattr(module, "entry_points", lambda group: entries)
    plugins.cache_clear()


@pytest.fixture(autouse=True)
def _forget():
    yield
    plugins.cache_clear()


def test_a_missing_package_is_named(monkeypatch):
    missing = {"torch": r"pip install 'mosaic-rl\[torch\]'", "abacus.beads": "pip install abacus"}
    for name, line in missing.items():
        with_entries(monkeypatch, Entry("x", "a:b", ModuleNotFoundError("no", name=name)))
        with pytest.raises(MissingExtraError, match=rf"'x' needs the Python package '{name}'.*Type: {line}$"):
            load_plugin("mosaic.workers", "x")


def test_two_packages_may_not_claim_one_name(monkeypatch):
    with_entries(monkeypatch, Entry("x", "a:b"), Entry("x", "c:d"))
    with pytest.raises(MosaicError, match="Two packages offer the worker 'x': a:b and c:d"):
        plugins("mosaic.workers")


def test_code_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_code_a.py").write_text("class A:\n    b = 3\n")
    assert load_code("python:my_code_a:A.b") == 3


@pytest.mark.parametrize(
    ("reference", "text"),
    [
        ("python:my_code_b", "is not python:MODULE:NAME"),
        ("python:nowhere_to_be_found:f", "there is no module 'nowhere_to_be_found'"),
        ("python:my_code_b:gredy", "There is no name in my_code_b named 'gredy'. Did you mean 'greedy'"),
        ("python:my_code_c:f", "importing my_code_c failed: ZeroDivisionError"),
        ("python:my_code_d:f", "my_code_d needs the module 'nowhere_either'"),
    ],
)
def test_wrong_code_references_say_why(tmp_path, monkeypatch, reference, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_code_b.py").write_text("def greedy(o, m): return 0\n")
    (tmp_path / "my_code_c.py").write_text("1 / 0\n")
    (tmp_path / "my_code_d.py").write_text("import nowhere_either\n")
    with pytest.raises(InputError) as caught:
        load_code(reference)
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("call", "what"),
    [
        ("evaluate('mosaic/gridworld', {'*': 'random'}, episodes=2, num_env_runners=2)", "processes"),
        ("train('mosaic/gridworld', worker='toy', total_timesteps=10)", "a run"),
        ("train('mosaic/gridworld', worker='toy', total_timesteps=10, seeds=2)", "a run"),
    ],
)
def test_a_file_that_trains_or_evaluates_is_not_imported_by_its_own_processes(tmp_path, monkeypatch, call, what):
    """Each of them would start as many again."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    (tmp_path / "experiment.py").write_text(f"import mosaic\nclass Mine: pass\nmosaic.{call}\n")
    with pytest.raises(InputError) as caught:
        load_code("python:experiment.py:Mine")
    assert str(caught.value) == (
        f"'python:experiment.py:Mine': experiment.py starts {what} while it is imported. "
        "Put the call below `if __name__ == '__main__':`, or into a file of its own."
    )
    assert not list(tmp_path.glob("runs/*"))
