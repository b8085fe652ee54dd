"""Setup of one RLlib run, as plain data that every part reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from mosaic.config.run import RunConfig
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.envs.env import EnvSpec
from mosaic.learners.agent_roles import AgentRoles
from mosaic.workers.curriculum import CurriculumProgress
from mosaic.workers.rllib.config.options import RllibOptions
from mosaic.workers.rllib.config.resources import Placement

RUN = "run"  # key of the run's folder in the configuration of envs
SESSION = "session"  # key of this attempt's name, under which its env runners publish counters
STAGE = "stage"  # key of the curriculum's stage, counted from 1, in the configuration of envs
DEFAULT_MODULE = "default_policy"  # RLlib's own name for the only module of a single-agent run


EnvSettings: TypeAlias = dict[str, Any]  # from which `make_rllib_env` creates an env in any process, as plain data


@dataclass(frozen=True, slots=True)
class RllibSetup:
    config: RunConfig
    options: RllibOptions
    spec: EnvSpec
    masked: bool  # whether actions may be illegal, which only a Turn can tell
    roles: AgentRoles
    placement: Placement
    folder: Path  # the run's
    attempt: int = 1
    curriculum: CurriculumProgress | None = None
    own: Mapping[PolicyID, RllibOptions] = field(default_factory=dict)  # options of policies that have others
    episodes_before: int = 0  # of earlier attempts

    def options_of(self, policy: PolicyID) -> RllibOptions:
        return self.own.get(policy, self.options)

    @property
    def algorithm(self) -> str:
        return self.config.training.algorithm or "ppo"

    @property
    def single(self) -> bool:
        """Return whether one agent learns and nothing else has a network.

        RLlib's much faster single-agent runner then steps the env.
        """
        return len(self.roles.learners) == 1 and not self.roles.plan.self_play and self.roles.episodes is None

    @property
    def recurrent(self) -> bool:
        """Return whether a policy has one of Mosaic's recurrent networks; a user's own module may be recurrent too."""
        return any(self.options_of(policy).use_lstm for policy in self.roles.plan.names)

    @property
    def first_episode(self) -> int | None:
        """Number of the first episode, if numbers decide who plays."""
        changing = self.roles.episodes is not None or self.roles.played_episodes is not None
        return self.episodes_before if changing else None

    @property
    def modules(self) -> Mapping[PolicyID, str]:
        """RLlib's name for each policy."""
        names = self.roles.plan.names
        return {names[0]: DEFAULT_MODULE} if self.single else {name: name for name in names}

    @property
    def policy_of(self) -> Mapping[AgentID, PolicyID]:
        plan = self.roles.plan
        return {agent: plan.names[k] for agent, k in zip(self.roles.learners, plan.policy_of, strict=True)}

    @property
    def trained(self) -> list[PolicyID]:
        plan = self.roles.plan
        return [name for name, learns in zip(plan.names, plan.trained, strict=True) if learns]

    def agents_of(self, policy: PolicyID) -> tuple[AgentID, ...]:
        plan = self.roles.plan
        return plan.agents_of(plan.names.index(policy), self.roles.learners)

    @property
    def envs_per_runner(self) -> int:
        return envs_per_runner(self.config.environment.num_envs, self.options, self.placement.runners)

    @property
    def session(self) -> str:
        """Name of this attempt on its Ray cluster."""
        return f"{self.folder}#{self.attempt}"

    @property
    def stages(self) -> tuple[EnvironmentConfig, ...]:
        """Envs that the run trains in: one, or that of each stage of its curriculum."""
        curriculum = self.curriculum
        if curriculum is None:
            return (self.config.environment,)
        environment = curriculum.environment
        return tuple(environment.at_stage(stage) for stage in range(len(environment.curriculum)))

    @property
    def env_config(self) -> EnvSettings:
        """Configuration from which `make_rllib_env` creates an env in any process."""
        return {
            RUN: str(self.folder),
            SESSION: self.session,
            **({} if self.curriculum is None else {STAGE: self.curriculum.number}),
            "environment": self.config.environment.model_dump(mode="json"),
            "learners": list(self.roles.learners),
            "played": dict(self.roles.played),
            "changing": self.roles.played_episodes,
            "state": self.roles.plan.central,
            "single": self.single,
            "seed": self.config.seed,
            "picture_size": self.options.picture_size,
        }


IN_STEP = ("ppo", "a2c")  # their learner waits for its runners, and learns from everything they deliver
_TOLERANCE = 0.1  # of a batch: tolerated by RLlib


def envs_per_runner(envs: int | None, options: RllibOptions, runners: int) -> int:
    """Return the envs of each runner; `envs` is the total over all runners, if configured."""
    return options.num_envs_per_env_runner if envs is None else -(-envs // max(1, runners))


def check_batch(algorithm: str, options: RllibOptions, *, runners: int, envs: int, learners: int) -> None:
    """Apply RLlib's own rule before Ray is started; `envs` is per runner."""
    fragment = options.rollout_fragment_length
    if algorithm not in IN_STEP or fragment == "auto":
        return
    batch = options.train_batch_size_per_learner * max(1, learners)
    sources = max(1, runners) * envs
    made = -(-batch // (sources * fragment)) * sources * fragment
    if made - batch <= _TOLERANCE * batch:
        return
    raise InputError(
        f"A batch of {batch:,} steps cannot be made of pieces of {fragment:,} steps from {_counted(sources, 'env')}: "
        f"{made:,} would come. Leave rollout_fragment_length out, or set it to {max(1, batch // sources):,}."
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number:,} {what}s"
