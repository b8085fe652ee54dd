"""Camera that renders the envs being trained.

It draws only while there are viewers, and in a thread of its own rather than in the learner's if possible.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Protocol, Self

from mosaic.runners.screen import Shot, develop, why_undrawn
from mosaic.workers.context import WorkerContext


class Scene(Protocol):
    """Source of a camera's frames."""

    @property
    def envs(self) -> int: ...

    @property
    def freezes(self) -> bool: ...  # whether a shot may be drawn later, in another thread

    def shoot(self, index: int) -> Shot: ...


class Camera:
    """Renderer of a scene.

    `glance` can be called by the training loop as often as it likes: without viewers it costs a microsecond. Shots that
    can be drawn later are drawn by a separate thread, while compiled code of the learner runs without the interpreter
    lock. At most one waits: slow rendering means fewer frames, but delays nothing else.
    """

    def __init__(self, context: WorkerContext, scene: Scene) -> None:
        self._context, self._scene = context, scene
        self._waiting: list[Shot] = []
        self._busy = False
        self._closed = False
        self._wake = threading.Condition()
        self._failure = ""
        self._undrawn: str | None = None  # why there was nothing to show, to be reported; then empty
        self._thread: threading.Thread | None = None
        context.frame_wanted()  # now: what it imports would otherwise take its time in the first iteration

    def glance(self) -> None:
        if not self.wanted():
            return
        request = self._context.frame_request()
        first = min(request.env, self._scene.envs - 1)
        count = max(1, min(request.grid, self._scene.envs - first))
        shots = [self._scene.shoot(index) for index in range(first, first + count)]
        if not self._scene.freezes:
            self._develop(shots)
            return
        with self._wake:
            self._waiting, self._busy = shots, True
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="camera", daemon=True)
                self._thread.start()
            self._wake.notify()

    def turn_to(self, scene: Scene) -> None:
        """Render another scene from now on; what was waiting to be drawn is dropped."""
        self.close()
        self._scene, self._closed, self._thread = scene, False, None
        if self._waiting:
            self._waiting, self._busy = [], False

    def wanted(self) -> bool:
        """Return whether to `show` a frame that is not of the scene now, such as one of an evaluation's own env."""
        if self._failure:
            self._complain()
        if self._undrawn:
            self._context.report(kind="alert", message=self._undrawn)
            self._undrawn = ""
        return not self._busy and self._context.frame_wanted()

    def show(self, shot: Shot) -> None:
        """Draw at once. Call it only if `wanted` returned true."""
        self._develop([shot])

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                shots, self._waiting = self._waiting, []
            self._develop(shots)

    def _develop(self, shots: Sequence[Shot]) -> None:
        """Draw and publish shots.

        An env that cannot be drawn ends the frames, not the training, and raises an alert.
        """
        try:
            self._publish(shots)
        except Exception as error:  # noqa: BLE001 — whatever a user's render() raises
            self._failure = f"No more pictures: drawing env {shots[0].env} raised {type(error).__name__}: {error}"
        else:
            self._busy = False

    def _complain(self) -> None:
        self._context.report(kind="alert", message=self._failure)
        self._failure, self._busy = "", True  # permanently

    def _publish(self, shots: Sequence[Shot]) -> None:
        developed = develop(shots)
        if developed is not None:
            self._context.frame(developed.rgb, **developed.facts)
        elif self._undrawn is None:
            self._undrawn = why_undrawn(self._context.config.environment)

    def close(self) -> None:
        with self._wake:
            self._closed = True
            self._wake.notify()
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
