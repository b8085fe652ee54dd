"""Small envs and policies that processes can import by name."""

from __future__ import annotations

import os
import signal
from typing import Any

import gymnasium

from mosaic.core.errors import InputError


def first_legal(observation: Any, mask: Any) -> int:
    return int(mask.argmax())


def last_legal(observation: Any, mask: Any) -> int:
    return int(mask.nonzero()[0][-1])


def dies(observation: Any, mask: Any) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def refused(spec: Any, agent: str, seed: int) -> Any:
    raise InputError(f"No brain for '{agent}'.")


def alternating(agent: str, episode: int) -> str:
    return (
        "python:tests.evaluation.evaluation_toys:first_legal"
        if episode % 2 == 0
        else "python:tests.evaluation.evaluation_toys:last_legal"
    )


class OddError(Exception):
    """Cannot be pickled and read back: it wants two arguments."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first} {second}")


class Line(gymnasium.Env[int, int]):
    """Pays `reward` in each of three steps; fails in the way it is told."""

    observation_space = gymnasium.spaces.Discrete(4)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, reward: float | str = 1.0, failure: str = "") -> None:
        self._reward, self._failure, self._place = float(reward), failure, 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._place = 0
        if self._failure == "endless and loud":
            os.write(1, b"playing\n")  # at once: two processes share this pipe
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        match self._failure:
            case "plain":
                raise ZeroDivisionError("the line is broken")
            case "odd":
                raise OddError("an odd", "error")
            case "endless" | "endless and loud":
                return 0, 0.0, False, False, {}
        self._place += 1
        return self._place, self._reward, self._place == 3, False, {}

    def close(self) -> None:
        if self._failure == "close" and self._place:  # only where it was played
            raise ZeroDivisionError("the line cannot be closed")
