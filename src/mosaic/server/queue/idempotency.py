"""Idempotency keys of submissions: a request that is sent twice with one key makes one run."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from mosaic.core.errors import MosaicError
from mosaic.store.atomic import private_folder, write_atomic


class KeyReusedError(MosaicError):
    """Error for a key that was used for a different request."""


class Submissions:
    """Store of one small file per key. They outlive the server and are shared by all servers of the store."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "submissions"
        private_folder(self._folder)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lock out all other submissions with a key, in any process."""
        descriptor = os.open(self._folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def claim(self, key: str, body: bytes, new_run_id: Callable[[], str]) -> tuple[str, bool]:
        """Return the id of the key's run, and whether the key is new.

        The id is stored before the run is created: a server that dies in between leaves an id and no run, and the
        repeated request creates exactly that one.
        """
        digest = hashlib.sha256(body).hexdigest()
        try:
            known = json.loads(self._file(key).read_bytes())
        except FileNotFoundError:
            run_id = new_run_id()
            write_atomic(self._file(key), json.dumps({"body": digest, "run_id": run_id}), 0o600)
            return run_id, True
        if known["body"] != digest:
            raise KeyReusedError(
                "This Idempotency-Key was used for another configuration. A new submission needs a new key."
            )
        return str(known["run_id"]), False

    def forget(self, key: str) -> None:
        """Release the key of a refused request, so that it may be used again."""
        self._file(key).unlink(missing_ok=True)

    def _file(self, key: str) -> Path:
        return self._folder / f"{hashlib.sha256(key.encode()).hexdigest()}.json"
