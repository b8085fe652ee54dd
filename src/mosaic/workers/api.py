"""Protocols of worker plug-ins, entry point group `mosaic.workers`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, Protocol, runtime_checkable

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from mosaic.config.sections import PolicyConfiguration, ResourcesConfig

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from mosaic.config.run import RunConfig
    from mosaic.core.ids import AgentID
    from mosaic.envs.env import EnvSpec
    from mosaic.exports.policy import ExportablePolicy
    from mosaic.policies.controller import PolicyController, PolicyRequest
    from mosaic.store.checkpoints import Checkpoint
    from mosaic.store.policies.foreign_checkpoint import ForeignSource
    from mosaic.store.policies.init_source import InitSource
    from mosaic.workers.context import WorkerContext

ResourceName = Literal["num_env_runners", "num_gpus", "num_cpus", "runtime", "ray_address", "num_envs"]
_Resource = Annotated[ResourceName, BeforeValidator(lambda name: ResourcesConfig.earlier_names.get(name, name))]
SpaceKind = Literal["discrete", "multi_discrete", "multi_binary", "box", "pictures", "dict", "tuple"]


class PolicyOptions(BaseModel):
    """Options that `training.policies` may set for single policies, in runs with one of the algorithms."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    options: tuple[str, ...] = Field((), description="Options of learning: training.policies.NAME.OPTION.")
    network: tuple[str, ...] = Field((), description="Options of networks: training.policies.NAME.network.OPTION.")
    algorithms: tuple[str, ...] = Field((), description="Other algorithms that a policy of the run may have.")
    one_algorithm: str = Field("", description="Why a policy cannot have any other algorithm, and what to do instead.")


class WorkerCapabilities(BaseModel):
    """Capabilities that a worker promises.

    `mosaic.testing.check_worker` tests each of them, so promise nothing else.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(description="Name of the entry point.")
    version: str = Field(description="Version of the plug-in.")
    upstream: str | None = Field(None, description="The library that does the work, with its version.")
    algorithms: tuple[str, ...] = Field(min_length=1, description="The first one is the default.")
    paradigms: tuple[PolicyConfiguration, ...] = Field(description="Policy configurations it can train.")
    algorithm_paradigms: dict[str, tuple[PolicyConfiguration, ...]] = Field(
        {}, description="By algorithm, the policy configurations it can train, if it cannot train all of them."
    )
    env_families: tuple[str, ...] = Field(("*",), description="Environment families it supports; * means any.")
    action_kinds: tuple[SpaceKind, ...] = Field((), description="Kinds of action spaces it can train; empty: any.")
    observation_kinds: tuple[SpaceKind, ...] = Field(
        (), description="Kinds of observation spaces it can train; empty: any."
    )
    max_agents: int | None = Field(None, ge=1, description="Most agents of an env; None: any number.")
    self_play: bool = Field(False, description="Trains a policy against itself or its earlier versions.")
    population: bool = Field(
        False,
        description="A run continues from another run's checkpoint with other options, as mosaic tune --scheduler pbt "
        "needs; options marked SHAPES_CHECKPOINTS stay the same.",
    )
    pause: bool = Field(False, description="Pauses and continues on request.")
    resume: bool = Field(False, description="Whether a new attempt continues from the last checkpoint.")
    checkpoints: bool = Field(False, description="Saves checkpoints; else runs that set `checkpoint` are refused.")
    seeds: bool = Field(False, description="The same seed gives the same metrics.")
    samples: bool = Field(False, description="Its policies draw actions where run:ID,sample=true asks for it.")
    gpu: bool = Field(False, description="Can learn on a GPU.")
    agent_mapping: bool = Field(
        False,
        description="Honours agents, policies_to_train and evaluation.opponents; else runs that set them are refused.",
    )
    policy_options: dict[str, PolicyOptions] = Field(
        {},
        description="By algorithm, the options that may differ from policy to policy (training.policies); runs that "
        "set others, or use an algorithm that is not listed, are refused.",
    )
    env_metrics: bool = Field(
        False, description="Reports numbers in the info of agents' last steps as custom metrics of their policies."
    )
    evaluates: bool = Field(False, description="Honours `evaluation`; else runs that set it are refused.")
    curriculum: bool = Field(
        False, description="Changes the env at the stages of environment.curriculum; else runs that set it are refused."
    )
    external_envs: bool = Field(
        False, description="Trains in envs of programs that connect (external:PORT); else such runs are refused."
    )
    init: bool = Field(False, description="Starts from what training.init names; else runs that set it are refused.")
    refuses: dict[str, str] = Field(
        {}, description="Further settings that it does not honour, with the reason; runs that set them are refused."
    )
    not_applicable: dict[str, str] = Field(
        {}, description="Settings or sections that do not apply to it, with the reason; runs may set them."
    )
    resources: tuple[_Resource, ...] = Field(
        (),
        description="Settings of `resources` (and environment.num_envs) that it meets; others are refused.",
    )
    notes: tuple[str, ...] = Field((), description="Restrictions and conditions, one sentence each.")
    patience_s: float = Field(10.0, gt=0, description="Seconds it may need to save after a stop request.")

    def paradigms_of(self, algorithm: str | None) -> tuple[PolicyConfiguration, ...]:
        """Return the policy configurations that one of its algorithms can train; None is its default algorithm."""
        return self.algorithm_paradigms.get(algorithm or self.algorithms[0], self.paradigms)


class Worker(Protocol):
    """Plug-in that trains: its capabilities, its options, and the training itself."""

    @property
    def info(self) -> WorkerCapabilities: ...

    def options(self, algorithm: str) -> type[BaseModel]: ...  # model of `training.params`; its schema builds forms

    def run(self, context: WorkerContext) -> None: ...  # returns when training is done or a stop was requested


@runtime_checkable
class ChecksRuns(Protocol):
    """Worker that can reject a run before it is created, by raising InputError, if the run would fail at its start."""

    def check(self, config: RunConfig, options: BaseModel, spec: EnvSpec) -> None: ...


@runtime_checkable
class ChecksInit(Protocol):
    """Worker that can reject what `training.init` names before the run is created, by raising InputError."""

    def check_init(self, config: RunConfig, options: BaseModel, spec: EnvSpec, source: InitSource) -> None: ...


@runtime_checkable
class ChecksDataset(Protocol):
    """Worker that can reject recorded steps before the run is created; `home` is the store that the run will be in."""

    def check_dataset(self, config: RunConfig, options: BaseModel, spec: EnvSpec, home: Path) -> None: ...


@runtime_checkable
class ChoosesAlgorithm(Protocol):
    """Worker whose default algorithm depends on the env; that of others is the first of `info.algorithms`."""

    def default_algorithm(self, config: RunConfig, spec: EnvSpec) -> str: ...  # one that can train in this env


@runtime_checkable
class CompletesRuns(Protocol):
    """Worker that fills in what a configuration leaves open, before the run is created.

    The values are stored with the run and used by every attempt, wherever it is executed: base them on the
    configuration and the env, not on the machine, and not on its seed, run id and name: a group of seeds is completed
    once. `check` was called before. A value of None must mean "none", not "to be decided".
    """

    def complete(self, config: RunConfig, options: BaseModel, spec: EnvSpec) -> tuple[RunConfig, BaseModel]: ...


@runtime_checkable
class MakesPolicies(Protocol):
    """Worker whose checkpoints can play, as `run:` policies.

    The spaces of the agents in the request have been compared with those of training; the env may be another one. A
    worker that declares `samples` obeys `request.sampling`, others are never given one.

    A worker whose controllers never unpickle anything may set `loads_pickles = False`: imported checkpoints then play
    without --trust. One that unpickles to resume sets `resumes_from_pickles = True`, so that an imported run is refused
    before it starts, and calls `mosaic.plugins.require_trust_to_resume` before unpickling. `python:` references in an
    untrusted checkpoint are refused within `controller`, so code must be loaded there and not later.

    A worker that cannot promise `resume` for every run sets `resumes_what_was_saved = True`: runs with a checkpoint
    resume.
    """

    def controller(self, checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> PolicyController: ...


@runtime_checkable
class ExportsPolicies(Protocol):
    """Worker whose policies `mosaic export` writes as files for other programs.

    `exportable` is called with the same arguments as `controller`, and both must act alike: the file is compared with
    the controller. It raises InputError with the reason for a policy that cannot be expressed as a network.
    """

    def exportable(self, checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> ExportablePolicy: ...


@runtime_checkable
class ReadsForeignCheckpoints(Protocol):
    """Worker that plays what its library saved without Mosaic, as `checkpoint:PATH`.

    `foreign_policies` recognises a file or a folder by its names and members, without loading any: it is called without
    the user's trust. `foreign_controllers` may unpickle: it is called only with it, unless the worker says
    `unpickles_foreign = False`.

    A worker that also has `convert_foreign(source, folder, request)` lets `mosaic export checkpoint:PATH` write files:
    it saves the policy into the folder as its own checkpoints have it, and returns a PolicyEntry for each. One that has
    `foreign_notes(path)` returns what players should know of the checkpoint, as sentences.
    """

    def foreign_policies(self, path: Path) -> tuple[str, ...]: ...  # their names; empty: not of this library

    def foreign_controllers(  # for each agent of the request; agents may share one
        self, source: ForeignSource, request: PolicyRequest
    ) -> Mapping[AgentID, PolicyController]: ...
