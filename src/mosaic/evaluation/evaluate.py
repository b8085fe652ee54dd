"""Evaluation of a mapping from agents to policies in an env."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic
from typing import TYPE_CHECKING, Unpack

from mosaic.core.errors import InputError, MosaicError, check_keywords
from mosaic.core.ids import AgentID, EnvID, Json, JsonObject, PolicyID
from mosaic.envs.catalog import make_env
from mosaic.envs.env import EnvSpec
from mosaic.envs.objects import Environment, is_described, stored_code, stored_environment
from mosaic.evaluation.reports import ReportedNumber, merged, summarise
from mosaic.evaluation.results import EpisodeResult, csv_table, return_notes
from mosaic.evaluation.run_games import check_counts, distinct_seeds, most_steps, play_games
from mosaic.evaluation.statistics import Estimate, estimate_mean, finite_mean
from mosaic.evaluation.worker import (
    EvaluationPlan,
    GameTask,
    PlayOptions,
    check_record_folder,
    env_runners_asked,
    record_folder_asked,
)
from mosaic.policies.controller import DEFAULT_TIME_LIMIT_S
from mosaic.policies.mapping import AgentMapping, PolicyMapping, parse_mapping
from mosaic.policies.registry import add_code_of, is_reproducible, mapping_notes

if TYPE_CHECKING:
    from mosaic.runners.video import FilmCamera


@dataclass(frozen=True, slots=True)
class ReturnSummary:
    """Results of one agent (its policies joined by " | ") or of one policy."""

    policy: str
    agents: tuple[AgentID, ...]
    episodes: int  # those in which it took part
    returns: Estimate
    wins: int | None  # None where the env has no winner
    draws: int | None
    losses: int | None
    reports: Mapping[str, ReportedNumber] = field(default_factory=dict)  # of policies that report on their decisions

    def to_json(self) -> JsonObject:
        return {
            "policy": self.policy,
            "agents": list(self.agents),
            "episodes": self.episodes,
            "return_mean": self.returns.mean,
            "return_ci95": self.returns.ci95,
            "wins": self.wins,
            "draws": self.draws,
            "losses": self.losses,
            "reports": {name: number.to_json() for name, number in self.reports.items()},
        }


def by_agent(results: Sequence[EpisodeResult], first: Iterable[AgentID] = ()) -> dict[AgentID, ReturnSummary]:
    """Summarise results per agent.

    `first` gives the order of the agents; agents that are not known ahead follow.
    """
    agents = dict.fromkeys([*first, *(agent for result in results for agent in result.returns)])
    return {agent: _summary(results, [{agent} & result.returns.keys() for result in results]) for agent in agents}


def by_policy(results: Sequence[EpisodeResult]) -> dict[PolicyID, ReturnSummary]:
    """Summarise results per policy.

    A policy's agents within one episode are not independent: their mean is one value of its return.
    """
    policies = dict.fromkeys(policy for result in results for policy in result.policies.values())
    return {policy: _summary(results, [_agents_of(policy, result) for result in results]) for policy in policies}


def _agents_of(policy: PolicyID, result: EpisodeResult) -> set[AgentID]:
    return {agent for agent, its in result.policies.items() if its == policy}


def _summary(results: Sequence[EpisodeResult], chosen: Sequence[set[AgentID]]) -> ReturnSummary:
    """Summarise the chosen agents of each episode."""
    lived = [(result, agents) for result, agents in zip(results, chosen, strict=True) if agents]
    pairs = [(result, agent) for result, agents in lived for agent in result.returns if agent in agents]
    counts = Counter(result.outcomes[agent] for result, agent in pairs if result.outcomes is not None)
    competitive = any(result.outcomes is not None for result in results)
    distinct = len({result.distinct for result, _ in lived})
    return ReturnSummary(
        policy=" | ".join(dict.fromkeys(result.policies[agent] for result, agent in pairs)),
        agents=tuple(dict.fromkeys(agent for _, agent in pairs)),
        episodes=len(lived),
        returns=estimate_mean([_mean_return(result, agents) for result, agents in lived], distinct),
        wins=counts["win"] if competitive else None,
        draws=counts["draw"] if competitive else None,
        losses=counts["loss"] if competitive else None,
        reports=summarise(
            [merged(result.reports.get(agent, {}) for agent in agents) for result, agents in lived], distinct
        ),
    )


def _mean_return(result: EpisodeResult, agents: set[AgentID]) -> float:
    mean = finite_mean([result.returns[agent] for agent in agents])
    return math.nan if mean is None else mean


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Result of `evaluate`: every episode, and returns with confidence intervals per agent and policy."""

    env: EnvID
    options: Mapping[str, Json]
    seed: int
    max_steps: int
    num_env_runners: int
    reproducible: bool  # the same seed gives the same results, except for the times
    agents: Mapping[AgentID, ReturnSummary]
    policies: Mapping[PolicyID, ReturnSummary]
    episode_results: tuple[EpisodeResult, ...]
    notes: tuple[str, ...]  # for readers of the results, such as a policy playing in an env it was not trained in
    wall_time_s: float  # including making envs and starting processes

    @property
    def env_steps(self) -> int:
        return sum(result.length for result in self.episode_results)

    @property
    def agent_steps(self) -> int:
        return sum(result.agent_steps for result in self.episode_results)

    @property
    def env_steps_per_s(self) -> float:
        """Steps per second from the start of the first episode to the end of the last, over all processes."""
        start_s = min(result.span_s[0] for result in self.episode_results)
        end_s = max(result.span_s[1] for result in self.episode_results)
        return self.env_steps / max(end_s - start_s, 1e-9)

    @property
    def length(self) -> Estimate:
        return estimate_mean([result.length for result in self.episode_results], self.distinct_games)

    @property
    def distinct_games(self) -> int:
        """Number of different games; with deterministic env and policies, n episodes are one game played n times."""
        return len({result.distinct for result in self.episode_results})

    @property
    def cut(self) -> int:
        """Number of episodes stopped at max_steps."""
        return sum(result.cut for result in self.episode_results)

    @property
    def duration_mean_s(self) -> float:
        """Seconds that an episode took on average."""
        return sum(result.duration_s for result in self.episode_results) / len(self.episode_results)

    def to_csv(self) -> str:
        """Return a table with a row per episode: seed, length, seconds, winner, and each agent's return and policy."""
        return csv_table(self.episode_results)

    def to_json(self) -> JsonObject:
        length = self.length
        return {
            "env": self.env,
            "options": dict(self.options),
            "seed": self.seed,
            "episodes": len(self.episode_results),
            "max_steps": self.max_steps,
            "cut": self.cut,
            "env_steps": self.env_steps,
            "agent_steps": self.agent_steps,
            "env_steps_per_s": self.env_steps_per_s,
            "wall_time_s": self.wall_time_s,
            "num_env_runners": self.num_env_runners,
            "reproducible": self.reproducible,
            "distinct_games": self.distinct_games,
            "notes": list(self.notes),
            "length_mean": length.mean,
            "length_ci95": length.ci95,
            "duration_mean_s": self.duration_mean_s,
            "agents": {agent: summary.to_json() for agent, summary in self.agents.items()},
            "policies": {policy: summary.to_json() for policy, summary in self.policies.items()},
            "episode_results": [result.to_json() for result in self.episode_results],
        }


def evaluate(
    env: Environment,
    mapping: AgentMapping | Mapping[str, object] | Sequence[str],
    *,
    episodes: int = 100,
    seed: int = 0,
    num_env_runners: int = 1,
    on_episode: Callable[[EpisodeResult], None] | None = None,
    camera: FilmCamera | None = None,
    **options: Unpack[PlayOptions],
) -> Evaluation:
    """Play every episode with its own seed; the number and order of processes do not change the result.

    `env` is an id, an env object, or a class or function that makes one. `mapping` gives agents (or patterns) policies:
    references, the path of a saved table, a TabularLearner, or a function `f(observation, mask) -> action` or a factory
    of controllers. A function that a script or notebook defines is pickled, and plays as it was then.

    `on_episode` is called with each result as it arrives, in any order. `camera` films the first episodes.

    Options: `max_steps` (10,000) cuts episodes that never end, `time_limit_s` (60) is how long a policy may take for an
    action, None for any time. `record_dir` (None) keeps every episode for replay, `recorder` (None) in a
    demonstration. `screen` (None) shows episodes live, one at a time, as often as it asks for frames.
    """
    check_keywords(evaluate, options, PlayOptions)
    num_env_runners = env_runners_asked(num_env_runners, options)
    began, max_steps = monotonic(), most_steps(options)
    check_counts(episodes=episodes, num_env_runners=num_env_runners, max_steps=max_steps)
    limit_s, record_dir = options.get("time_limit_s", DEFAULT_TIME_LIMIT_S), record_folder_asked(options)
    if record_dir is not None:
        check_record_folder(record_dir)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="mosaic-policies-")))
        mapping, names = _with_saved_objects(mapping, folder)
        stack.enter_context(_called_by(names))
        add_code_of(mapping)
        if num_env_runners > 1 and not is_described(env):
            env = stored_environment(env, folder)
        made = make_env(env)
        if is_described(env) or isinstance(env, type):
            stack.callback(made.close)
        spec = made.spec
        notes = _check(mapping, spec)
        recorder = options.get("recorder")
        sink = None if recorder is None else stack.enter_context(recorder(spec))
        plan = EvaluationPlan(spec.facts.config, (mapping,), seed, max_steps, limit_s, record_dir, sink, names)
        games = [GameTask(index, child) for index, child in enumerate(distinct_seeds(episodes, seed, "episode"))]
        results: list[EpisodeResult] = []
        with closing(play_games(plan, games, num_env_runners, made, camera, options.get("screen"))) as arriving:
            for result in arriving:
                results.append(result)
                if on_episode is not None:
                    on_episode(result)
    results.sort(key=lambda result: result.index)
    policies = by_policy(results)
    return Evaluation(
        env=spec.env_id,
        options=plan.environment.model_dump(mode="json")["options"],
        seed=seed,
        max_steps=max_steps,
        num_env_runners=num_env_runners,
        reproducible=spec.facts.reproducible
        and all(is_reproducible(policy) for policy in policies if policy not in names.values()),
        agents=by_agent(results, spec.possible_agents),
        policies=policies,
        episode_results=tuple(results),
        notes=(*notes, *return_notes(results)),
        wall_time_s=monotonic() - began,
    )


def _with_saved_objects(
    mapping: AgentMapping | Mapping[str, object] | Sequence[str], folder: Path
) -> tuple[AgentMapping, dict[PolicyID, str]]:
    """Save learners and functions in `folder`; return a mapping of references and their display names."""
    if not isinstance(mapping, Mapping):
        return as_mapping(mapping), {}
    references, names = dict[str, PolicyID](), dict[PolicyID, str]()
    for number, (pattern, policy) in enumerate(mapping.items()):
        if isinstance(policy, str | PathLike):
            references[pattern] = str(policy)
        elif callable(save := getattr(policy, "save", None)):
            path = folder / f"{number}.safetensors"
            save(path)
            references[pattern], names[str(path)] = str(path), type(policy).__name__
        elif callable(policy):
            advice = "Put the function into a module, and name it: python:MODULE:NAME."
            references[pattern] = stored_code(policy, folder, advice)
            names[references[pattern]] = getattr(policy, "__name__", type(policy).__name__)
        else:
            raise InputError(
                f"{pattern}: a {type(policy).__name__} is not a policy. Give a reference such as 'random' or "
                "'run:latest', a function f(observation, mask) -> action, a TabularLearner, or the path of a table "
                "that it saved."
            )
    return PolicyMapping.of(references), names


@contextmanager
def _called_by(names: Mapping[PolicyID, str]) -> Iterator[None]:
    """Let errors call policies that were given as objects by their display names, not by temporary files."""
    try:
        yield
    except MosaicError as error:
        said = str(error)
        for reference, name in names.items():
            said = said.replace(reference, name)
        if said != str(error):
            error.args = (said,)
        raise


def as_mapping(mapping: AgentMapping | Mapping[str, PolicyID] | Sequence[str]) -> AgentMapping:
    """Build a mapping from {"player_0": "random"} or ["player_0=random"]; return a mapping object unchanged."""
    if isinstance(mapping, Mapping):
        return PolicyMapping.of(mapping)
    if isinstance(mapping, str):
        return parse_mapping([mapping])
    if isinstance(mapping, Sequence):
        return parse_mapping(mapping)
    if not hasattr(mapping, "key_of"):
        raise InputError(
            f"A {type(mapping).__name__} does not give agents policies. Give {{AGENT: POLICY}}: "
            "{'player_0': 'random'}, or {'*': POLICY} for all agents."
        )
    return mapping


def _check(mapping: AgentMapping, spec: EnvSpec) -> tuple[str, ...]:
    """Raise for misspelled or unsuitable policies before any process is started; return notes for the user."""
    mapping.check(spec.possible_agents)
    for agent in spec.possible_agents:
        is_reproducible(mapping.key_of(agent, 0).policy)
    return mapping_notes(mapping, spec)
