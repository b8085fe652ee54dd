"""What is not installed is named with the exact line to type."""

import ast
import sys

import pytest

from mosaic.core.plugins import extra_of
from mosaic.ui.health import _REQUIRED
from tests.docs.pages import ROOT

ALWAYS_THERE = {"mosaic", "cloudpickle", "llvmlite", "pydantic_core"}  # the last three with required packages


@pytest.mark.parametrize(
    ("module", "words", "extra"),
    [
        ("httpx", ("runs", "list", "--server", "http://127.0.0.1:1"), "web"),
        ("uvicorn", ("serve",), "web"),
        ("starlette", ("serve",), "web"),
        ("mcp", ("mcp",), "mcp"),
        ("anyio", ("mcp",), "mcp"),
        ("mpe2", ("evaluate", "mpe/simple_v3", "--agent", "*=random"), "mpe"),
    ],
)
def test_a_missing_extra_ends_with_code_2(mosaic, monkeypatch, module, words, extra):
    for name in [name for name in sys.modules if name.partition(".")[0] == module or name.startswith("mosaic.server")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    if hasattr(package := sys.modules["mosaic"], "server"):  # else the second copy would stay there
        monkeypatch.setattr(package, "server", package.server)
    if module == "mpe2":
        from mosaic.envs.families import pettingzoo

        monkeypatch.setattr(pettingzoo, "_is_installed", lambda name: name != "mpe2")
    answer = mosaic(*words)
    assert answer.code == 2
    assert f"Type: pip install 'mosaic-rl[{extra}]'" in " ".join(answer.err.split())


def test_every_package_that_the_source_imports_is_required_or_has_an_extra():
    """After `pip install starlette` the next package of the web app would be missing."""
    imported = set()
    for path in (ROOT / "src" / "mosaic").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                imported.add(node.module.partition(".")[0])
    optional = imported - sys.stdlib_module_names - ALWAYS_THERE - _REQUIRED.keys()
    assert len(optional) > 20
    assert [name for name in sorted(optional) if extra_of(name) is None] == []


def test_drawing_without_the_package_for_it_says_what_to_type(mosaic, monkeypatch):
    """Gymnasium imports pygame when a picture is drawn first."""
    from mosaic.ui.cli.output import out

    monkeypatch.setitem(sys.modules, "pygame", None)
    words = ("play", "gym/CartPole-v1", "--agent", "*=random", "--seed", "1")
    assert mosaic(*words).code == 0  # nothing is drawn for a file
    monkeypatch.setattr(out, "_force_terminal", True)
    answer = mosaic(*words)
    assert answer.code == 2
    said = "gym/CartPole-v1 cannot be drawn: it needs the Python package 'pygame', which is not installed."
    assert f"{said} Type: pip install 'mosaic-rl[gym]'" in " ".join(answer.err.split())
    answer = mosaic("check", "gym/CartPole-v1")
    assert (answer.code, " ".join(answer.err.split())) == (2, f"error: {said} Type: pip install 'mosaic-rl[gym]'")
