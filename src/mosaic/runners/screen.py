"""Where pictures of an env go while it is played, and what belongs to each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

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
    occasion: str = ""  # what this is, where it is not what viewers expect, such as an evaluation in a training


class Screen(Protocol):
    """Asked between any two steps, by one thread at a time; who is told yes shows."""

    def wanted(self) -> bool: ...

    def show(self, shot: Shot) -> None:
        """Draws. What goes wrong with it ends the pictures and nothing else."""
        ...

    def close(self) -> None: ...


class Developed(NamedTuple):
    """As a frame ring takes it."""

    rgb: NDArray[np.uint8]
    facts: Mapping[str, Any]


def develop(shots: Sequence[Shot]) -> Developed | None:
    """One picture of them all, with the numbers of the first. None where none of them has a picture."""
    from mosaic.telemetry.frames.layout import AGENT_BYTES
    from mosaic.telemetry.pictures.labels import Label, return_labels, to_line
    from mosaic.telemetry.pictures.resize import as_rgb, tiled

    drawn = [picture for picture in (shot.draw() for shot in shots) if picture is not None]
    if not drawn:
        return None
    first = shots[0]
    ret = next(iter(first.returns.values()), 0.0)
    labels = return_labels(first.returns) if len(first.returns) > 1 and len(shots) == 1 else []
    if first.occasion:
        labels = [Label(first.occasion, ""), *(labels or return_labels({"return": ret}))]
    picture = as_rgb(drawn[0]) if len(drawn) == 1 else tiled([as_rgb(one) for one in drawn])
    facts = {
        "step": first.env_steps,
        "episode": first.episode,
        "env": first.env,
        "agent": to_line(labels, AGENT_BYTES),
        "reward": first.reward,
        "ret": ret,
    }
    return Developed(np.ascontiguousarray(picture), facts)
