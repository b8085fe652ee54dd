"""Opponents of a learner in self-play besides its drawn snapshots, and their envs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import BaseModel

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.reference import split_reference, without_search
from mosaic.envs.env import EnvSpec
from mosaic.envs.vector.encoding import action_code
from mosaic.learners.agent_roles import AgentRoles, snapshot_age
from mosaic.learners.ppo.options import PpoOptions
from mosaic.policies.registry import load_policy, parse_policy

RANDOM = "random"
_DRAWN = ("opponents", "selfplay_share", "league_sampling", "league_places")  # options about who plays by chance


class Guest(NamedTuple):
    """One env in which a foreign policy plays all agents but one."""

    agent: int  # index of the learner's agent
    policy: int  # index into `Opponents.foreign`


@dataclass(frozen=True, slots=True)
class Opponents:
    """Named opponents; if empty, snapshots are drawn by the league's rule."""

    ages: tuple[int, ...] = ()  # of self@-N: one frozen place each
    random: bool = False  # a frozen place whose every move is random
    foreign: tuple[PolicyID, ...] = ()  # played by controllers, in their own envs
    bound: Mapping[AgentID, int] = field(default_factory=dict)  # agent → index of the age that always plays it

    @property
    def strangers(self) -> tuple[PolicyID, ...]:
        """All opponents that are not snapshots, in the order of the recorded scores: the random place first."""
        return ((RANDOM,) if self.random else ()) + self.foreign

    @property
    def frozen(self) -> int:
        """Number of frozen places they take."""
        return len(self.ages) + self.random

    def places(self, drawn: int) -> int:
        """Return the total number of frozen places; `drawn` where no opponent was named."""
        return self.frozen if self.frozen or self.foreign else drawn


NO_OPPONENTS = Opponents()


def opponents_of(options: PpoOptions, roles: AgentRoles, spec: EnvSpec) -> Opponents:
    """Return the opponents; raise InputError where options, agents and policies do not fit."""
    if not roles.plan.self_play:
        if options.opponents:
            raise InputError("The option opponents belongs to self-play: add --policies self_play, or leave it out.")
        return NO_OPPONENTS
    choices = action_code(spec.action_spaces[roles.learners[0]]).head.kind == "categorical"
    if options.opponent_slip and not choices:
        raise InputError("opponent_slip needs actions to choose from, and here they are numbers: leave it out.")
    if roles.ages:
        check_bound(options, roles)
        ages = distinct_ages(roles)
        return Opponents(ages, bound={agent: ages.index(age) for agent, age in roles.ages.items()})
    return read_opponents(options.opponents, choices=choices)


def distinct_ages(roles: AgentRoles) -> tuple[int, ...]:
    """Return the ages of `self@-N` of all agents, each once."""
    return tuple(dict.fromkeys(roles.ages.values()))


def check_bound(options: BaseModel, roles: AgentRoles) -> None:
    """Raise InputError for options about drawn opponents where agents are bound to snapshots: nothing is drawn then."""
    if not roles.ages:
        return
    for name in _DRAWN:
        known = type(options).model_fields.get(name)
        if known is not None and (value := getattr(options, name)) != known.default:
            agent, age = next(iter(roles.ages.items()))
            raise InputError(
                f"{name}={value}: with --agent {agent}=self@-{age} that snapshot plays {agent} in every episode, the "
                f"learner plays {', '.join(roles.unbound)}, and no opponent is drawn. Leave out {name}, or self@-{age}."
            )


def read_opponents(named: Sequence[str], *, choices: bool = True) -> Opponents:
    """Parse the option; `choices` is false for continuous actions, which a place cannot draw at random."""
    asked: list[int] = []
    foreign: list[PolicyID] = []
    for text in named:
        age = snapshot_age(text)
        if age is not None:
            asked.append(age)
        elif text in foreign:
            raise InputError(f"opponents: '{text}' is duplicated. All opponents get the same number of envs.")
        else:
            _check(text)
            foreign.append(text)
    frozen = RANDOM in foreign and choices
    if frozen:
        foreign.remove(RANDOM)
    return Opponents(tuple(asked), frozen, tuple(foreign))


def _check(reference: PolicyID) -> None:
    name = split_reference(reference)[0]
    if name == "human":
        raise InputError(
            "opponents: a person cannot play while a policy trains: training plays thousands of steps in a second. "
            "Train without one, then type: mosaic play ENV --agent NAME=human --agent OTHER=run:latest"
        )
    if name.startswith("self"):
        raise InputError(f"opponents: '{reference}' is not a snapshot. Type self@-N, where N is its age in env steps.")
    parse_policy(reference)


def check_players(references: Iterable[PolicyID], spec: EnvSpec) -> None:
    """Raise InputError where a fixed policy cannot play here: another game, a missing program.

    Policies of runs are looked up when the run starts: only then is the store known. Whether one of a checkpoint fits
    depends on the agents it plays: see `check_played`.
    """
    for reference in dict.fromkeys(references):
        kind = split_reference(without_search(reference))[0]
        if kind != "run":
            load_policy(reference, spec, () if kind == "checkpoint" else None).close()


def check_played(played: Mapping[AgentID, Sequence[PolicyID]], spec: EnvSpec) -> None:
    """Do the same for all policies that play these agents, in one episode or another."""
    every = dict.fromkeys(reference for references in played.values() for reference in references)
    check_players(every, spec)
    for reference in every:
        if split_reference(reference)[0] == "checkpoint":
            load_policy(reference, spec, tuple(agent for agent in played if reference in played[agent])).close()


def enough_envs(opponents: Opponents, selfplay_share: float, agents: int, usual: int) -> int:
    """Return enough envs for every foreign policy to meet the learner in every agent's role."""
    if not opponents.foreign:
        return usual
    envs = usual
    while len(assign_guests(opponents, envs, selfplay_share, agents)) < agents * len(opponents.foreign):
        envs += 1
        if envs > usual + 100 * agents * len(opponents.foreign):
            break  # selfplay_share leaves none: `check_guests` reports it when they are needed
    return envs


def assign_guests(opponents: Opponents, envs: int, selfplay_share: float, agents: int) -> tuple[Guest, ...]:
    """Assign the last envs evenly to all opponents; the learner's agent changes from env to env."""
    foreign = len(opponents.foreign)
    if not foreign:
        return ()
    left = envs - round(envs * selfplay_share)
    own = left * opponents.frozen // (opponents.frozen + foreign)
    return tuple(Guest(k // foreign % agents, k % foreign) for k in range(left - own))


def check_guests(opponents: Opponents, guests: Sequence[Guest], envs: int) -> None:
    missing = sorted(set(range(len(opponents.foreign))) - {guest.policy for guest in guests})
    if missing:
        names = ", ".join(opponents.foreign[k] for k in missing)
        raise InputError(
            f"{envs} envs leave none for {names}: every opponent needs its own envs. "
            "Increase environment.num_envs or decrease selfplay_share."
        )


def played_by_env(
    opponents: Opponents, guests: Sequence[Guest], envs: int, agents: Sequence[AgentID]
) -> Mapping[int, Mapping[AgentID, PolicyID]]:
    """Return the agents that foreign policies play, by the number of the env."""
    return {
        envs - len(guests) + k: {
            agent: opponents.foreign[guest.policy] for number, agent in enumerate(agents) if number != guest.agent
        }
        for k, guest in enumerate(guests)
    }
