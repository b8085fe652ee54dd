"""Exports in the test's own process, where torch is imported once, and a hub on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mosaic.runs.exporting import jobs
from tests.exports.hub.hub_stub import HubStub
from tests.in_process import attempt_here, trained_here


def config(env: str, name: str, **also: Any) -> dict[str, Any]:
    family, env_id = env.split("/")
    training = {"worker": "tabular", "algorithm": "q_learning", "total_timesteps": 600, **also.pop("training", {})}
    return {"name": name, "environment": {"family": family, "env_id": env_id}, "training": training, **also}


@pytest.fixture(scope="package")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store with a run of one policy, and one of two."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOSAIC_HOME", str(folder))
        trained_here(folder, config("gym/FrozenLake-v1", "lake"))
        trained_here(folder, config("classic/rps_v2", "hands", policy_configuration="independent"))
        yield folder


@pytest.fixture
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty working directory beside that store, whose exports run in this process."""
    monkeypatch.setenv("MOSAIC_HOME", str(home))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(jobs, "start_attempt", attempt_here)
    return tmp_path


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubStub]:
    """A hub of this test, and a user with a token for it."""
    hugging_face = pytest.importorskip("huggingface_hub")
    with HubStub() as stub:
        monkeypatch.setenv("HF_ENDPOINT", stub.url)
        monkeypatch.setenv("HF_TOKEN", stub.state.token)
        monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
        yield stub
        hugging_face.close_session()
