"""Evaluation of policies during training: their best actions, on seeds that training never uses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, TypeAlias

from mosaic.config.run import RunConfig
from mosaic.core.ids import AgentID, JsonObject, PolicyID
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env, EnvSpec
from mosaic.evaluation.run_games import DEFAULT_MAX_STEPS, distinct_seeds
from mosaic.policies.controller import PolicyController
from mosaic.runners.local import LocalEnvRunner
from mosaic.runners.screen import Screen, Shot
from mosaic.workers.evaluation_record import (
    LEAGUE,
    LineUp,
    Participant,
    PlayedEpisode,
    evaluation_record,
    played_episode,
)

if TYPE_CHECKING:
    from mosaic.learners.agent_roles import AgentRoles
    from mosaic.learners.episode_mapping import EpisodeMapping
    from mosaic.learners.league import League, Snapshot

MakeController: TypeAlias = Callable[[EnvSpec, AgentID], PolicyController]
MakePolicy: TypeAlias = Callable[[EnvSpec, AgentID, PolicyID], PolicyController]

OCCASION = "evaluation"  # label of the frames for viewers
ASK_EVERY_S = 0.002  # a step of a small env takes microseconds; asking at each would be a twentieth of that
_LEARNER = "the policy that learns, for {agent}"  # cannot clash with a policy's name
_POLICY = "{policy}, which learns, for {agent}"
_SNAPSHOT = "the snapshot {name}, for {agent}"
_RANDOM = "random"


@dataclass(frozen=True, slots=True)
class LeaguePlayers:
    """Snapshots of the learner, which play against it in an evaluation of self-play."""

    names: Sequence[PolicyID]  # from old to new
    make: Callable[[EnvSpec, AgentID, PolicyID], PolicyController]  # of the snapshot of this name
    bound: Mapping[AgentID, tuple[PolicyID, PolicyID]] = field(default_factory=dict)  # agent → `self@-N`, its snapshot


@dataclass(frozen=True, slots=True)
class PoliciesByEpisode:
    """Policies of agents in an evaluation that a mapping function changes from episode to episode.

    Episodes of an evaluation are numbered from 0, like those of the training.
    """

    learners: EpisodeMapping | None
    fixed: EpisodeMapping | None
    make: MakePolicy  # controller of a policy that learns


def policies_by_episode(roles: AgentRoles, make: MakePolicy) -> PoliciesByEpisode | None:
    """Return the policies if a function changes any."""
    if roles.episodes is None and roles.played_episodes is None:
        return None
    return PoliciesByEpisode(roles.episodes, roles.played_episodes, make)


def league_players(
    league: League | None,
    roles: AgentRoles,
    env_steps: int,
    make: Callable[[EnvSpec, AgentID, Snapshot], PolicyController],
) -> LeaguePlayers | None:
    """Return the snapshots of a league, and those that now play the agents bound to an age."""
    if league is None:
        return None
    learner = roles.plan.names[0]
    snapshots = {snapshot_name(learner, snapshot): snapshot for snapshot in league.snapshots}
    bound = {
        agent: (f"self@-{age}", snapshot_name(learner, league.aged(age, env_steps)))
        for agent, age in (roles.ages.items() if snapshots else ())
    }
    return LeaguePlayers(tuple(snapshots), lambda spec, agent, name: make(spec, agent, snapshots[name]), bound)


def snapshot_name(learner: PolicyID, snapshot: Snapshot) -> PolicyID:
    return f"{learner}@{snapshot.env_steps}"


def evaluate_learners(
    config: RunConfig,
    make: MakeController,
    fixed: Mapping[AgentID, PolicyID] | None = None,
    screen: Screen | None = None,
    stopped: Callable[[], object] = lambda: None,
    *,
    policy_of: Mapping[AgentID, PolicyID] | None = None,
    league: LeaguePlayers | None = None,
    by_episode: PoliciesByEpisode | None = None,
) -> Iterator[JsonObject]:
    """Yield one record per opponent, or one of the learners among themselves.

    Opponents are those of `evaluation.opponents`. In self-play without any the learner plays against `league`, or
    against `random` if there is none. `fixed` are the policies of agents that do not learn; if one agent learns,
    opponents replace them. `policy_of` names the policies of the other agents. With `by_episode`, fixed policies and
    those that learn are of each episode. `screen` shows the episodes; steps and
    episodes are counted from 0 for each opponent. `stopped` is called between any two steps; an interrupted evaluation
    is not reported.
    """
    shown = None if screen is None else _AsEvaluation(screen)
    with closing(make_env(config.environment)) as env:
        names = _policy_names(config, env.spec) if policy_of is None else policy_of
        line_ups = _LineUps(env.spec, fixed or {}, names, league)
        make_policy = by_episode.make if by_episode is not None else lambda spec, agent, policy: make(spec, agent)
        episodes = _EvaluationEpisodes(env, make_policy, league, shown, stopped)
        seeds = distinct_seeds(config.evaluation.episodes, config.seed, "evaluation")
        for opponent in _opponents(config, env.spec, league):
            played: list[PlayedEpisode] = []
            for whole, every in line_ups.against(opponent, len(seeds)):
                for line_up, numbers in _by_episode(whole, every, by_episode):
                    numbered = [(number, seeds[number]) for number in numbers]
                    played += episodes.play(line_up, numbered)
            if stopped():
                return
            yield evaluation_record(played, env.spec.possible_agents, opponent)


def _opponents(config: RunConfig, spec: EnvSpec, league: LeaguePlayers | None) -> tuple[PolicyID | None, ...]:
    """Return the opponents, one after another; None: the learners among themselves."""
    if len(spec.possible_agents) == 1:
        return (None,)
    if config.evaluation.opponents or config.policy_configuration != "self_play":
        return config.evaluation.opponents or (None,)
    return (LEAGUE if league is not None and league.names else _RANDOM,)


def _policy_names(config: RunConfig, spec: EnvSpec) -> Mapping[AgentID, PolicyID]:
    from mosaic.learners.agent_roles import read_mapping  # imports numba

    roles = read_mapping(config, spec)
    return {agent: roles.plan.names[k] for agent, k in zip(roles.learners, roles.plan.policy_of, strict=True)}


def _by_episode(
    line_up: LineUp, numbers: Sequence[int], by_episode: PoliciesByEpisode | None
) -> Iterator[tuple[LineUp, Sequence[int]]]:
    """Yield the line-ups of these episodes, each with the numbers of those that it plays."""
    if by_episode is None:
        yield line_up, numbers
        return
    found: dict[tuple[PolicyID, ...], tuple[LineUp, list[int]]] = {}
    for number in numbers:
        here = {agent: _in_episode(agent, one, number, by_episode) for agent, one in line_up.items()}
        found.setdefault(tuple(one.source for one in here.values()), (here, []))[1].append(number)
    yield from found.values()


def _in_episode(agent: AgentID, one: Participant, number: int, by_episode: PoliciesByEpisode) -> Participant:
    """Return the policy of an agent; an opponent of the evaluation or a snapshot plays in all of its episodes."""
    learners, fixed = by_episode.learners, by_episode.fixed
    if one.learns:
        policy = one.policy if learners is None else learners.policy(agent, number)
        return Participant(policy, _POLICY.format(policy=policy, agent=agent), learns=True)
    if fixed is not None and not one.snapshot and not one.replaces:
        policy = fixed.policy(agent, number)
        return Participant(policy, policy)
    return one


class _LineUps:
    """Policies of all agents, episode by episode."""

    def __init__(
        self,
        spec: EnvSpec,
        fixed: Mapping[AgentID, PolicyID],
        policy_of: Mapping[AgentID, PolicyID],
        league: LeaguePlayers | None,
    ) -> None:
        bound = {} if league is None else league.bound
        agents = [agent for agent in spec.possible_agents if agent not in fixed and agent not in bound]
        self._learners = {
            agent: Participant(policy_of[agent], _LEARNER.format(agent=agent), learns=True) for agent in agents
        }
        self._fixed = {agent: Participant(policy, policy) for agent, policy in fixed.items()}
        self._bound = {agent: _snapshot(agent, name, asked) for agent, (asked, name) in bound.items()}
        self._names = () if league is None else tuple(league.names)

    def against(self, opponent: PolicyID | None, episodes: int) -> Iterator[tuple[LineUp, range]]:
        """Yield every line-up against this opponent, with the numbers of its episodes."""
        numbers, everybody = range(episodes), {**self._fixed, **self._bound, **self._learners}
        if opponent is None or (opponent == LEAGUE and self._bound):
            yield everybody, numbers
        elif self._bound or len(self._learners) == 1:
            replaced = self._bound or self._fixed
            yield everybody | dict.fromkeys(replaced, _opponent(opponent)), numbers
        else:
            for place, learner in enumerate(self._learners):  # each role in turn: moving first is an advantage
                others = [agent for agent in self._learners if agent != learner]
                turns = numbers[place :: len(self._learners)]
                for number, players in enumerate(rivals := list(self._rivals(opponent, others, len(turns)))):
                    yield {**everybody, **players}, turns[number :: len(rivals)]

    def _rivals(self, opponent: PolicyID, agents: Sequence[AgentID], most: int) -> Iterator[LineUp]:
        """Yield the policies of the other agents: one opponent, or at most `most` snapshots of all ages."""
        if opponent != LEAGUE:
            yield dict.fromkeys(agents, _opponent(opponent))
            return
        for name in spread(self._names, most):
            yield {agent: _snapshot(agent, name) for agent in agents}


def _opponent(policy: PolicyID) -> Participant:
    return Participant(policy, policy, replaces=True)


def _snapshot(agent: AgentID, name: PolicyID, policy: PolicyID = LEAGUE) -> Participant:
    return Participant(policy, _SNAPSHOT.format(name=name, agent=agent), snapshot=name)


def spread(names: Sequence[PolicyID], most: int) -> list[PolicyID]:
    """Return at most `most` names, from the first to the last at equal distances; at least the last."""
    count = min(len(names), most)
    if count < 2:
        return list(names[-1:])
    return [names[place * (len(names) - 1) // (count - 1)] for place in range(count)]


class _EvaluationEpisodes:
    """Env of an evaluation, and the controllers that play there."""

    def __init__(
        self,
        env: Env,
        make: MakePolicy,
        league: LeaguePlayers | None,
        screen: Screen | None,
        stopped: Callable[[], object],
    ) -> None:
        self._env, self._make, self._league, self._screen, self._stopped = env, make, league, screen, stopped
        self._controllers: dict[PolicyID, PolicyController] = {}  # of all that is not loaded by its reference

    def play(self, line_up: LineUp, numbered: Sequence[tuple[int, int]]) -> Iterator[PlayedEpisode]:
        """Play episodes of these numbers and seeds until stopped."""
        for agent, one in line_up.items():
            self._prepare(agent, one)
        mapping = {agent: line_up[agent].source for agent in self._env.spec.possible_agents}
        runner = LocalEnvRunner(self._env, mapping, controllers=self._controllers, screen=self._screen)
        with closing(runner.controllers):
            for number, seed in numbered:
                for _ in runner.turns(seed, episode=number, max_steps=DEFAULT_MAX_STEPS):
                    if self._stopped():
                        return
                yield played_episode(line_up, runner.record, self._env.spec)

    def _prepare(self, agent: AgentID, one: Participant) -> None:
        if one.source in self._controllers:
            return
        if one.learns:
            self._controllers[one.source] = self._make(self._env.spec, agent, one.policy)
        elif one.snapshot and self._league is not None:
            self._controllers[one.source] = self._league.make(self._env.spec, agent, one.snapshot)


class _AsEvaluation:
    """Screen of a run, labelled as evaluation, that showed the training before."""

    def __init__(self, screen: Screen) -> None:
        self._screen, self._ask_at_s = screen, 0.0

    def wanted(self) -> bool:
        now_s = perf_counter()
        if now_s < self._ask_at_s:
            return False
        self._ask_at_s = now_s + ASK_EVERY_S
        return self._screen.wanted()

    def show(self, shot: Shot) -> None:
        self._screen.show(replace(shot, occasion=OCCASION))

    def close(self) -> None:
        """Leave the screen open: training continues to use it."""
