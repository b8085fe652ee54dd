"""Errors for contract violations: what was promised, where it was violated, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID, EnvID


@dataclass(frozen=True, slots=True)
class CheckPosition:
    """Position in the check; step 0 is the reset."""

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
    """Violation of the contract of Env."""

    def __init__(
        self, place: CheckPosition, found: str, promise: str, advice: str, agent: AgentID | None = None
    ) -> None:
        who = "" if agent is None else f", agent {agent!r}"
        super().__init__(f"{place}{who}: {found}. Promise: {promise}. What to do: {advice}.")
        self.place, self.agent, self.promise = place, agent, promise


@contextmanager
def blamed(place: CheckPosition, call: str) -> Iterator[None]:
    """Turn exceptions of the env's own code into contract violations, with the cause attached."""
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
