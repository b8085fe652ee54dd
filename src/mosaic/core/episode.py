"""Record of one episode: enough to replay it bit for bit and to attribute every action."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from mosaic.core.ids import AgentID, Json, PolicyID
from mosaic.core.turn import Action

End: TypeAlias = Literal["terminated", "truncated", "terminated+truncated"]
Outcome: TypeAlias = Literal["win", "draw", "loss"]
NoteKind: TypeAlias = Literal["took_back", "lost_on_time", "continued"]


class PolicyChange(NamedTuple):
    """Change of the policy that acts for an agent, from env step `step` (counted from 0) on."""

    step: int
    agent: AgentID
    policy: PolicyID


class EpisodeNote(NamedTuple):
    """Event that the env does not know of, after `step` env steps: moves taken back, a loss on time, a continuation."""

    step: int
    agent: AgentID  # who took back or lost; "" for a continuation
    what: NoteKind
    env_steps: int = 0  # that were taken back


class TranscriptLine(NamedTuple):
    """Text that was sent to a policy or received from it."""

    role: str  # "system", "user" or "assistant"
    text: str
    note: str = ""  # for readers: tokens, seconds, why an answer was not accepted


Reported: TypeAlias = bool | float | Sequence[bool] | Sequence[float]


class DecisionReport(NamedTuple):
    """Numbers and texts that a policy reports about one decision.

    A number may be given several times, such as the seconds of each answer. Means are taken of numbers, shares of True
    and False.
    """

    numbers: Mapping[str, Reported]
    transcript: tuple[TranscriptLine, ...] = ()


class StepReport(NamedTuple):
    """Report on the decision of an agent in env step `step` (counted from 0); the last decision may have failed."""

    step: int
    agent: AgentID
    report: DecisionReport


def plain_report(report: DecisionReport) -> DecisionReport:
    """Return the report with numbers and texts of Python; raise TypeError for anything else."""
    numbers = {
        str(name): [_plain(name, each) for each in given]
        if isinstance(given, Sequence | np.ndarray)
        else _plain(name, given)
        for name, given in report.numbers.items()
    }
    return DecisionReport(numbers, tuple(TranscriptLine(*map(str, line)) for line in report.transcript))


def _plain(name: str, given: object) -> bool | float:
    number = given.item() if isinstance(given, np.generic) else given
    if not isinstance(number, bool | int | float) or not math.isfinite(number):
        raise TypeError(f"{name} is {given!r}, which is neither a finite number nor True or False")
    return number


@dataclass(slots=True)
class Episode:
    """Record of one episode.

    Lists have one entry per env step. Observations are not kept (one pistonball episode would take 400 MB).
    """

    environment: Mapping[str, Json]  # fields of the EnvironmentConfig that recreates the env
    seed: int
    policies: dict[AgentID, PolicyID]  # each agent's first policy; agents created later are added when they act
    changes: list[PolicyChange] = field(default_factory=list)
    actions: list[Mapping[AgentID, Action]] = field(default_factory=list)
    rewards: list[Mapping[AgentID, float]] = field(default_factory=list)
    digests: list[int] = field(default_factory=list)  # of every Turn, including the first; empty if not requested
    first_digest: int = 0  # of the first Turn; always set
    ends: dict[AgentID, tuple[int, End]] = field(default_factory=dict)  # step and kind; missing agents outlived it
    cut: bool = False  # stopped by the runner at max_steps: agents still alive count as truncated
    versions: dict[str, str] = field(default_factory=dict)
    reports: list[StepReport] = field(default_factory=list)  # of policies that report on their decisions
    notes: list[EpisodeNote] = field(default_factory=list)

    @property
    def env_steps(self) -> int:
        return len(self.actions)

    @property
    def agent_steps(self) -> int:
        return sum(map(len, self.actions))

    @property
    def returns(self) -> dict[AgentID, float]:
        total = dict.fromkeys(self.policies, 0.0)
        for rewards in self.rewards:
            for agent, reward in rewards.items():
                total[agent] = total.get(agent, 0.0) + reward
        return total

    def policy_of(self, agent: AgentID, step: int) -> PolicyID:
        """Return the policy that acted for the agent in this env step."""
        policy = self.policies[agent]
        for change in self.changes:
            if change.agent == agent and change.step <= step:
                policy = change.policy
        return policy


def first_steps(episode: Episode, env_steps: int) -> Episode:
    """Return a copy of the episode as it was after its first `env_steps` steps."""
    return replace(
        episode,
        policies=dict(episode.policies),
        changes=[change for change in episode.changes if change.step <= env_steps],
        actions=episode.actions[:env_steps],
        rewards=episode.rewards[:env_steps],
        digests=episode.digests[: env_steps + 1],
        ends={agent: end for agent, end in episode.ends.items() if end[0] <= env_steps},
        cut=False,
        reports=[report for report in episode.reports if report.step < env_steps],
        notes=list(episode.notes),
    )


def outcomes(returns: Mapping[AgentID, float], win_above: float = -math.inf) -> dict[AgentID, Outcome]:
    """Return win, draw or loss for each agent of a competitive game.

    The highest return wins alone or shares a draw. Returns are compared, not their signs: PettingZoo pays an illegal
    move -1 and 0. Where no agent earned more than `win_above` (gin rummy without a knock), all draw.
    """
    best = max(returns.values())
    if best <= win_above:
        return dict.fromkeys(returns, "draw")
    top: Outcome = "win" if sum(value == best for value in returns.values()) == 1 else "draw"
    return {agent: top if value == best else "loss" for agent, value in returns.items()}
