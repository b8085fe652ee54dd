"""Child process that steps some envs of a vector env for its parent.

Protocol of the connection: the child introduces its envs and receives the shared memory; then every request gets a
reply. An empty message requests a step, or replies that all went well; anything else is pickled. A step in which agents
ended with numbers in their infos is answered with these.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import recv_handle
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.ids import EnvID
from mosaic.envs.env import Env
from mosaic.envs.learner_view import Others
from mosaic.envs.vector.in_process import PythonVector, part_of, vector_shape
from mosaic.envs.vector.layout import VectorShape, map_arrays


class _Closable(Protocol):
    def close(self) -> None: ...


Closed = TypeVar("Closed", bound=_Closable)

STEP = b""
DONE = b""
CLOSE = ("close", None)


class _ParentGoneError(Exception):
    """Loss of the parent, which is gone or has closed; not used for errors of the env's own connections."""


@dataclass(frozen=True, slots=True)
class EnvShare:
    """Envs that a process plays, and how it makes them."""

    make: Callable[[], Env]
    make_others: Callable[[], Others] | None
    masked: bool | None
    start: int
    stop: int

    @property
    def envs(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class Introduction:
    """Description of the envs that the process made."""

    env_id: EnvID
    shape: VectorShape


@dataclass(frozen=True, slots=True)
class ChildFailure:
    """An exception as text, because its class may not exist in the other process or may not be picklable."""

    text: str
    details: str
    bad_input: bool


def play_share(share: EnvShare, connection: Connection) -> None:
    """Run the process: set up the envs and serve requests until closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is handled by the parent
    _end_with_parent()
    try:
        with ExitStack() as stack:
            vector, act = _set_up(share, connection, stack)
            _serve(vector, act, connection)
    except _ParentGoneError:  # the stack has closed the envs
        return
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent must raise it
        last = pickle.dumps(_failure(error))
    else:
        last = DONE
    with suppress(_ParentGoneError):
        _answer(connection, last)


def _set_up(share: EnvShare, connection: Connection, stack: ExitStack) -> tuple[PythonVector, NDArray[np.float32]]:
    envs = [_kept(share.make(), stack) for _ in range(share.envs)]
    others = _kept(share.make_others(), stack) if share.make_others else None
    shape = vector_shape(envs, others, share.masked)
    _answer(connection, pickle.dumps(Introduction(envs[0].spec.env_id, shape)))
    whole: VectorShape = pickle.loads(_next_request(connection))
    _answer(connection, DONE)
    descriptor = recv_handle(connection)
    try:
        act, steps, arrays = map_arrays(descriptor, whole)
    finally:
        os.close(descriptor)
    _answer(connection, DONE)
    part = part_of(arrays, whole, share.start, share.stop)
    vector = PythonVector(
        envs, others, masked=whole.masked, arrays=part, steps=steps[share.start : share.stop], first=share.start
    )
    slots = whole.slots_per_env
    return vector, act[share.start * slots : share.stop * slots]


def _kept(made: Closed, stack: ExitStack) -> Closed:
    stack.callback(made.close)
    return made


def _serve(vector: PythonVector, act: NDArray[np.float32], connection: Connection) -> None:
    while True:
        request = _next_request(connection)
        if request == STEP:
            vector.step(act)
            ended = vector.ended_infos
            _answer(connection, pickle.dumps(ended) if ended else DONE)
            continue
        name, value = pickle.loads(request)
        match name:
            case "reset":
                vector.reset(value)
                _answer(connection, DONE)
            case "render":
                _answer(connection, pickle.dumps(vector.render(value)))
            case "close":
                return


def _next_request(connection: Connection) -> bytes:
    try:
        return connection.recv_bytes()
    except (EOFError, ConnectionError) as error:
        raise _ParentGoneError from error


def _answer(connection: Connection, message: bytes) -> None:
    try:
        connection.send_bytes(message)
    except ConnectionError as error:
        raise _ParentGoneError from error


def _failure(error: Exception) -> ChildFailure:
    notes = "".join(f" {note}" for note in getattr(error, "__notes__", ()))
    text = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
    return ChildFailure(text + notes, "".join(traceback.format_exception(error)), isinstance(error, InputError))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    sentinel = parent.sentinel

    def watch() -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()
