"""What opens beside the terminal: the demo's board, the pages in a window, a word where neither can."""

from __future__ import annotations

import os
import pty
import re
import signal
import subprocess
import sys
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path

import httpx
import pytest

from mosaic.core.errors import InputError, MosaicError
from mosaic.server import serve as serving
from mosaic.server.auth.token import ensure_token
from mosaic.server.serve import Frontend, ListenAddress
from mosaic.ui import window

_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture
def no_display(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")


def test_a_browser_in_the_terminal_does_not_count(no_display: None, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(window.webbrowser, "open", lambda address: opened.append(address) or True)
    with ExitStack() as end:
        assert not window.open_browser("http://127.0.0.1:1/", end)
        monkeypatch.setenv("DISPLAY", ":0")
        assert window.open_browser("http://127.0.0.1:1/", end)
    assert len(opened) == 1


def test_a_token_is_not_among_the_browsers_arguments(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr(window, "has_display", lambda: True)
    monkeypatch.setattr(window.webbrowser, "open", lambda address: opened.append(address) or True)
    with ExitStack() as end:
        assert window.open_browser("http://127.0.0.1:1/?a=1&token=secret", end)
        (address,) = opened
        assert address.startswith("file://")
        assert "secret" not in address
        path = Path(address.removeprefix("file://"))
        assert "token=secret" in path.read_text()
        assert path.parent.stat().st_mode & 0o077 == 0
    assert not path.parent.exists()


def test_a_window_without_a_display_says_what_to_type(mosaic, no_display: None) -> None:
    pytest.importorskip("webview")
    answer = mosaic("serve", "--window")
    assert answer.code == 2
    assert "neither DISPLAY nor WAYLAND_DISPLAY is set" in " ".join(answer.err.split())
    assert "mosaic serve" in answer.err


def test_a_window_without_pywebview_says_what_to_install(mosaic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(window, "find_spec", lambda name: None)
    answer = mosaic("serve", "--window")
    assert answer.code == 2
    assert "pip install 'mosaic-rl[window]'" in " ".join(answer.err.split())


def test_a_window_of_no_pages_is_refused(mosaic) -> None:
    answer = mosaic("serve", "--window", "--no-pages")
    assert answer.code == 2
    assert "leave out one of them" in " ".join(answer.err.split())


def serve_with_window(home: Path, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setenv("MOSAIC_HOME", str(home))
    monkeypatch.setattr(window, "PROGRAM", (sys.executable, "-c", program))
    with window.Window() as shown:
        serving.serve(ListenAddress(port=0), frontend=Frontend(greet=shown.show, say=lambda text: None))


def test_a_closed_window_ends_its_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    look = (
        "import sys, urllib.request; link = sys.stdin.read(); token = link.partition('token=')[2];"
        "told = {'Authorization': 'Bearer ' + token};"
        "asked = urllib.request.Request(link.partition('?')[0] + 'health', headers=told);"
        "assert urllib.request.urlopen(asked, timeout=60).status == 200"
    )
    serve_with_window(tmp_path / "home", monkeypatch, look)


def test_a_window_that_cannot_open_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MosaicError, match=r"No window can open here: RuntimeError: no tool kit .* mosaic serve"):
        serve_with_window(tmp_path / "home", monkeypatch, "raise RuntimeError('no tool kit')")


def test_the_demo_takes_another_port_and_then_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    demo = import_module("mosaic.ui.cli.commands.demo")
    asked: list[int] = []

    def refuse(run_id: str, env: str, port: int) -> None:
        asked.append(port)
        raise InputError("Mosaic cannot listen.")

    monkeypatch.setattr(demo, "_serve_board", refuse)
    assert not demo._play_in_the_browser("a-run", demo.ENV)
    assert asked == [8642, 0]


@pytest.mark.slow
def test_the_demo_ends_with_a_board_in_the_browser(tmp_path: Path) -> None:
    screen, terminal = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    home = tmp_path / "home"
    process = subprocess.Popen(
        [sys.executable, "-m", "mosaic", "demo"],
        stdin=terminal,
        stdout=terminal,
        stderr=subprocess.DEVNULL,
        env={**environment, "MOSAIC_HOME": str(home), "COLUMNS": "100"},
    )
    os.close(terminal)
    try:
        link = _wait_for_link(screen)
        with httpx.Client(follow_redirects=True, timeout=60, headers={"Accept": "text/html"}) as browser:
            page = browser.get(link)
            assert page.status_code == 200
            match_id = link.partition("match=")[2].partition("&")[0]
            match = browser.get(f"{link.partition('/play')[0]}/matches/{match_id}").json()
        assert match["phase"] == "playing"
        assert match["agents"][1]["policy"].startswith("run:")
        assert ensure_token(home) in link
    finally:
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
        os.close(screen)
    assert code == 0


def _wait_for_link(screen: int) -> str:
    said = ""
    while True:
        found = re.search(r"(http://\S+token=\S+)\s", said)
        if found:
            assert "Open this in your browser" in said
            assert "Without a browser on this machine: mosaic demo --terminal" in said
            return found[1]
        said = _COLOUR.sub("", said + os.read(screen, 4096).decode(errors="replace"))
