"""What acts for agents, and what a kind of policy is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.reference import Options
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import EnvSpec

DEFAULT_TIME_LIMIT_S = 60.0


class PolicyController(Protocol):
    """Acts for agents. It sees its own agents only and answers for each one in `turn.observations`."""

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None: ...  # an episode starts; all earlier is forgotten

    def act(self, turn: Turn) -> Mapping[AgentID, Action]: ...

    def close(self) -> None: ...  # twice is fine


@runtime_checkable
class Remembers(Protocol):
    """Keeps state from step to step; an agent's part of it ends when the agent ends or somebody else takes over."""

    def forget(self, agent: AgentID) -> None: ...


class Explanation(NamedTuple):
    """What a policy thinks of a position; None where it has no opinion."""

    probabilities: NDArray[np.float64] | None  # over the discrete actions
    value: float | None  # expected return of the agent


@runtime_checkable
class Explains(Protocol):
    """Can say what it would do and why; asking changes nothing."""

    def explain(self, turn: Turn) -> Mapping[AgentID, Explanation]: ...


@dataclass(frozen=True, slots=True)
class Sampling:
    """Drawing of actions from what a trained policy gives, instead of its best action.

    A policy network is drawn from by its probabilities. A policy of action values (a table, DQN) explores as in
    training; with a temperature its values are the logits of a softmax.
    """

    temperature: float | None = None  # None: as trained; below 1 nearer to the best action, above 1 nearer to uniform


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """For whom a controller is wanted."""

    reference: PolicyID
    spec: EnvSpec
    agents: tuple[AgentID, ...]  # who shares it, as far as known ahead
    seed: int = 0
    time_limit_s: float | None = DEFAULT_TIME_LIMIT_S  # for one answer; processes are cut off at it
    sampling: Sampling | None = None  # of a trained policy; None: its best action


def default_sampling(spec: EnvSpec, *, stochastic: bool) -> Sampling | None:
    """Return how a policy acts where nothing was asked: a policy network draws where the best play is random."""
    return Sampling() if stochastic and spec.facts.mixed else None


def always(options: Any) -> bool:
    return True


def nothing_missing() -> str | None:
    return None


def no_code_folder(options: Any) -> str:
    return ""


def no_notes(options: Any, request: PolicyRequest) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class PolicyKind:
    """A plug-in of the group `mosaic.policies`: everything that `NAME:…` may mean."""

    usage: str  # stockfish[:elo=1500]
    help: str  # one line for lists
    make: Callable[[Any, PolicyRequest], PolicyController]  # first argument: an instance of `options`
    options: type[Options] = Options
    first: str | None = None  # the option that may stand without its name: uci:PATH
    reproducible: Callable[[Any], bool] = always  # the same seed plays the same game
    waits: bool = False  # for a person: no time limit
    missing: Callable[[], str | None] = nothing_missing  # the exact line to type where something is not installed
    notes: Callable[[Any, PolicyRequest], tuple[str, ...]] = no_notes  # for the user, beside the results
    code_folder: Callable[[Any], str] = no_code_folder  # where modules that the policy or its env names may lie
