"""Recorded steps of policies as rows of their networks, from which imitation and offline algorithms learn."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Annotated, Protocol, TypeAlias

import numpy as np
from gymnasium.spaces import Space
from pydantic import Field

from mosaic.config.field_types import BASIC, Reference
from mosaic.config.run import RunConfig
from mosaic.config.sections import Section
from mosaic.core.errors import InputError, unknown
from mosaic.core.ids import AgentID, PolicyID
from mosaic.envs.env import EnvSpec
from mosaic.envs.vector.encoding import action_code, action_rows, row_code
from mosaic.learners.agent_roles import AgentRoles
from mosaic.models.engine import Bytes, Floats, Ints, StateArrays
from mosaic.runners.steps import flatten
from mosaic.runners.trajectories import Trajectory, pick

Recorded: TypeAlias = Sequence[tuple[int, Trajectory]]  # trajectories with the numbers of their episodes


class DatasetOptions(Section):
    dataset: Annotated[Reference | None, BASIC] = Field(
        None, description="Recorded steps to learn from: demo:NAME, minari:ID, or the folder of a Minari dataset."
    )


class DemonstrationOptions(DatasetOptions):
    controller_weights: Annotated[dict[str, float], BASIC] = Field(
        default_factory=dict,
        description="Weights of steps by the policy that chose them, such as {human: 1, '*': 0}; the first rule that "
        "fits counts, and steps that none fits have the weight 1.",
    )


@dataclass(frozen=True, slots=True)
class RecordedSteps:
    """Steps of one policy: rows of arrays, one trajectory after another."""

    seen: Floats  # [N + trajectories, D] observations, with the last one of each trajectory
    seen_mask: Bytes  # [N + trajectories, W] legal actions then; without rows where everything is legal
    place: Ints  # [N] of each step's observation among them; the next one follows
    act: Floats  # [N, parts]
    reward: Floats  # [N]
    terminated: Bytes  # [N]
    weight: Floats  # [N] as the controllers' rules say
    trajectory: Ints  # [N] number of the trajectory
    episode: Ints  # [N] number of the episode; trajectories of several agents are of one episode

    def __len__(self) -> int:
        return len(self.place)

    @property
    def obs(self) -> Floats:
        return self.seen[self.place]

    @property
    def mask(self) -> Bytes:
        return self.seen_mask[self.place] if len(self.seen_mask) else self.seen_mask

    @property
    def first(self) -> Bytes:
        """Mark the first step of each trajectory."""
        return np.append([1], np.diff(self.trajectory) != 0).astype(np.uint8)

    def returns(self, gamma: float) -> Floats:
        """Return the discounted sum of rewards from each step to the end of its trajectory."""
        found, total = np.zeros(len(self), np.float32), 0.0
        for row in range(len(self) - 1, -1, -1):
            last = row == len(self) - 1 or self.trajectory[row + 1] != self.trajectory[row]
            total = float(self.reward[row]) + (0.0 if last else gamma * total)
            found[row] = total
        return found


def read_recorded(
    recorded: Recorded, roles: AgentRoles, spec: EnvSpec, rules: Mapping[str, float], dataset: str
) -> tuple[RecordedSteps, ...]:
    """Return the steps of each policy that learns; raise InputError if the dataset does not fit the env.

    Steps of agents that do not learn are left out.
    """
    check_rules(rules, (label for _, each in recorded for label in each.controllers), dataset)
    check_dataset([*{each.agent: each for _, each in recorded}.values()], roles, spec, dataset)
    if len(spec.possible_agents) == 1:  # a dataset that others recorded may have another name for its agent
        recorded = [(number, replace(each, agent=roles.learners[0])) for number, each in recorded]
    found = []
    for policy, name in enumerate(roles.plan.names):
        agents = roles.plan.agents_of(policy, roles.learners)
        own = [(number, each) for number, each in recorded if each.agent in agents and len(each)]
        if not own:
            raise InputError(f"dataset={dataset} has no episode from which '{name}' would learn. Record some.")
        found.append(encode_steps(own, rules))
    return tuple(found)


class AgentSpaces(Protocol):
    """Spaces of an agent in a dataset."""

    @property
    def agent(self) -> AgentID: ...

    @property
    def observation_space(self) -> Space[object]: ...

    @property
    def action_space(self) -> Space[object]: ...


def check_dataset(found: Sequence[AgentSpaces], roles: AgentRoles, spec: EnvSpec, dataset: str) -> None:
    """Raise InputError if a policy that learns has no agent in the dataset, or if its spaces are others."""
    alone = len(spec.possible_agents) == len(found) == 1
    for policy, name in enumerate(roles.plan.names):
        agents = roles.plan.agents_of(policy, roles.learners)
        own = [each for each in found if each.agent in agents or alone]
        if not own:
            known = ", ".join(each.agent for each in found) or "no agent"
            raise InputError(
                f"dataset={dataset} has no step of {' or '.join(agents)}, from which '{name}' would learn; "
                f"it has steps of {known}."
            )
        for each in own:
            agent = agents[0] if alone else each.agent
            here = spec.observation_spaces[agent], spec.action_spaces[agent]
            if (each.observation_space, each.action_space) != here:
                raise InputError(
                    f"dataset={dataset} was recorded with observations {each.observation_space} and actions "
                    f"{each.action_space}, and in {spec.env_id} they are {here[0]} and {here[1]}. "
                    "Name the env in which it was recorded, or another dataset."
                )


def check_rules(rules: Mapping[str, float], labels: Iterable[PolicyID], dataset: str) -> None:
    """Raise InputError for a rule that fits no controller of the dataset, and for a negative weight."""
    known = list(dict.fromkeys(labels))
    for pattern, weight in rules.items():
        if weight < 0:
            raise InputError(f"controller_weights: the weight of '{pattern}' should not be negative (got {weight:g}).")
        if not any(fnmatchcase(label, pattern) for label in known) and pattern != "*":
            raise unknown(f"controller of dataset={dataset}", pattern, known)


def weight_of(controller: PolicyID, rules: Mapping[str, float]) -> float:
    """Return the weight of a controller's steps: of the first rule that fits, else 1."""
    return next((weight for pattern, weight in rules.items() if fnmatchcase(controller, pattern)), 1.0)


def encode_steps(recorded: Recorded, rules: Mapping[str, float]) -> RecordedSteps:
    """Return the steps of trajectories with equal spaces as rows, weighted by the rules for their controllers."""
    steps = flatten([trajectory for _, trajectory in recorded])
    code, head = row_code(steps.observation_space), action_code(steps.action_space).head
    count = len(steps) + len(recorded)
    seen, mask = np.zeros((count, code.width), np.float32), np.zeros((0, head.width), np.uint8)
    for row in range(count):
        code.write(pick(steps.every_observation, row), seen[row])
    if steps.every_mask is not None:
        mask = np.ascontiguousarray(steps.every_mask.reshape(count, head.width), np.uint8)
    labels, which = np.unique(steps.controllers, return_inverse=True)
    weights = np.array([weight_of(str(label), rules) for label in labels], np.float32)
    numbers = np.array([number for number, _ in recorded], np.int64)
    return RecordedSteps(
        seen=seen,
        seen_mask=mask,
        place=steps.place,
        act=action_rows(steps.action_space, steps.actions),
        reward=steps.rewards.astype(np.float32),
        terminated=steps.terminated.astype(np.uint8),
        weight=weights[which],
        trajectory=steps.trajectory,
        episode=numbers[steps.trajectory],
    )


def split_episodes(episode: Ints, share: float, seed: int) -> tuple[Ints, Ints]:
    """Return the rows to learn from and the rows held out: whole episodes, at least one if there are several."""
    numbers = np.unique(episode)
    count = min(max(1, round(share * len(numbers))), len(numbers) - 1) if share > 0 else 0
    held = np.random.default_rng(seed).permutation(numbers)[:count]
    out = np.isin(episode, held)
    return np.flatnonzero(~out), np.flatnonzero(out)


def recorded_state(name: PolicyID, steps: int) -> StateArrays:
    """Return the number of recorded steps of a policy, as a checkpoint holds it."""
    return {f"{name}/recorded": np.array([steps], np.int64)}


def check_recorded(name: PolicyID, steps: int, state: StateArrays) -> None:
    """Raise InputError if the dataset has changed since a checkpoint: its order and held-out episodes were others."""
    before = int(state.get(f"{name}/recorded", [steps])[0])
    if before != steps:
        raise InputError(
            f"The dataset has {steps:,} steps for '{name}' now, and had {before:,} when the checkpoint was written, so "
            "that training cannot continue where it was. Start a new run from its weights: --init run:ID"
        )


def check_offline_roles(algorithm: str, roles: AgentRoles) -> None:
    plan = roles.plan
    if plan.self_play or plan.central:
        asked = "self_play" if plan.self_play else "shared_value_function"
        raise InputError(
            f"{algorithm} does not support {asked}: add --policies parameter_sharing or independent, or use --algo ppo."
        )
    if roles.episodes is not None:
        raise InputError(
            f"{algorithm} learns from recorded steps of agents: their policies cannot change from episode to episode. "
            "Give each agent one policy."
        )


def check_offline(config: RunConfig, algorithm: str, options: DatasetOptions) -> None:
    """Raise InputError for settings that concern stepping envs, which is not done here."""
    if options.dataset is None:
        raise InputError(
            f"{algorithm} learns from a dataset: add --demo NAME, or --set training.params.dataset=minari:ID. "
            "Type: mosaic demos list"
        )
    training, resources, environment = config.training, config.resources, config.environment
    asked = {
        "training.stop_reward": training.stop_reward,
        "training.episodes": training.episodes,
        "environment.curriculum": environment.curriculum or None,
        "environment.num_envs": environment.num_envs if environment.num_envs != 1 else None,
        "resources.num_env_runners": resources.num_env_runners if resources.num_env_runners != 1 else None,
        "resources.runtime": resources.runtime if resources.runtime != "single" else None,
    }
    for name, value in asked.items():
        if value is not None:
            raise InputError(
                f"{algorithm} learns from a dataset and steps no env, so {name} has no effect. Leave it out."
            )
