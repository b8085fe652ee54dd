"""What is not installed is named with the exact line to type."""

import sys

import pytest


@pytest.mark.parametrize(
    ("module", "words", "extra"),
    [
        ("httpx", ("runs", "list", "--server", "http://127.0.0.1:1"), "web"),
        ("uvicorn", ("serve",), "web"),
        ("mcp", ("mcp",), "mcp"),
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
