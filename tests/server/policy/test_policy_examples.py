"""Examples of clients in other languages, run against a server."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.server.policy.policy_kit import TOKEN, Serving, serving

EXAMPLES = Path(__file__).parents[3] / "examples" / "policy_server"


def run(server: Serving, *command: str | Path) -> str:
    said = subprocess.run(
        [*command, server.url],
        env={**os.environ, "MOSAIC_TOKEN": TOKEN},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (said.returncode, said.stderr) == (0, "")
    return said.stdout


def test_curl():
    if shutil.which("curl") is None:
        pytest.skip("there is no curl here")
    with serving() as server:
        assert run(server, "sh", EXAMPLES / "episode.sh").split() == ['{"action":1}', "{}", "{}"]


def test_javascript():
    if shutil.which("node") is None:
        pytest.skip("there is no node here")
    with serving() as server:
        assert 5 < json.loads(run(server, "node", EXAMPLES / "episode.mjs"))["steps"] <= 50
