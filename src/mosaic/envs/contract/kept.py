"""Whether anything an env handed out was changed later."""

from __future__ import annotations

from collections import deque
from typing import Any

from mosaic.core.ids import AgentID
from mosaic.core.turn import Turn, digest_value
from mosaic.envs.contract.errors import ContractError, Place

_REMEMBERED = 3  # Turns: an env that reuses buffers does so soon, and pictures are large


class Kept:
    """The newest Turns of one env instance, across its episodes: reset may write into old buffers too."""

    def __init__(self) -> None:
        self._turns: deque[tuple[Place, Turn, dict[tuple[str, AgentID], int]]] = deque(maxlen=_REMEMBERED)
        self._pictures: deque[tuple[Place, Any, int]] = deque(maxlen=1)

    def add(self, place: Place, turn: Turn) -> None:
        self._turns.append((place, turn, _digests(turn)))

    def add_picture(self, place: Place, picture: Any) -> None:
        self._pictures.append((place, picture, digest_value(picture)))

    def check(self, now: Place) -> None:
        for place, turn, digests in self._turns:
            now_said = _digests(turn)
            for field, agent in {**digests, **now_said}:
                if digests.get((field, agent)) != now_said.get((field, agent)):
                    raise _changed(place, f"{field} handed out here had changed when this came: {now.when}", agent)
        for place, picture, number in self._pictures:
            if digest_value(picture) != number:
                raise _changed(place, f"the picture handed out here had changed when this came: {now.when}", None)


def _digests(turn: Turn) -> dict[tuple[str, AgentID], int]:
    """Infos aside: they are not part of what is promised to stay."""
    return {
        (field, agent): digest_value(value)
        for field, part in zip(turn._fields[:-1], turn[:-1], strict=True)
        for agent, value in part.items()
    }


def _changed(place: Place, found: str, agent: AgentID | None) -> ContractError:
    return ContractError(
        place,
        found,
        "what was handed out never changes",
        "hand out a copy of every array or dict that is written to again",
        agent,
    )
