"""Result of one episode of an evaluation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from mosaic.core.episode import Episode, Outcome, outcomes
from mosaic.core.ids import AgentID, JsonObject, PolicyID
from mosaic.core.turn import digest_value
from mosaic.envs.env import EnvFacts


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

    @property
    def distinct(self) -> tuple[GameDigest, tuple[float, ...]]:
        """Key that is equal for games with the same start, actions and returns; such a game adds no information."""
        return self.game, tuple(self.returns.values())

    @property
    def winner(self) -> AgentID | None:
        """The only winner, if there is one."""
        winners = [agent for agent, outcome in (self.outcomes or {}).items() if outcome == "win"]
        return winners[0] if winners else None

    def to_json(self) -> JsonObject:
        return {
            "seed": self.seed,
            "length": self.length,
            "returns": {agent: finite(value) for agent, value in self.returns.items()},
            "winner": self.winner,
            "cut": self.cut,
        }


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
    )


def finite(value: float) -> float | None:
    """Return None for NaN and infinity, which JSON does not have."""
    return value if math.isfinite(value) else None
