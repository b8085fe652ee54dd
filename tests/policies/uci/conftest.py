"""Chess engines that do as they are told."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.policies.uci.uci_kit import FakeEngine


@pytest.fixture
def fake(tmp_path: Path) -> FakeEngine:
    """Writes an engine that answers `go` as told, and notes what it is told in `heard`."""

    def write(go: str = "say('bestmove e2e4')", offers: str = "", uci: str = "say('uciok')") -> str:
        path = tmp_path / "engine"
        path.write_text(
            f"#!{sys.executable} -I\n"
            "import os, sys\n"
            "def say(text): print(text, flush=True)\n"
            f"with open({str(tmp_path / 'pid')!r}, 'w') as pid: pid.write(str(os.getpid()))\n"
            "for line in sys.stdin:\n"
            f"    with open({str(tmp_path / 'heard')!r}, 'a') as heard: heard.write(line)\n"
            "    match line.split()[0]:\n"
            f"        case 'uci':\n            say('id name Fake'); say({offers!r}); {uci}\n"
            "        case 'isready': say('readyok')\n"
            f"        case 'go':\n            {go}\n"
        )
        path.chmod(0o755)
        return f"uci:{path}"

    return write
