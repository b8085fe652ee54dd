"""How a broken promise is told: what was promised, where it broke, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID, EnvID


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the check something happened; step 0 is the reset."""

    env_id: EnvID
    seed: int | None = None
    step: int | None = None

    @property
    def when(self) -> str:
        if self.step is None:
            return ""
        when = "after reset" if self.step == 0 else f"step {self.step}"
        return when if self.seed is None else f"{when} (seed {self.seed})"

    def __str__(self) -> str:
        return f"{self.env_id}, {self.when}" if self.when else self.env_id


class ContractError(MosaicError):
    """An env does not keep what every Env promises."""

    def __init__(self, place: Place, found: str, promise: str, advice: str, agent: AgentID | None = None) -> None:
        who = "" if agent is None else f", agent {agent!r}"
        super().__init__(f"{place}{who}: {found}. Promise: {promise}. What to do: {advice}.")
        self.place, self.agent, self.promise = place, agent, promise


@contextmanager
def blamed(place: Place, call: str) -> Iterator[None]:
    """Whatever the env's own code raises becomes a broken promise; the cause stays attached."""
    try:
        yield
    except ContractError:
        raise
    except Exception as error:
        raise ContractError(
            place,
            f"{call} raised {type(error).__name__}: {error}",
            "reset, every legal step, render and close work",
            "follow the traceback of the cause",
        ) from error
