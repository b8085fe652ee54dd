"""Result of one episode of an evaluation."""

from __future__ import annotations

import csv
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import StringIO
from typing import NamedTuple

from mosaic.core.episode import Episode, Outcome, outcomes
from mosaic.core.ids import AgentID, JsonObject, PolicyID
from mosaic.core.turn import digest_value
from mosaic.envs.env import EnvFacts
from mosaic.evaluation.reports import Tallies, tallies_by_agent, tallies_to_json


class GameDigest(NamedTuple):
    """Digest of a game; equal for games with the same start and the same actions."""

    first_turn: int
    actions: int
    length: int


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """Summary of an episode.

    Small enough to send thousands of them between processes: actions and rewards stay in the process that played them.
    """

    index: int  # position in the evaluation, independent of when it was played
    seed: int
    length: int  # in env steps
    agent_steps: int
    returns: Mapping[AgentID, float]
    policies: Mapping[AgentID, PolicyID]  # the policy that acted for each agent
    outcomes: Mapping[AgentID, Outcome] | None  # None where the env has no winner
    cut: bool  # stopped at max_steps
    game: GameDigest
    span_s: tuple[float, float] = field(compare=False)  # start and end on the machine's monotonic clock
    reports: Mapping[AgentID, Tallies] = field(default_factory=dict, compare=False)  # seconds differ every time

    @property
    def distinct(self) -> tuple[GameDigest, tuple[float, ...]]:
        """Key that is equal for games with the same start, actions and returns; such a game adds no information."""
        return self.game, tuple(self.returns.values())

    @property
    def duration_s(self) -> float:
        """Seconds from before the env's reset until after its last step, policies included."""
        return self.span_s[1] - self.span_s[0]

    @property
    def winner(self) -> AgentID | None:
        """The only winner, if there is one."""
        winners = [agent for agent, outcome in (self.outcomes or {}).items() if outcome == "win"]
        return winners[0] if winners else None

    def to_json(self) -> JsonObject:
        return {
            "episode": self.index,
            "seed": self.seed,
            "length": self.length,
            "agent_steps": self.agent_steps,
            "duration_s": self.duration_s,
            "returns": {agent: finite(value) for agent, value in self.returns.items()},
            "policies": dict(self.policies),
            "winner": self.winner,
            "cut": self.cut,
            "reports": {agent: tallies_to_json(tallies) for agent, tallies in self.reports.items()},
        }


def csv_table(results: Sequence[EpisodeResult]) -> str:
    """Return a CSV table with a row per episode and the names of `to_json`: `returns.AGENT`, `policies.AGENT`.

    Cells of agents that took no part are empty, and so is that of a winner that is not there.
    """
    agents = list(dict.fromkeys(agent for result in results for agent in result.returns))
    simple = ("episode", "seed", "length", "agent_steps", "duration_s", "winner", "cut")
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*simple, *(f"returns.{agent}" for agent in agents), *(f"policies.{agent}" for agent in agents)])
    for result in results:
        row = result.to_json()
        parts = [result.returns.get(agent) for agent in agents], [result.policies.get(agent) for agent in agents]
        writer.writerow([*(row[name] for name in simple), *parts[0], *parts[1]])
    return text.getvalue()


def sum_up(
    index: int, episode: Episode, policies: Mapping[AgentID, PolicyID], facts: EnvFacts, span_s: tuple[float, float]
) -> EpisodeResult:
    returns = episode.returns
    return EpisodeResult(
        index=index,
        seed=episode.seed,
        length=episode.env_steps,
        agent_steps=episode.agent_steps,
        returns=returns,
        policies=dict(policies),
        outcomes=outcomes(returns, facts.win_above) if facts.competitive else None,
        cut=episode.cut,
        game=GameDigest(episode.first_digest, digest_value(episode.actions), episode.env_steps),
        span_s=span_s,
        reports=tallies_by_agent(episode),
    )


def finite(value: float) -> float | None:
    """Return None for NaN and infinity, which JSON does not have."""
    return value if math.isfinite(value) else None


def return_notes(results: Sequence[EpisodeResult]) -> tuple[str, ...]:
    """Return a note for every agent with returns that are NaN or infinite: such returns have no mean."""
    odd = Counter(agent for result in results for agent, value in result.returns.items() if not math.isfinite(value))
    played = Counter(agent for result in results for agent in result.returns)
    return tuple(
        f"the return of {agent} was not finite in {count} of {played[agent]} "
        f"{'episode' if played[agent] == 1 else 'episodes'}"
        for agent, count in sorted(odd.items())
    )
