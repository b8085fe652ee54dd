"""Protocols of policy controllers and the description of a kind of policy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.episode import DecisionReport
from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.reference import KindOptions, Options
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import EnvSpec

DEFAULT_TIME_LIMIT_S = 60.0


class PolicyController(Protocol):
    """Policy acting for agents; it sees only its own agents and returns an action for each in `turn.observations`."""

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None: ...  # an episode starts; earlier state is dropped

    def act(self, turn: Turn) -> Mapping[AgentID, Action]: ...

    def close(self) -> None: ...  # may be called twice


@runtime_checkable
class Remembers(Protocol):
    """Controller with state across steps; an agent's state is dropped when it ends or another policy takes over."""

    def forget(self, agent: AgentID) -> None: ...


@runtime_checkable
class ActsTogether(Protocol):
    """Controller whose policy can decide for several episodes at once, each of which has a controller of its own.

    It decides what each of them would decide alone. Siblings are closed one by one; what they share outlives them.
    """

    def sibling(self) -> Self: ...  # of another episode: the same policy, nothing remembered, weights shared

    def act_together(self, turns: Sequence[tuple[Self, Turn]]) -> Sequence[Mapping[AgentID, Action]]: ...


class Explanation(NamedTuple):
    """A policy's view of a position; None where it has none."""

    probabilities: NDArray[np.float64] | None  # over the discrete actions
    value: float | None  # expected return of the agent
    visits: NDArray[np.int64] | None = None  # simulations of a search, over the discrete actions
    proven: bool = False  # the value is the exact result of the game


@runtime_checkable
class Explains(Protocol):
    """Controller that can report action probabilities and values; doing so has no side effects."""

    def explain(self, turn: Turn) -> Mapping[AgentID, Explanation]: ...


def explains_from_memory(controller: PolicyController) -> bool:
    """Return whether its explanations depend on earlier turns; one may say that they do not: `remembers` is False."""
    able = isinstance(controller, Remembers) and isinstance(controller, Explains)
    return able and bool(getattr(controller, "remembers", True))


@runtime_checkable
class Reports(Protocol):
    """Controller that reports on its decisions: numbers for results, transcripts for records."""

    def reports(self) -> Mapping[AgentID, DecisionReport]: ...  # of the last `act`, also where it failed


@dataclass(frozen=True, slots=True)
class Sampling:
    """Sampling of actions from a trained policy, instead of its best action.

    A policy network is sampled by its probabilities. A policy of action values (a table, DQN) explores as in training;
    with a temperature its values are the logits of a softmax.
    """

    temperature: float | None = None  # None: as trained; below 1 nearer to the best action, above 1 nearer to uniform


class TrainedPolicyOptions(Options):
    """Options of every trained policy."""

    sample: bool | None = Field(
        None,
        description="Draw actions as the policy was trained to (true) or play its best action (false); default: "
        "false except for policy networks in games with simultaneous or hidden moves.",
    )
    temperature: float | None = Field(
        None, gt=0, allow_inf_nan=False, description="Divides logits before drawing; implies sample=true."
    )

    @model_validator(mode="after")
    def _temperature_samples(self) -> Self:
        if self.sample is False and self.temperature is not None:
            raise ValueError("temperature belongs to sample=true; leave one of them out")
        return self


@dataclass(frozen=True, slots=True)
class PolicyRequest:
    """Request for a controller."""

    reference: PolicyID
    spec: EnvSpec
    agents: tuple[AgentID, ...]  # agents that share it, as far as known ahead
    seed: int = 0
    time_limit_s: float | None = DEFAULT_TIME_LIMIT_S  # for one action; processes are killed after it
    sampling: Sampling | None = None  # of a trained policy; None: its best action


def default_sampling(spec: EnvSpec, *, stochastic: bool) -> Sampling | None:
    """Return the default sampling: a policy network samples where optimal play is random."""
    return Sampling() if stochastic and spec.facts.mixed else None


def sampling_note(request: PolicyRequest) -> str:
    return (
        f"'{request.reference}' draws its actions by their probabilities, the default in {request.spec.env_id}, where "
        f"moves are simultaneous or hidden; for the most probable action type {request.reference},sample=false"
    )


def always(options: object) -> bool:
    return True


def nothing_missing() -> str | None:
    return None


def no_code_folder(options: object) -> str:
    return ""


def no_environment(options: object) -> None:
    return None


def unchanging(options: object) -> str:
    return ""


def no_notes(options: object, request: PolicyRequest) -> tuple[str, ...]:
    return ()


@dataclass(frozen=True, slots=True)
class PolicyKind:
    """Plug-in of the group `mosaic.policies`: everything that `NAME:…` may mean."""

    usage: str  # stockfish[:elo=1500]
    help: str  # one line for lists
    make: Callable[[KindOptions, PolicyRequest], PolicyController]  # first argument: an instance of `options`
    options: type[Options] = Options
    first: str | None = None  # the option that may be given without its name: uci:PATH
    reproducible: Callable[[KindOptions], bool] = always  # the same seed plays the same game
    waits: bool = False  # for a person: no time limit
    missing: Callable[[], str | None] = nothing_missing  # the exact command to type where something is not installed
    notes: Callable[[KindOptions, PolicyRequest], tuple[str, ...]] = no_notes  # for the user, shown with the results
    code_folder: Callable[[KindOptions], str] = (
        no_code_folder  # where modules named by the policy or its env may be found
    )
    environment: Callable[[KindOptions], EnvironmentConfig | None] = no_environment  # that it was trained in
    version: Callable[[KindOptions], str] = unchanging  # changes when the reference means another policy: run:latest


class PolicyError(MosaicError):
    """Failure of a policy to return an action."""


class PolicyTimeoutError(PolicyError):
    """Policy that exceeded its time limit and was stopped."""
