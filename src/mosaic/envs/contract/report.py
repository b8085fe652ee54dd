"""Results of an env check: the report in tabular form, or the error that names the broken rule."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mosaic.config.sections import Incentives
from mosaic.core.episode import End
from mosaic.core.errors import MissingExtraError, MosaicError
from mosaic.core.ids import AgentID, EnvID
from mosaic.core.turn import Turn
from mosaic.envs.env import Env
from mosaic.envs.spaces import describe_space


@dataclass(frozen=True, slots=True)
class AgentRow:
    """One agent in the first episode of the check."""

    agent: AgentID
    env_steps: int  # steps in which it acted
    episode_return: float
    end: End | None  # None: still alive when the check stopped
    observation: str
    action: str


@dataclass(frozen=True, slots=True)
class EnvReport:
    """Observations of a check in which nothing was violated."""

    env_id: EnvID
    turn_based: bool
    competitive: bool
    incentives: Incentives
    shared_reward: bool | None  # None: not declared, or one agent
    reproducible: bool  # False: the env declares that it is not, so nothing was compared
    has_chance: bool
    masked: bool  # some agent's actions were restricted
    picture: tuple[int, int] | None  # height and width
    env_steps: int  # of the first episode
    episodes_ended: int  # of those played once per seed; 0: the end of an episode was never seen
    agents: tuple[AgentRow, ...]
    advice: str = ""  # the env's own


class EpisodeTotals:
    """Totals of one episode, by agent."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._spaces: dict[AgentID, tuple[str, str]] = {}  # kept: after another reset a name may mean another agent
        self._acted: dict[AgentID, int] = {}
        self._returns: dict[AgentID, float] = {}
        self._ends: dict[AgentID, End] = {}
        self._acting: tuple[AgentID, ...] = ()
        self.env_steps = -1  # the first Turn comes before any step
        self.masked = False
        self.over = False

    def add(self, turn: Turn) -> None:
        self.env_steps += 1
        self.masked, self.over = self.masked or bool(turn.action_masks), turn.over
        for agent in self._acting:
            self._acted[agent] += 1
        for agent, reward in turn.rewards.items():
            if agent not in self._acted:
                self._acted[agent] = 0
                self._spaces[agent] = self._described(agent)
            self._returns[agent] = self._returns.get(agent, 0.0) + reward
        for agent in turn.final_observations:
            self._ends[agent] = _end_of(turn, agent)
        self._acting = tuple(turn.observations)

    def rows(self) -> tuple[AgentRow, ...]:
        return tuple(
            AgentRow(agent, acted, self._returns[agent], self._ends.get(agent), *self._spaces[agent])
            for agent, acted in self._acted.items()
        )

    def _described(self, agent: AgentID) -> tuple[str, str]:
        env = self._env
        return describe_space(env.observation_spaces[agent]), describe_space(env.action_spaces[agent])


def _end_of(turn: Turn, agent: AgentID) -> End:
    if turn.terminated[agent] and turn.truncated[agent]:
        return "terminated+truncated"
    return "terminated" if turn.terminated[agent] else "truncated"


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
    """Turn exceptions of the env's own code into contract violations, with the cause attached.

    A package that is not installed is not the env's fault.
    """
    try:
        yield
    except (ContractError, MissingExtraError):
        raise
    except Exception as error:
        raise ContractError(
            place,
            f"{call} raised {type(error).__name__}: {str(error).rstrip('.')}",
            "reset, every legal step, render and close work",
            "follow the traceback of the cause (mosaic check shows it with --debug)",
        ) from error
