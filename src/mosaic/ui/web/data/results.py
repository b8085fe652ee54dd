"""Results of evaluations and tournaments as JSON documents, scores of pairs in them, and choices of episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NotRequired, TypeAlias, TypedDict

from mosaic.core.ids import AgentID, PolicyID
from mosaic.evaluation.statistics import estimate_score

Interval: TypeAlias = "list[float | None]"  # low and high end of 95 %


class ReportedDocument(TypedDict):
    """Number that a policy reported about its decisions: its mean, or the share of True."""

    share: bool
    mean: float | None
    ci95: Interval
    count: int
    total: float
    episode_mean: float | None
    episode_ci95: Interval


Reports: TypeAlias = dict[str, ReportedDocument]


class RatedPolicy(TypedDict):
    policy: PolicyID
    reports: NotRequired[Reports]  # older results have none
    rating: float
    rating_sd: float
    score_mean: float
    score_ci95: list[float]


class PairDocument(TypedDict):
    """Games in which `first` was the env's first agent; wins and losses are those of `first`."""

    first: PolicyID
    second: PolicyID
    games: int
    wins: int
    draws: int
    losses: int
    distinct_games: int
    score_mean: float
    score_ci95: list[float]


class GameDocument(TypedDict):
    first: PolicyID
    second: PolicyID
    score: float  # of the first
    seed: int
    length: int


class TournamentDocument(TypedDict):
    games_total: int
    distinct_games: int
    policies: list[RatedPolicy]  # best first
    pairs: list[PairDocument]
    episode_results: list[GameDocument]


class ReturnDocument(TypedDict):
    """Returns of an agent or of a policy; wins, draws and losses are None where an env has no winner."""

    policy: PolicyID
    agents: list[AgentID]
    return_mean: float | None
    return_ci95: Interval
    wins: int | None
    draws: int | None
    losses: int | None
    reports: NotRequired[Reports]


class EpisodeDocument(TypedDict):
    seed: int
    length: int
    returns: dict[AgentID, float | None]
    winner: AgentID | None
    cut: bool


class EvaluationDocument(TypedDict):
    episodes: int
    cut: int
    max_steps: int
    distinct_games: int
    length_mean: float
    length_ci95: Interval
    env_steps_per_s: float
    reproducible: bool
    notes: NotRequired[list[str]]  # older results have none
    agents: dict[AgentID, ReturnDocument]
    policies: dict[PolicyID, ReturnDocument]
    episode_results: list[EpisodeDocument]


@dataclass(frozen=True, slots=True)
class PairScore:
    """Score of one policy against another, in both agents' places."""

    wins: int
    draws: int
    losses: int
    distinct_games: int | None = None  # None: all of them

    @property
    def games(self) -> int:
        return self.wins + self.draws + self.losses

    @property
    def mean(self) -> float:
        return (self.wins + self.draws / 2) / self.games

    @property
    def interval(self) -> tuple[float, float]:
        found = estimate_score(self.wins, self.draws, self.losses, self.distinct_games)
        assert found.low is not None
        assert found.high is not None
        return found.low, found.high

    @property
    def words(self) -> str:
        low, high = self.interval
        return f"{self.mean:.0%} over {self.games} games, 95% interval {low:.0%} to {high:.0%}"


def score_of(result: TournamentDocument, policy: PolicyID, other: PolicyID) -> PairScore:
    wins = draws = losses = distinct = 0
    for pair in result["pairs"]:
        if {pair["first"], pair["second"]} == {policy, other}:
            distinct += pair["distinct_games"]
        if (pair["first"], pair["second"]) == (policy, other):
            wins, draws, losses = wins + pair["wins"], draws + pair["draws"], losses + pair["losses"]
        elif (pair["first"], pair["second"]) == (other, policy):
            wins, draws, losses = wins + pair["losses"], draws + pair["draws"], losses + pair["wins"]
    return PairScore(wins, draws, losses, distinct)


def first_agent_score(result: TournamentDocument) -> PairScore:
    """Return the score of the env's first agent, over all games."""
    pairs = result["pairs"]
    return PairScore(
        sum(pair["wins"] for pair in pairs),
        sum(pair["draws"] for pair in pairs),
        sum(pair["losses"] for pair in pairs),
        sum(pair["distinct_games"] for pair in pairs),
    )


def chosen_episodes(
    episodes: Sequence[tuple[int, EpisodeDocument]], agent: AgentID, which: str
) -> list[tuple[int, EpisodeDocument]]:
    """Return the episodes that the agent won, drew or lost, or all with the best, worst or longest first."""

    def value(item: tuple[int, EpisodeDocument]) -> float:
        found = item[1]["returns"].get(agent)
        return float("-inf") if found is None else float(found)

    match which:
        case "won":
            return [item for item in episodes if item[1]["winner"] == agent]
        case "lost":
            return [item for item in episodes if item[1]["winner"] not in (None, agent)]
        case "drawn":
            return [item for item in episodes if item[1]["winner"] is None]
        case "best":
            return sorted(episodes, key=value, reverse=True)
        case "worst":
            return sorted(episodes, key=value)
        case "longest":
            return sorted(episodes, key=lambda item: -item[1]["length"])
        case _:
            return list(episodes)
