"""Keyed hashes that mark the runs and checkpoints that this store itself has made."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from pathlib import Path

from mosaic.store.atomic import write_once
from mosaic.store.run_folder import RunFolder

KEY_FILE = "store.key"
RUNS = "runs"


def seal(folder: RunFolder, digest: str) -> str:
    """Return the store's signature of a manifest; empty where the run is not in a store."""
    if folder.path.parent.name != RUNS:
        return ""
    path = folder.home / KEY_FILE
    if not path.exists():
        write_once(path, secrets.token_bytes(32))
    return _mark(path, digest)


def run_digest(run_id: str) -> str:
    """Return the text that is sealed when a run is created."""
    return f"run {run_id}"


def is_sealed(home: Path, digest: str, mark: str) -> bool:
    path = home / KEY_FILE
    return bool(mark) and path.exists() and hmac.compare_digest(_mark(path, digest), mark)


def _mark(key: Path, digest: str) -> str:
    return hmac.new(key.read_bytes(), digest.encode(), hashlib.sha256).hexdigest()
