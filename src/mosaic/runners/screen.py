"""Interface for showing frames of an env while it is played."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.config.sections import EnvironmentConfig
from mosaic.telemetry.frames.layout import AGENT_BYTES, FrameFacts

Draw: TypeAlias = Callable[[], NDArray[np.uint8] | None]


@dataclass(frozen=True, slots=True)
class Shot:
    """One env at one moment: a function that draws it, and the frame's metadata."""

    draw: Draw
    env: int
    env_steps: int
    episode: int
    reward: float  # of the first agent in the last step
    returns: Mapping[str, float]  # of the episode so far, per agent
    occasion: str = ""  # label where the frame is not what viewers expect, such as an evaluation during training


class Screen(Protocol):
    """Receiver of frames, polled between steps by one thread at a time; after `wanted` is true, `show` is called."""

    def wanted(self) -> bool: ...

    def show(self, shot: Shot) -> None:
        """Draw the frame; an error here stops the frames and nothing else."""
        ...

    def close(self) -> None: ...


class Developed(NamedTuple):
    """Frame as a frame ring takes it."""

    rgb: NDArray[np.uint8]
    facts: FrameFacts


def develop(shots: Sequence[Shot]) -> Developed | None:
    """Combine the shots into one frame, with the numbers of the first; return None where none of them can be drawn."""
    from mosaic.telemetry.pictures.captions import Label, return_labels, to_line
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
    facts: FrameFacts = {
        "step": first.env_steps,
        "episode": first.episode,
        "env": first.env,
        "agent": to_line(labels, AGENT_BYTES),
        "reward": first.reward,
        "ret": ret,
    }
    return Developed(np.ascontiguousarray(picture), facts)


def why_undrawn(environment: EnvironmentConfig) -> str:
    """Return why an env may have no pictures, and what to do; empty if only its author could change that."""
    given = environment.options.get("render_mode", "rgb_array")
    if given != "rgb_array":
        return f"No pictures: the option render_mode of {environment.id} is {given!r}. Leave it out to see the env."
    if environment.family == "external":
        return f"No pictures: {environment.id} runs in another program, which can show it."
    if environment.family != "python":
        return ""
    return (
        f"No pictures: {environment.id} draws none. Let its class take render_mode, list 'rgb_array' in "
        'metadata["render_modes"], and return an array of pixels from render().'
    )
