"""Agent mapping of a training run: which agents learn which policy, and which are played by fixed policies."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TypeAlias

from pydantic import TypeAdapter

from mosaic.config.run import RunConfig
from mosaic.config.sections import PolicyConfiguration
from mosaic.core.errors import InputError, unknown
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.plugins import plugins
from mosaic.core.reference import split_reference
from mosaic.envs.env import EnvSpec
from mosaic.envs.vector.encoding import ActionHead, action_code, row_code
from mosaic.envs.vector.layout import VectorShape
from mosaic.learners.episode_mapping import EpisodeMapping, ask_ahead, check_varying
from mosaic.learners.trained_policies import read_trained
from mosaic.policies.mapping import PolicyMapping
from mosaic.policies.registry import is_table_file, parse_policy


@dataclass(frozen=True, slots=True)
class TrainingPlan:
    """Policies of a run, numbered in the order of `names`."""

    names: tuple[str, ...]
    policy_of: tuple[int, ...]  # for each agent of the vector env
    trained: tuple[bool, ...]  # for each policy
    central: bool = False  # one critic, which sees all agents
    self_play: bool = False  # one policy for all agents, and a league of its past versions
    varying: tuple[tuple[int, ...], ...] = ()  # all policies of each agent, if they change from episode to episode

    def policies_of(self, agent: int) -> tuple[int, ...]:
        """Return the policies that may act for an agent of the vector env."""
        return self.varying[agent] if self.varying else (self.policy_of[agent],)

    def agents_of(self, policy: int, agents: Sequence[AgentID]) -> tuple[AgentID, ...]:
        return tuple(agent for number, agent in enumerate(agents) if policy in self.policies_of(number))

    def width_of(self, policy: int, shape: VectorShape) -> int:
        return shape.widths[self._first_agent(policy)]

    def head_of(self, policy: int, shape: VectorShape) -> ActionHead:
        return shape.heads[self._first_agent(policy)]

    def _first_agent(self, policy: int) -> int:
        return next(agent for agent in range(len(self.policy_of)) if policy in self.policies_of(agent))

    @property
    def shares_critic(self) -> bool:
        """Return whether several policies learn with one critic."""
        return self.central and sum(self.trained) > 1

    def uniform(self, shape: VectorShape) -> bool:
        """Return whether one architecture fits all policies."""
        return len(set(shape.widths)) == 1 and len(set(shape.heads)) == 1


SHARED_ACTOR = "shared_actor"  # option of workers that train with a shared critic
_SNAPSHOT = re.compile(r"self@-(\d{1,18})")
_MISSPELT = 0.75  # similarity to a kind of policy above which a name is taken for a misspelt kind
_NAME = re.compile(r"[A-Za-z0-9_][\w .-]*")

# Names of the policies of learning agents to which no rule gives one.
DefaultNames: TypeAlias = Callable[[PolicyConfiguration, Sequence[AgentID], EnvSpec], Mapping[AgentID, str]]


@dataclass(frozen=True, slots=True)
class AgentRoles:
    plan: TrainingPlan
    learners: tuple[AgentID, ...]  # the agents of the plan
    played: Mapping[AgentID, PolicyID]  # by controllers that do not learn
    ages: Mapping[AgentID, int]  # of `self@-N`: agents of the plan that a snapshot of this age always plays
    trained_by_batch: str | None = None  # function of (policy, batch) that chooses the policies to train
    episodes: EpisodeMapping | None = None  # if policies that learn change from episode to episode
    played_episodes: EpisodeMapping | None = None  # if policies in `played` do; those are of the first episode

    @property
    def every_played(self) -> Mapping[AgentID, tuple[PolicyID, ...]]:
        """All fixed policies of each agent that does not learn."""
        if self.played_episodes is not None:
            return self.played_episodes.known
        return {agent: (policy,) for agent, policy in self.played.items()}

    @property
    def people(self) -> tuple[AgentID, ...]:
        """Agents that people play, through programs that own the env."""
        return tuple(agent for agent, policy in self.played.items() if split_reference(policy)[0] == "human")

    @property
    def unbound(self) -> tuple[AgentID, ...]:
        """Agents of the plan that the learner may play."""
        return tuple(agent for agent in self.learners if agent not in self.ages)


def snapshot_age(policy: str) -> int | None:
    """Return N of `self@-N`, the age of a snapshot in env steps; None for any other policy."""
    found = _SNAPSHOT.fullmatch(policy)
    return int(found[1]) if found else None


def read_agent_roles(config: RunConfig, spec: EnvSpec, *, honours_batches: bool = False) -> AgentRoles:
    """Read the mapping for workers that train networks; raise InputError where it does not fit the env."""
    roles = read_mapping(config, spec, honours_batches=honours_batches, honours_episodes=True)
    _check_agents(roles.plan, roles.learners, spec)
    return roles


def read_mapping(
    config: RunConfig,
    spec: EnvSpec,
    default_names: DefaultNames | None = None,
    *,
    honours_batches: bool = False,
    honours_episodes: bool = False,
) -> AgentRoles:
    """Read `agents`, `policy_configuration` and `policies_to_train`; raise InputError for what is not supported.

    `default_names` replaces the names that networks get where no rule gives one. `honours_batches`: the worker calls a
    function of (policy, batch) with every batch. `honours_episodes`: it changes the policies of agents from episode to
    episode, as `AgentRoles.episodes` and `AgentRoles.played_episodes` say.
    """
    agents = spec.possible_agents
    if not agents:
        raise InputError(f"{spec.env_id} does not know its agents in advance, but a learner needs to.")
    paradigm: PolicyConfiguration = config.policy_configuration or "parameter_sharing"
    said = _said(config, agents)
    played: dict[AgentID, PolicyID] = {}
    named: dict[AgentID, str] = {}
    ages: dict[AgentID, int] = {}
    for agent, policies in said.items():
        _check_policies(agent, policies, config, honours_episodes=honours_episodes)
        policy = policies[0]
        age = snapshot_age(policy)
        if age is not None:
            ages[agent] = age
        elif _is_fixed(policy):
            played[agent] = policy
        else:
            named[agent] = policy
    learners = tuple(agent for agent in agents if agent not in played)
    if not learners:
        raise InputError(
            f"There is nothing to learn: every agent of {spec.env_id} has a fixed policy. Leave one --agent out."
        )
    if paradigm == "self_play" and len(learners) < 2:
        raise InputError(
            f"In self-play at least two agents learn, but here only {learners[0]} does. "
            "Add --policies parameter_sharing."
        )
    if ages and paradigm != "self_play":
        raise InputError("self@-N is an opponent in self-play: add --policies self_play.")
    if len(ages) == len(learners):
        bound = ", ".join(f"{agent}=self@-{age}" for agent, age in ages.items())
        raise InputError(
            f"There is nothing to learn: a snapshot plays every agent that could learn ({bound}). "
            "Leave one --agent out: the learner then plays that agent."
        )
    default = (default_names or _network_names)(paradigm, learners, spec)
    if _shares_actor(config, paradigm):
        default = group_names(learners, spec)
    plan = _plan(paradigm, learners, named, default)
    episodes, played_episodes = (_changing(config, said, each) for each in (learners, tuple(played)))
    if episodes is not None:
        plan = _varying_plan(plan, episodes, learners)
    chosen = read_trained(config.policies_to_train, plan.names, honours_batches=honours_batches)
    plan = replace(plan, trained=chosen.trained)
    return AgentRoles(plan, learners, played, ages, chosen.by_batch, episodes, played_episodes)


def _check_policies(agent: AgentID, policies: Sequence[PolicyID], config: RunConfig, *, honours_episodes: bool) -> None:
    """Raise InputError for policies that an agent cannot have while training."""
    for policy in policies:
        if split_reference(policy)[0] == "human":
            if config.environment.family == "external" and len(policies) == 1:
                continue  # the program reports what the person does
            raise InputError(
                f"A person cannot play {agent} while a policy trains: training plays thousands of steps in a second. "
                "Train without it, then type: mosaic play ENV --agent NAME=human --agent OTHER=run:latest. To learn "
                "from what people do, type --algo dagger --set training.params.expert=human --demo NAME; or train on "
                "games with a person: mosaic train external:PORT --set environment.options.env="
                f"{config.environment.id} --agent {agent}=human, which waits for a program that reports what the "
                "person does (docs/external.md)"
            )
        if _is_fixed(policy):
            parse_policy(policy)  # rejects unknown options
        elif snapshot_age(policy) is None:
            _check_name(policy, config.policies_to_train)
    if len(policies) == 1:
        return
    assert isinstance(config.agents, str), "rules give an agent one policy"
    check_varying(config.agents, agent, policies, [policy for policy in policies if _is_fixed(policy)])
    if not honours_episodes:
        raise InputError(
            f"{config.agents} gives {agent} different policies in different episodes ({', '.join(sorted(policies))}); "
            "with this worker an agent keeps its policy while training. Train with --worker native or rllib."
        )


def _changing(
    config: RunConfig, said: Mapping[AgentID, tuple[PolicyID, ...]], agents: Sequence[AgentID]
) -> EpisodeMapping | None:
    """Return the mapping of agents if a function gives one of them different policies in different episodes."""
    if not isinstance(config.agents, str) or all(len(said[agent]) == 1 for agent in agents):
        return None
    return EpisodeMapping(config.agents, {agent: said[agent] for agent in agents})


def _varying_plan(plan: TrainingPlan, episodes: EpisodeMapping, learners: Sequence[AgentID]) -> TrainingPlan:
    if plan.central or plan.self_play:
        raise InputError(
            "Policies that change from episode to episode train with --policies parameter_sharing or independent, not "
            f"{'self_play' if plan.self_play else 'shared_value_function'}."
        )
    names = tuple(dict.fromkeys((*plan.names, *(name for agent in learners for name in episodes.known[agent]))))
    varying = tuple(tuple(names.index(name) for name in episodes.known[agent]) for agent in learners)
    return replace(plan, names=names, trained=(True,) * len(names), varying=varying)


def _is_fixed(policy: str) -> bool:
    """Return whether this refers to an existing policy, which does not learn here."""
    return split_reference(policy)[0] in plugins("mosaic.policies") or is_table_file(policy)


def leaves_self_play(config: RunConfig, spec: EnvSpec) -> bool:
    """Return whether at least two agents learn, so that self-play is possible with these rules."""
    fixed = [policies for policies in _said(config, spec.possible_agents).values() if _is_fixed(policies[0])]
    return len(spec.possible_agents) - len(fixed) >= 2


def _check_name(policy: str, trained: tuple[str, ...] | str | None) -> None:
    """Reject names that are neither a fixed policy nor valid for a new one: misspelt or unknown kinds."""
    if policy.startswith("self@"):
        raise InputError(f"'{policy}' is not a snapshot. Type self@-N, where N is its age in env steps: self@-10000.")
    known = plugins("mosaic.policies")
    if isinstance(trained, tuple) and policy in trained and ":" not in policy:
        return  # the name is given in two places, so it is intended
    near = get_close_matches(split_reference(policy)[0].casefold(), known, n=1, cutoff=_MISSPELT)
    if near or not _NAME.fullmatch(policy):
        advice = "" if ":" in policy else f"To train a policy of that name, list it in policies_to_train: [{policy}]."
        raise unknown("policy", policy, known, advice)


def _said(config: RunConfig, agents: Sequence[AgentID]) -> dict[AgentID, tuple[PolicyID, ...]]:
    """Return the policies that the rules give each agent; others learn according to the policy configuration.

    Only a function gives an agent several, in different episodes; the first is that of the first episode.
    """
    if isinstance(config.agents, str):
        return ask_ahead(config.agents, agents)
    rules = PolicyMapping.of(config.agents)
    everybody = PolicyMapping((*rules.rules, ("*", "")))
    everybody.check(agents)
    policies = {agent: everybody.key_of(agent).policy for agent in agents}
    return {agent: (policy,) for agent, policy in policies.items() if policy}


def _plan(
    paradigm: PolicyConfiguration,
    learners: tuple[AgentID, ...],
    named: Mapping[AgentID, str],
    default: Mapping[AgentID, str],
) -> TrainingPlan:
    if paradigm == "self_play":
        for agent, name in ((agent, name) for agent, name in named.items() if name != default[agent]):
            raise InputError(
                f"There is no policy named '{name}' for {agent} to be played by, and in self-play one policy learns "
                f"for all agents. Known: {', '.join(plugins('mosaic.policies'))}. Leave --agent out, or train a policy "
                f"named '{name}' with --policies parameter_sharing or independent."
            )
    central = paradigm == "shared_value_function"
    policy = [named.get(agent, default[agent]) for agent in learners]
    names = tuple(dict.fromkeys(policy))
    numbers = tuple(names.index(name) for name in policy)
    return TrainingPlan(names, numbers, (True,) * len(names), central, self_play=paradigm == "self_play")


def _network_names(paradigm: PolicyConfiguration, learners: Sequence[AgentID], spec: EnvSpec) -> Mapping[AgentID, str]:
    if paradigm == "self_play":
        return dict.fromkeys(learners, "learner")
    named = spec.facts.policy_names
    if paradigm in ("independent", "shared_value_function"):
        alone = {agent for agent in named if list(named.values()).count(named[agent]) == 1}
        return {agent: named[agent] if agent in alone else agent for agent in learners}
    return group_names(learners, spec)


def _shares_actor(config: RunConfig, paradigm: PolicyConfiguration) -> bool:
    """Return whether agents with equal spaces share one actor beside the shared critic: the option `shared_actor`."""
    wanted = TypeAdapter(bool).validate_python(config.training.params.get(SHARED_ACTOR, False))
    if wanted and paradigm != "shared_value_function":
        raise InputError(
            f"{SHARED_ACTOR}=true: only shared_value_function has actors of their own beside a shared critic, and this "
            f"run trains with {paradigm}. Leave it out, or add --policies shared_value_function."
        )
    return wanted


def _check_agents(plan: TrainingPlan, learners: Sequence[AgentID], spec: EnvSpec) -> None:
    """Check that agents of one policy have equal spaces, and that a centralised critic sees all agents at once."""
    looks = [row_code(spec.observation_spaces[agent]).width for agent in learners]
    heads = [action_code(spec.action_spaces[agent]).head for agent in learners]
    played = [(number, policy) for number in range(len(learners)) for policy in plan.policies_of(number)]
    for number, policy in played:
        first, agent = next(one for one, each in played if each == policy), learners[number]
        if (looks[number], heads[number]) != (looks[first], heads[first]):
            raise InputError(
                f"The agents {learners[first]} and {agent} cannot share the policy '{plan.names[policy]}': "
                "their observations or actions differ. Use --policies independent, or map them to policies "
                f"of their own: --agent {learners[first]}=NAME --agent {agent}=OTHER."
            )
    if plan.central and spec.facts.turn_based:
        raise InputError(
            "shared_value_function needs agents that act at the same time; in a turn-based env no other "
            "agent's observation is known. Use --policies parameter_sharing, independent or self_play."
        )


def group_names(learners: Sequence[AgentID], spec: EnvSpec, shared: str = "shared") -> dict[AgentID, str]:
    """Return the names that the env declares, or else one for all agents with equal spaces.

    Where there are several kinds of agents, policies are named after them.
    """
    if spec.facts.policy_names:
        return {agent: spec.facts.policy_names[agent] for agent in learners}
    kinds: dict[str, list[AgentID]] = {}
    for agent in learners:
        kinds.setdefault(f"{spec.observation_spaces[agent]} {spec.action_spaces[agent]}", []).append(agent)
    if len(kinds) == 1:
        return dict.fromkeys(learners, shared)
    stems = [re.sub(r"_?\d+$", "", members[0]) for members in kinds.values()]
    unique = len(set(stems)) == len(stems)
    names = stems if unique else [members[0] for members in kinds.values()]
    return {agent: name for name, members in zip(names, kinds.values(), strict=True) for agent in members}
