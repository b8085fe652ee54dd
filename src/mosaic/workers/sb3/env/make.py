"""Vector env of a run: SB3's own, Mosaic's or a compiled twin; and players of the agents that no slot acts for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Action, Turn
from mosaic.envs.adapters.gymnasium import GymnasiumEnv
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.registry import find_kernel
from mosaic.envs.compiled.vector import CompiledVector
from mosaic.envs.env import Env, EnvSpec
from mosaic.envs.shared_env import close_shared_envs, take_env
from mosaic.envs.vector.encoding import action_code
from mosaic.envs.vector.in_process import PythonVector
from mosaic.envs.vector.layout import VectorEnv
from mosaic.envs.vector.multi_process import ProcessVector
from mosaic.learners.agent_roles import AgentRoles
from mosaic.runners.fixed_policies import ControllerOthers, make_others
from mosaic.workers.sb3.env.gym import GymVecEnv
from mosaic.workers.sb3.env.slots import SlotVecEnv
from mosaic.workers.sb3.env.tally import AgentVecEnv

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


class ModelOthers:
    """Player of agents with SB3 models, and of further agents with the controllers of fixed policies.

    `frozen` agents are played in every env. `rotating` agents learn in rotation: env number i trains the agent
    i % len(rotating), and models play the others there. Models are set before the first step.
    """

    def __init__(
        self,
        spec: EnvSpec,
        fixed: ControllerOthers | None,
        frozen: Collection[AgentID] = (),
        rotating: tuple[AgentID, ...] = (),
    ) -> None:
        self._fixed, self._rotating = fixed, rotating
        self.agents = (*(fixed.agents if fixed else ()), *frozen)
        self.models: dict[AgentID, BaseAlgorithm] = {}
        self._decode = {agent: action_code(spec.action_spaces[agent]).action for agent in (*frozen, *rotating)}
        self._memory: dict[tuple[int, AgentID], Any] = {}

    def plays(self, index: int) -> Collection[AgentID]:
        learner = self._rotating[index % len(self._rotating)] if self._rotating else None
        return (*self.agents, *(agent for agent in self._rotating if agent != learner))

    def begin(self, index: int, seed: int) -> None:
        if self._fixed is not None:
            self._fixed.begin(index, seed)
        for key in [key for key in self._memory if key[0] == index]:
            del self._memory[key]

    def act(self, index: int, turn: Turn) -> Mapping[AgentID, Action]:
        actions = {} if self._fixed is None else dict(self._fixed.act(index, turn))
        for agent in self.plays(index):
            if agent in turn.observations and agent in self._decode:
                actions[agent] = self._predict(index, agent, turn)
        return actions

    def _predict(self, index: int, agent: AgentID, turn: Turn) -> Action:
        key = index, agent
        masks = {"action_masks": turn.action_masks[agent]} if agent in turn.action_masks else {}
        chosen, self._memory[key] = self.models[agent].predict(
            turn.observations[agent],
            self._memory.get(key),
            np.array([key not in self._memory]),
            deterministic=False,
            **masks,
        )
        return self._decode[agent](np.asarray(chosen, np.float32).reshape(-1))

    def close(self) -> None:
        if self._fixed is not None:
            self._fixed.close()


class MadeEnv(NamedTuple):
    """A vector env, and the player of agents that models play; None where there are none."""

    env: AgentVecEnv
    others: ModelOthers | None
    said: str  # for people
    masked: bool


class Places(NamedTuple):
    """Agents by what acts for them."""

    learners: tuple[AgentID, ...]  # of the policy that trains
    frozen: tuple[AgentID, ...]  # of named policies that do not train
    rotating: tuple[AgentID, ...]  # of a turn-based game: `learners` again, if there are several


def places_of(roles: AgentRoles, spec: EnvSpec) -> Places:
    plan = roles.plan
    trained = [plan.trained[number] for number in plan.policy_of]
    learners = tuple(agent for agent, learns in zip(roles.learners, trained, strict=True) if learns)
    frozen = tuple(agent for agent in roles.learners if agent not in learners)
    return Places(learners, frozen, learners if spec.facts.turn_based and len(learners) > 1 else ())


def has_twin(environment: EnvironmentConfig, roles: AgentRoles, places: Places) -> bool:
    """Return whether a compiled twin can take the place of the env: all its agents learn and act together."""
    kernel = None if roles.played or places.frozen else find_kernel(environment)
    return kernel is not None and not kernel.turn_based and kernel.agents == places.learners


def make_vec_env(config: RunConfig, spec: EnvSpec, roles: AgentRoles, *, compiled: bool, runners: int) -> MadeEnv:
    """Make the envs of a run; `runners` is the number of processes that step them (1: this one)."""
    environment, count = config.environment, config.environment.num_envs or 1
    places = places_of(roles, spec)
    agent = places.learners[0]
    spaces = spec.observation_spaces[agent], spec.action_spaces[agent]
    seed = child_seed(config.seed, "others")
    if compiled:
        kernel = find_kernel(environment)
        assert kernel is not None, "checked before"
        twin = CompiledVector(kernel, count, lambda: make_env(environment))
        return MadeEnv(SlotVecEnv(twin, *spaces), None, f"{count} compiled envs", twin.shape.masked)
    if runners > 1:
        close_shared_envs()
        others = partial(make_others, environment, dict(roles.played), seed) if roles.played else None
        vector: VectorEnv = ProcessVector(partial(make_env, environment), count, runners, others)
        said = f"{count} envs in {runners} processes"
        return MadeEnv(SlotVecEnv(vector, *spaces), None, said, vector.shape.masked)
    envs: Sequence[Env] = [take_env(environment), *(make_env(environment) for _ in range(count - 1))]
    said = f"{count} envs in this process" if count > 1 else "1 env in this process"
    plain = [env for env in envs if type(env) is GymnasiumEnv and env.plain]
    if len(plain) == count and not roles.played:
        return MadeEnv(GymVecEnv(plain), None, said, masked=False)
    fixed = ControllerOthers(spec, roles.played, seed) if roles.played else None
    models = ModelOthers(spec, fixed, places.frozen, places.rotating) if places.frozen or places.rotating else None
    vector = PythonVector(envs, models or fixed)
    return MadeEnv(SlotVecEnv(vector, *spaces), models, said, vector.shape.masked)


def check_envs(config: RunConfig, roles: AgentRoles, spec: EnvSpec, *, compiled: bool, runners: int) -> None:
    """Raise InputError for numbers of envs and processes that do not fit each other or the env."""
    places, count = places_of(roles, spec), config.environment.num_envs or 1
    if compiled and not has_twin(config.environment, roles, places):
        raise InputError(
            f"training.params.compiled_env is true, and {spec.env_id} has no compiled twin in which all agents learn "
            "and act together. Leave it out. Type: mosaic envs"
        )
    if compiled and runners > 1:
        raise InputError(
            f"A compiled env is stepped in one process, and --num-env-runners is {runners}. Leave one of them out."
        )
    if runners > count:
        raise InputError(
            f"--num-env-runners is {runners}, and there are {count} envs: each process steps at least one. "
            f"Type: --set environment.num_envs={runners}"
        )
    if runners > 1 and (places.rotating or places.frozen):
        raise InputError(
            f"Networks play other agents of {spec.env_id} too, which they can in their own process alone, and "
            f"--num-env-runners is {runners}. Leave it out, or use --worker native."
        )
    if places.rotating and count % len(places.rotating):
        raise InputError(
            f"{spec.env_id} is turn-based: each env trains one of its {len(places.rotating)} agents, so that "
            f"environment.num_envs must be a multiple of {len(places.rotating)}, not {count}."
        )
