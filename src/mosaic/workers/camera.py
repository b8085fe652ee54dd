"""Who shows the envs that are trained? Draws only while somebody looks, beside the learner rather than inside it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.workers.context import WorkerContext

Draw: TypeAlias = Callable[[], NDArray[np.uint8] | None]


@dataclass(frozen=True, slots=True)
class Shot:
    """One env at one moment: how to draw it, and what belongs to the picture."""

    draw: Draw
    env: int
    env_steps: int
    episode: int
    reward: float  # of the last step, of the first agent
    returns: Mapping[str, float]  # of the episode so far, per agent


class Scene(Protocol):
    """What a camera is pointed at."""

    @property
    def envs(self) -> int: ...

    @property
    def freezes(self) -> bool: ...  # whether a shot may be drawn later, in another thread

    def shoot(self, index: int) -> Shot: ...


class Camera:
    """`glance` is called by the training loop as often as it likes: without viewers it costs a microsecond.

    Shots that can be drawn later are drawn by a thread of its own, while compiled code of the learner runs without the
    interpreter lock. At most one waits: who draws slowly shows fewer pictures and delays nobody.
    """

    def __init__(self, context: WorkerContext, scene: Scene) -> None:
        self._context, self._scene = context, scene
        self._waiting: list[Shot] = []
        self._busy = False
        self._closed = False
        self._wake = threading.Condition()
        self._failure = ""
        self._thread: threading.Thread | None = None

    def glance(self) -> None:
        if self._failure:
            self._complain()
        if self._busy or not self._context.frame_wanted():
            return
        wish = self._context.frame_wish()
        first = min(wish.env, self._scene.envs - 1)
        count = max(1, min(wish.grid, self._scene.envs - first))
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

    def _work(self) -> None:
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._waiting or self._closed)
                if self._closed:
                    return
                shots, self._waiting = self._waiting, []
            self._develop(shots)

    def _develop(self, shots: Sequence[Shot]) -> None:
        """An env that cannot be drawn ends the pictures, not the training: the run says so in an alert."""
        try:
            self._publish(shots)
        except Exception as error:  # noqa: BLE001 — whatever a stranger's render() raises
            self._failure = f"No more pictures: drawing env {shots[0].env} raised {type(error).__name__}: {error}"
        else:
            self._busy = False

    def _complain(self) -> None:
        self._context.report(kind="alert", message=self._failure)
        self._failure, self._busy = "", True  # for good

    def _publish(self, shots: Sequence[Shot]) -> None:
        from mosaic.telemetry.fastlane_layout import AGENT_BYTES
        from mosaic.telemetry.pictures.grid import tiled
        from mosaic.telemetry.pictures.labels import return_labels, to_line
        from mosaic.telemetry.pictures.shape import as_rgb

        drawn = [picture for picture in (shot.draw() for shot in shots) if picture is not None]
        if not drawn:
            return
        shot = shots[0]
        several = len(shot.returns) > 1 and len(shots) == 1
        picture = as_rgb(drawn[0]) if len(drawn) == 1 else tiled([as_rgb(one) for one in drawn])
        self._context.frame(
            np.ascontiguousarray(picture),
            step=shot.env_steps,
            episode=shot.episode,
            env=shot.env,
            agent=to_line(return_labels(shot.returns), AGENT_BYTES) if several else "",
            reward=shot.reward,
            ret=next(iter(shot.returns.values()), 0.0),
        )

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
