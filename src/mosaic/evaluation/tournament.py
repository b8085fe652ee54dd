"""Who beats whom: every policy against every other, in both seats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

from mosaic.config.environment import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.ids import EnvID, PolicyID
from mosaic.envs.catalog import make_env
from mosaic.envs.env import EnvSpec
from mosaic.evaluation.match_store import opened
from mosaic.evaluation.matches import SCORES, Match, MatchResult, schedule
from mosaic.evaluation.play import DEFAULT_MAX_STEPS, check_counts, play_games
from mosaic.evaluation.ratings import Rating, rate
from mosaic.evaluation.results import EpisodeResult
from mosaic.evaluation.statistics import Estimate, estimate_score
from mosaic.evaluation.table import Game, Plan
from mosaic.policies.controller import DEFAULT_TIME_LIMIT_S
from mosaic.policies.mapping import PolicyMapping
from mosaic.policies.registry import is_reproducible


@dataclass(frozen=True, slots=True)
class Tally:
    """Wins, draws and losses from one side."""

    wins: int
    draws: int
    losses: int

    @classmethod
    def of(cls, scores: Collection[float]) -> Tally:
        counts = [sum(score == value for score in scores) for value in SCORES.values()]
        return cls(*counts)

    @property
    def games(self) -> int:
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> Estimate:
        return estimate_score(self.wins, self.draws, self.losses)

    def to_json(self) -> dict[str, Any]:
        return {
            "games": self.games,
            "score_mean": self.score.mean,
            "score_ci95": self.score.ci95,
            "wins": self.wins,
            "draws": self.draws,
            "losses": self.losses,
        }


@dataclass(frozen=True, slots=True)
class Tournament:
    env: EnvID
    options: Mapping[str, Any]
    seed: int
    games: int  # of each ordered pair
    policies: tuple[PolicyID, ...]
    reproducible: bool
    results: tuple[MatchResult, ...]  # in the order of the schedule, whenever they were played

    def ratings(self) -> dict[PolicyID, Rating]:
        """Best first."""
        found = rate((result.match.first, result.match.second, result.score) for result in self.results)
        return dict(sorted(found.items(), key=lambda item: (-item[1].value, item[0])))

    def pair(self, first: PolicyID, second: PolicyID) -> Tally:
        """From the side of the first, who has the first seat."""
        return Tally.of([result.score for result in self._of(first, second)])

    def policy(self, policy: PolicyID) -> Tally:
        """Of one policy in both seats."""
        firsts = [result.score for result in self.results if result.match.first == policy]
        seconds = [1 - result.score for result in self.results if result.match.second == policy]
        return Tally.of([*firsts, *seconds])

    def distinct_games(self, first: PolicyID, second: PolicyID) -> int:
        """Where neither env nor policies draw lots, a pair's games are one game played again and again."""
        return len({result.game for result in self._of(first, second)})

    def to_json(self) -> dict[str, Any]:
        pairs = list(permutations(self.policies, 2))
        return {
            "env": self.env,
            "options": dict(self.options),
            "seed": self.seed,
            "games": self.games,
            "games_total": len(self.results),
            "distinct_games": sum(self.distinct_games(*pair) for pair in pairs),
            "cut": sum(result.cut for result in self.results),
            "reproducible": self.reproducible,
            "policies": [
                {"policy": policy, "rating": rating.value, "rating_sd": rating.sd, **self.policy(policy).to_json()}
                for policy, rating in self.ratings().items()
            ],
            "pairs": [
                {
                    "first": first,
                    "second": second,
                    **self.pair(first, second).to_json(),
                    "distinct_games": self.distinct_games(first, second),
                }
                for first, second in pairs
            ],
        }

    def _of(self, first: PolicyID, second: PolicyID) -> list[MatchResult]:
        return [result for result in self.results if result.match[:2] == (first, second)]


def tournament(
    env: EnvID | EnvironmentConfig,
    policies: Sequence[PolicyID],
    *,
    games: int = 10,
    seed: int = 0,
    num_workers: int = 1,
    max_steps: int | None = None,
    time_limit_s: float | None = DEFAULT_TIME_LIMIT_S,
    store: Path | None = None,
    on_game: Callable[[MatchResult], None] | None = None,
) -> Tournament:
    """A round robin of a game for two, with `games` games per ordered pair: the first of a pair has the first seat.

    `store` keeps every finished game; asked again with the same store, the tournament goes on where it was stopped.
    `on_game` is told of every game once, of those already in the store first.
    """
    max_steps = DEFAULT_MAX_STEPS if max_steps is None else max_steps
    check_counts(games=games, num_workers=num_workers, max_steps=max_steps)
    _check_policies(policies)
    with closing(make_env(env)) as made:
        spec = made.spec
        _check_env(spec)
        reproducible = spec.facts.reproducible and all([is_reproducible(policy) for policy in policies])
        pairs = list(permutations(policies, 2))
        seats = tuple(PolicyMapping(tuple(zip(spec.possible_agents, pair, strict=True))) for pair in pairs)
        plan = Plan(spec.facts.config, seats, seed, max_steps, time_limit_s)
        seeds = schedule(policies, games, seed)
        environment = plan.environment.model_dump(mode="json", exclude={"num_envs"})
        conditions = {
            "environment": environment,
            "policies": sorted(policies),
            "games": games,
            "seed": seed,
            "max_steps": max_steps,
        }
        with nullcontext() if store is None else opened(store, conditions, seeds) as kept:
            results = dict(kept.finished) if kept else {}
            if on_game is not None:
                for result in results.values():
                    on_game(result)
            matches = list(seeds)
            left = [
                Game(index, seeds[match], pairs.index((match.first, match.second)))
                for index, match in enumerate(matches)
                if match not in results
            ]
            with closing(play_games(plan, left, num_workers, made)) as arriving:
                for episode in arriving:
                    result = _match_result(matches[episode.index], episode, spec)
                    results[result.match] = result
                    if kept:
                        kept.add(result)
                    if on_game is not None:
                        on_game(result)
    return Tournament(
        env=spec.env_id,
        options=environment["options"],
        seed=seed,
        games=games,
        policies=tuple(policies),
        reproducible=reproducible,
        results=tuple(results[match] for match in seeds),
    )


def _match_result(match: Match, episode: EpisodeResult, spec: EnvSpec) -> MatchResult:
    assert episode.outcomes is not None  # the env is competitive
    score = SCORES[episode.outcomes[spec.possible_agents[0]]]
    return MatchResult(match, episode.seed, score, episode.length, episode.cut, episode.game)


def _check_policies(policies: Sequence[PolicyID]) -> None:
    if isinstance(policies, str) or len(policies) < 2:
        raise InputError("A tournament needs at least two policies, for example: random minimax.")
    twice = [policy for policy in dict.fromkeys(policies) if list(policies).count(policy) > 1]
    if twice:
        raise InputError(f"'{twice[0]}' stands twice in the tournament. Name every policy once.")


def _check_env(spec: EnvSpec) -> None:
    agents = spec.possible_agents
    if len(agents) == 2 and spec.facts.competitive:
        return
    if len(agents) != 2:
        reason = f"it has {len(agents) or 'no fixed number of'} agent{'s' * (len(agents) != 1)}, a tournament pairs two"
    else:
        reason = "nobody wins in it: its agents have returns, but no outcome"
    raise InputError(
        f"{spec.env_id} cannot hold a tournament: {reason}. "
        "Games that can: classic/tictactoe_v3, classic/connect_four_v3, classic/chess_v6 and others of `mosaic envs "
        f"classic`. To compare returns, type: mosaic evaluate {spec.env_id} --agent '*=POLICY'"
    )
