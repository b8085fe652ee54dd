"""The local and the remote backend: the same views of a run, one of them without a server."""

import subprocess
import sys
from pathlib import Path

from mosaic.store.store import Store
from mosaic.store.views import curve_of, details_of, log_part, row_of
from tests.server.server_kit import app_client
from tests.store.store_cases import append_events, config, write

EVENTS = [
    {"kind": "iteration", "seq": seq, "attempt": 1, "timestamp": float(seq), "env_steps": 10 * seq,
     "episode_reward_mean": float(seq)}
    for seq in (1, 2, 3)
]  # fmt: skip


def a_run(home):
    folder = Store(home).create(config())
    append_events(folder, *EVENTS)
    folder.log.write_text("hello\n")
    write(folder, 30, 3.0)
    return folder


def test_a_local_run_is_shown_without_the_server_package(tmp_path, monkeypatch):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    folder = a_run(tmp_path)
    code = (
        "import sys; from mosaic.ui.cli.backend import open_backend\n"
        "with open_backend(None) as backend:\n"
        "    rows = backend.runs()\n"
        "    assert not {'numpy', 'numba'} & sys.modules.keys()\n"
        "    run = backend.run(rows[0].run_id)\n"
        "    shown, log, curve = run.show(), run.log(), run.curve('episode_reward_mean', buckets=10)\n"
        "    assert backend.sessions() == []\n"
        "print(run.id, shown.env_steps, log.text.strip(), *curve.mean)\n"
        "print(*(name for name in sys.modules if name.startswith(('mosaic.server', 'fastapi'))))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=Path.cwd())
    shown, imported = done.stdout.split("\n")[:2]
    assert shown.split() == [folder.run_id, "30", "hello", "1.0", "2.0", "3.0"]
    assert imported == ""


def test_the_http_api_returns_the_same_views(tmp_path):
    folder = a_run(tmp_path)
    with app_client(tmp_path) as client:
        path = f"/runs/{folder.run_id}"
        assert client.get("/runs").json() == [
            row_of(each).model_dump(mode="json") for each in Store(tmp_path).index.list()
        ]
        assert client.get(path).json() == details_of(folder).model_dump(mode="json")
        assert client.get(f"{path}/log").json() == log_part(folder, "stdout", None, 65_536).model_dump(mode="json")
        points = client.get(f"{path}/curve", params={"metric": "episode_reward_mean"}).json()
        assert points == curve_of(folder, "episode_reward_mean").model_dump(mode="json")
