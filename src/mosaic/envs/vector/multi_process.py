"""Vector env that steps Python envs in several processes, writing into shared memory."""

from __future__ import annotations

import pickle
import weakref
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import send_handle
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.child_process import ChildProcess
from mosaic.core.errors import InputError, MosaicError
from mosaic.envs.env import Env
from mosaic.envs.learner_view import Others
from mosaic.envs.vector.layout import EndedInfo, SharedArrays, VectorShape, map_arrays, nameless_memory
from mosaic.envs.vector.multi_process_child import CLOSE, DONE, STEP, ChildFailure, EnvShare, Introduction, play_share

_END_WITHIN_S = 5.0


class EnvProcessError(MosaicError):
    """Failure of an env in its own process; the traceback from there is in the notes."""


class _Member(NamedTuple):
    process: BaseProcess
    connection: Connection
    share: EnvShare


class ProcessVector:
    """Vector env of `envs` envs split evenly among `processes`; same numbers as a PythonVector of as many.

    `make` and `make_others` are called in the processes, so they must be picklable: functions of a module, or
    `functools.partial(make_env, config)`. Both sides block in the kernel, never spinning. The first error of any
    process ends all of them.
    """

    def __init__(
        self,
        make: Callable[[], Env],
        envs: int,
        processes: int,
        make_others: Callable[[], Others] | None = None,
        *,
        masked: bool | None = None,
    ) -> None:
        if not 1 <= processes <= envs:
            raise InputError(f"{envs} envs cannot be shared by {processes} processes: type a number from 1 to {envs}.")
        bounds = [envs * i // processes for i in range(processes + 1)]
        shares = [EnvShare(make, make_others, masked, bounds[i], bounds[i + 1]) for i in range(processes)]
        self._env_id = "an env that was still being created"
        self._children: list[_Member] = []
        self.ended_infos: list[EndedInfo] = []
        self._end = weakref.finalize(self, _end, self._children)
        try:
            for share in shares:
                self._children.append(_start(share))
            self.shape, (self._act, self.steps, arrays) = self._introduce(envs)
        except BaseException:
            self._end()
            raise
        self.obs, self.mask, self.who, self.active, self.rew, self.term, self.trunc, self.fin = arrays

    def reset(self, seed: int) -> None:
        self.ended_infos.clear()
        self._ask(self._open(), pickle.dumps(("reset", seed)))

    def step(self, act: NDArray[np.float32]) -> None:
        self._act[:] = act
        self.ended_infos.clear()
        agents = len(self.shape.agents)
        for member, infos in zip(self._children, self._ask(self._open(), STEP), strict=True):
            for row, numbers in infos or ():
                self.ended_infos.append(EndedInfo(member.share.start * agents + row, numbers))

    def render(self, index: int) -> NDArray[np.uint8] | None:
        for member in self._open():
            if member.share.start <= index < member.share.stop:
                picture: NDArray[np.uint8] | None
                (picture,) = self._ask([member], pickle.dumps(("render", index - member.share.start)))
                return picture
        raise IndexError(f"There is no env number {index}: the last is {self.shape.envs - 1}.")

    def close(self) -> None:
        if not self._end.alive:
            return
        try:
            self._ask(self._open(), pickle.dumps(CLOSE))
        finally:
            self._end()

    def _introduce(self, envs: int) -> tuple[VectorShape, SharedArrays]:
        """Receive the shape from the processes and send them the memory for it."""
        made: list[Introduction] = [self._receive(member) for member in self._children]
        self._env_id = made[0].env_id
        shapes = {replace(introduction.shape, envs=envs) for introduction in made}
        if len(shapes) > 1:
            raise InputError(f"Every process must make the same env, but they made {shapes}.")
        (shape,) = shapes
        with nameless_memory(shape) as descriptor:
            shared = map_arrays(descriptor, shape)
            for member in self._children:
                _send(member, pickle.dumps(shape))
                self._receive(member)
                send_handle(member.connection, descriptor, member.process.pid or 0)
                self._receive(member)
        return shape, shared

    def _open(self) -> Sequence[_Member]:
        if not self._end.alive:
            raise RuntimeError("This vector env is closed.")
        return self._children

    def _ask(self, members: Sequence[_Member], request: bytes) -> list[Any]:
        try:
            for member in members:
                _send(member, request)
            return [self._receive(member) for member in members]
        except BaseException:  # an error, or Ctrl-C between request and reply: the protocol is out of step
            self._end()
            raise

    def _receive(self, member: _Member) -> Any:
        try:
            message = member.connection.recv_bytes()
        except (EOFError, ConnectionError):
            member.process.join(_END_WITHIN_S)
            raise _death(member, self._env_id) from None
        if message == DONE:
            return None
        answer = pickle.loads(message)
        if isinstance(answer, ChildFailure):
            raise _error(answer)
        return answer


def _start(share: EnvShare) -> _Member:
    ours, theirs = Pipe()
    process = ChildProcess(target=play_share, args=(share, theirs), name="mosaic-envs")
    try:
        process.start()
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return _Member(process, ours, share)


def _send(member: _Member, message: bytes) -> None:
    with suppress(ConnectionError):  # it is dead: the missing reply is reported, with its exit code
        member.connection.send_bytes(message)


def _death(member: _Member, env_id: str) -> EnvProcessError:
    return EnvProcessError(
        f"The process that stepped {env_id} ({_numbers(member.share)} of the vector) ended with exit code "
        f"{member.process.exitcode} before it was done (a negative number is a signal). See its output above; "
        "in a script, call Mosaic below `if __name__ == '__main__':`."
    )


def _error(failure: ChildFailure) -> MosaicError:
    if failure.bad_input:
        return InputError(failure.text)
    error = EnvProcessError(f"An env failed in its own process: {failure.text}")
    error.add_note(failure.details)
    return error


def _numbers(share: EnvShare) -> str:
    return f"env number {share.start}" if share.envs == 1 else f"envs number {share.start} to {share.stop - 1}"


def _end(members: list[_Member]) -> None:
    """Stop the processes by closing their connections; kill those that take too long."""
    for member in members:
        member.connection.close()
    for member in members:
        member.process.join(_END_WITHIN_S)
        if member.process.is_alive():
            member.process.kill()
            member.process.join()
        member.process.close()
    members.clear()
