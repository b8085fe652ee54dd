"""What one episode of an evaluation came to."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mosaic.core.episode import Episode, Outcome, outcomes
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import digest_value
from mosaic.envs.env import EnvFacts


class GameDigest(NamedTuple):
    """Equal for equal games: the same beginning, the same actions."""

    first_turn: int
    actions: int
    length: int


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """Small enough to be sent between processes by the thousand: actions and rewards stay where they were played."""

    index: int  # its place in the evaluation, whenever it was played
    seed: int
    length: int  # in env steps
    agent_steps: int
    returns: Mapping[AgentID, float]
    policies: Mapping[AgentID, PolicyID]  # who acted for whom
    outcomes: Mapping[AgentID, Outcome] | None  # None where nobody wins
    cut: bool  # stopped at max_steps
    game: GameDigest
    span_s: tuple[float, float] = field(compare=False)  # from when to when, on the machine's monotonic clock

    @property
    def distinct(self) -> tuple[GameDigest, tuple[float, ...]]:
        """Equal for games that are the same in beginning, actions and returns: the second says nothing new."""
        return self.game, tuple(self.returns.values())

    @property
    def winner(self) -> AgentID | None:
        """Who won alone."""
        winners = [agent for agent, outcome in (self.outcomes or {}).items() if outcome == "win"]
        return winners[0] if winners else None

    def to_json(self) -> dict[str, Any]:
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
    """JSON has no NaN and no infinity."""
    return value if math.isfinite(value) else None
