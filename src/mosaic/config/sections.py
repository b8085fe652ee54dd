"""Sections of a run's settings: environment, training, resources, checkpoints, evaluation and telemetry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from mosaic.config.field_types import (
    LONGEST,
    AnyCase,
    FreeOptions,
    MosaicPicks,
    PolicySections,
    Reference,
    Steps,
    is_code,
    writable,
)
from mosaic.core.errors import known_spelling, shown
from mosaic.core.ids import EnvID
from mosaic.core.plugins import plugins

PolicyConfiguration = Literal["parameter_sharing", "independent", "self_play", "shared_value_function"]


def _known_worker(name: str | None) -> str | None:
    """Return the worker's name as its plug-in spells it, so that `RLlib` is stored, and trusted, as `rllib`."""
    return None if name is None else known_spelling(name, plugins("mosaic.workers"))


def _check_agents(value: object) -> object:
    match value:
        case None:
            return {}
        case str():
            if not is_code(value):
                raise ValueError("it should be {AGENT: POLICY}, such as {player_0: random}, or python:MODULE:FUNCTION")
        case Mapping():
            for pattern, policy in value.items():
                _check_rule(pattern, policy)
        case _:
            raise ValueError("it should be {AGENT: POLICY}, such as {player_0: random}, or python:MODULE:FUNCTION")
    return value


def _check_rule(pattern: object, policy: object) -> None:
    if not _is_name(pattern):
        raise ValueError(f"an agent's name should be text: put {shown(pattern)} in quotes")
    if not _is_name(policy):
        raise ValueError(f"the policy of '{pattern}' should be text, such as random or run:latest, not {shown(policy)}")


def _is_name(value: object) -> bool:
    return isinstance(value, str) and 0 < len(writable(value)) <= LONGEST


def _check_trained(value: object) -> object:
    match value:
        case None:
            return None
        case str() if is_code(value):
            return value
        case list() | tuple() if value and all(map(_is_name, value)):
            return tuple(value)
        case _:
            raise ValueError("it should be a list of policy names, such as [red, blue], or python:MODULE:FUNCTION")


PolicyConfigurationChoice: TypeAlias = Annotated[PolicyConfiguration | None, MosaicPicks, AnyCase]
# The order of the rules matters: the first that matches an agent wins.
AgentRules: TypeAlias = Annotated[dict[str, str] | str, BeforeValidator(_check_agents)]
TrainedPolicies: TypeAlias = Annotated[tuple[str, ...] | str | None, BeforeValidator(_check_trained)]


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, allow_inf_nan=False)

    earlier_names: ClassVar[Mapping[str, str]] = {}  # of renamed settings, which are still read: {earlier: current}

    @model_validator(mode="before")
    @classmethod
    def _empty_heading(cls, data: object) -> object:
        """Treat null, which is a YAML heading with nothing below it, as a request for the defaults."""
        return {} if data is None else cls.with_current_names(data)

    @classmethod
    def with_current_names(cls, data: object) -> object:
        """Return the section's settings under their current names; raise ValueError where two names contradict."""
        if not isinstance(data, Mapping) or not cls.earlier_names.keys() & data.keys():
            return data
        for earlier, current in cls.earlier_names.items():
            if earlier in data and current in data and data[earlier] != data[current]:
                raise ValueError(
                    f"'{earlier}' is the earlier name of '{current}', and they differ: {shown(data[earlier])} and "
                    f"{shown(data[current])}. Leave '{earlier}' out"
                )
        return {cls.earlier_names.get(name, name): value for name, value in data.items()}

    @field_validator("*", mode="before")
    @classmethod
    def _truth_is_no_number(cls, value: object, info: ValidationInfo) -> object:
        """Refuse booleans as numbers: to Python `true` is 1, but `seed: true` never means that."""
        if isinstance(value, bool) and info.field_name and cls.model_fields[info.field_name].annotation is not bool:
            raise ValueError("it should not be true or false; in quotes it would be text")
        return value


class CheckpointConfig(Section):
    """Checkpoint settings.

    At most one interval may be set; the default is one minute, longer if saving takes more than 2 % of the time.
    """

    every_steps: Steps | None = Field(
        None,
        description="Env steps between checkpoints; None and no other interval: a minute, or longer if saving takes "
        "over 2 % of the time.",
    )
    every_iterations: int | None = Field(
        None, ge=1, le=10**9, description="Training iterations between checkpoints, instead of env steps."
    )
    every_minutes: float | None = Field(
        None, gt=0.0, le=1e7, description="Minutes between checkpoints, instead of env steps."
    )
    folder: Reference | None = Field(
        None,
        description="Folder for the checkpoints, which go to FOLDER/RUN_ID/STEPS; None: the run's own folder.",
    )
    keep_last: int = Field(3, ge=1, le=1_000_000, description="Number of newest checkpoints to keep.")
    keep_best: int = Field(1, ge=0, le=1_000_000, description="Number of best checkpoints to keep, whatever their age.")
    at_end: bool = Field(True, description="Save a checkpoint when training ends or is stopped.")

    @model_validator(mode="after")
    def _one_interval(self) -> Self:
        given = [f"{name}={value:g}" for name in INTERVALS if (value := getattr(self, name)) is not None]
        if len(given) > 1:
            raise ValueError(f"it should have one interval, not {' and '.join(given)}; set the others to null")
        return self


INTERVALS = ("every_steps", "every_iterations", "every_minutes")  # between checkpoints


ApiType = Literal["aec", "parallel", "gym", "auto"]
Incentives = Literal["single", "cooperative", "competitive", "mixed", "unknown"]
"""Relation between the agents' goals; mixed: some agents are on the same side, others not; unknown: not declared."""


class CurriculumStage(Section):
    """Stage of a curriculum: at the first of its limits the next one begins; the last one lasts to the run's end."""

    options: FreeOptions = Field(
        default_factory=dict, description="Options of the env from this stage on; those of earlier stages stay."
    )
    until_steps: Steps | None = Field(None, description="Env steps of the run at which the next stage begins.")
    until_reward: float | None = Field(
        None, description="Mean episode reward, over episodes of this stage, at which the next stage begins."
    )

    @property
    def has_limit(self) -> bool:
        return self.until_steps is not None or self.until_reward is not None


def _check_stages(stages: tuple[CurriculumStage, ...]) -> tuple[CurriculumStage, ...]:
    if len(stages) == 1:
        raise ValueError("it should have at least two stages; options of the only one belong in environment.options")
    for number, stage in enumerate(stages[:-1], 1):
        if not stage.has_limit:
            raise ValueError(f"stage {number} should have an end: until_steps or until_reward; only the last has none")
    if stages and stages[-1].has_limit:
        raise ValueError(
            "its last stage lasts to the end of the run and should have neither until_steps nor until_reward"
        )
    steps = [stage.until_steps for stage in stages if stage.until_steps is not None]
    if steps != sorted(set(steps)):
        raise ValueError(
            f"until_steps counts the env steps of the whole run and should grow from stage to stage: {steps}"
        )
    return stages


Curriculum: TypeAlias = Annotated[tuple[CurriculumStage, ...], AfterValidator(_check_stages)]


_WITH_COLON = ("python", "external")  # families whose envs are FAMILY:NAME


class EnvironmentConfig(Section):
    """`{"env_id": "classic/chess_v6"}` and `{"family": "classic", "env_id": "chess_v6"}` are the same env."""

    family: str = Field(
        "",
        max_length=100,
        description="Environment family: gym, classic, sisl, butterfly, mpe, mosaic, godot, python, external, or a "
        "plug-in's.",
    )
    env_id: Reference = Field(description="Name within the family, with or without version: chess_v6, CartPole-v1.")
    api_type: Annotated[ApiType, AnyCase] = Field("auto", description="API of the env to use, if it has several.")
    # before `options`, which begin with those of the first stage
    curriculum: Curriculum = Field(
        (),
        description="Stages of growing difficulty: [{options: {size: 4}, until_reward: 0.8}, …, {options: {size: 8}}].",
    )
    options: FreeOptions = Field(default_factory=dict, description="Keyword arguments of the env's constructor.")
    wrappers: tuple[Reference, ...] = Field(
        (), description="Wrappers around the env, innermost first: time_limit:max_steps=200."
    )
    num_envs: int | None = Field(
        None, ge=1, le=1_000_000, description="Number of envs to step in parallel; None lets the worker choose."
    )

    @model_validator(mode="before")
    @classmethod
    def _split_id(cls, data: object) -> object:
        if not isinstance(data, dict) or not isinstance(data.get("env_id"), str) or data.get("family"):
            return data
        family, env_id = split_id(data["env_id"])
        return {**data, "family": family, "env_id": env_id}

    @field_validator("options")
    @classmethod
    def _begin_with_the_first_stage(cls, options: dict[str, object], info: ValidationInfo) -> dict[str, object]:
        stages: tuple[CurriculumStage, ...] = info.data.get("curriculum", ())
        return {**options, **stages[0].options} if stages else options

    def at_stage(self, stage: int) -> Self:
        """Return the env of a stage, counted from 0. What a stage sets stays until a later one changes it."""
        options = dict(self.options)
        for each in self.curriculum[: stage + 1]:
            options |= each.options
        return self.model_copy(update={"options": options, "curriculum": ()})

    @property
    def id(self) -> EnvID:
        """Return the complete name: family/name, python:module:factory or external:port."""
        return join_id(self.family, self.env_id)


def split_id(env_id: EnvID) -> tuple[str, str]:
    """Return family and name; ("", name) where no family is given."""
    family, colon, name = env_id.partition(":")
    if colon and family in _WITH_COLON:
        return family, name
    family, slash, name = env_id.partition("/")
    return (family, name) if family and slash else ("", env_id)


def join_id(family: str, name: str) -> EnvID:
    """Return the complete name of an env, the inverse of `split_id`."""
    if not family:
        return name
    return f"{family}{':' if family in _WITH_COLON else '/'}{name}"


class EvaluationConfig(Section):
    every_steps: Steps | None = Field(
        None, description="Env steps between evaluations; None evaluates only at the end of training."
    )
    episodes: int = Field(10, ge=1, le=1_000_000, description="Episodes per evaluation.")
    opponents: tuple[Reference, ...] = Field(
        (), description="Policies to play against, one after another: random, minimax, run:latest@best, …"
    )


Runtime = Literal["single", "parallel", "ray", "mpi"]
EnvRunnerCount: TypeAlias = Annotated[int, Field(ge=1, le=10_000)]

USUAL_ENV_RUNNERS = 2


class ResourcesConfig(Section):
    earlier_names: ClassVar[Mapping[str, str]] = {"num_workers": "num_env_runners"}

    num_env_runners: Annotated[EnvRunnerCount | None, MosaicPicks] = Field(
        None,
        description="Env runners that collect experience in parallel; None lets Mosaic choose: 2, or as many as fit.",
    )
    num_gpus: float = Field(0.0, ge=0.0, le=1024.0, description="GPUs for learning; may be a fraction.")
    num_cpus: int = Field(1, ge=1, le=10_000, description="CPU cores for each env runner.")
    runtime: Annotated[Runtime | None, MosaicPicks, AnyCase] = Field(
        None, description="How to distribute training: one process, several cores, Ray or MPI; None lets Mosaic choose."
    )
    ray_address: Reference | None = Field(
        None, description="Ray cluster to join: auto, or HOST:PORT; None starts Ray on this machine."
    )
    max_wall_s: float | None = Field(
        None, gt=0.0, le=1e9, description="Stop the run after this many seconds; its last state is saved."
    )
    max_memory_mb: int | None = Field(
        None,
        ge=1,
        le=10**9,
        description="Stop the run when its processes use more than this many megabytes of memory in all.",
    )

    @property
    def num_workers(self) -> int | None:
        """Earlier name of `num_env_runners`, for plug-ins that read it."""
        return self.num_env_runners

    @property
    def env_runners(self) -> int:
        """Return the requested number of env runners, or a default that fits most machines."""
        return USUAL_ENV_RUNNERS if self.num_env_runners is None else self.num_env_runners

    @field_validator("num_env_runners", mode="before")
    @classmethod
    def _at_least_one(cls, number: object) -> object:
        if number in (0, "0"):
            raise ValueError(
                "--num-env-runners should be at least 1. With the worker rllib, --set "
                "training.params.num_env_runners=0 lets the learner's own process step the envs"
            )
        return number

    @model_validator(mode="after")
    def _address_needs_ray(self) -> Self:
        if self.ray_address is not None and self.runtime not in (None, "ray"):
            raise ValueError(
                f"'resources.ray_address' needs the runtime ray, but 'resources.runtime' is '{self.runtime}'. "
                "Leave one of them out"
            )
        return self


class TelemetryConfig(Section):
    report_every_s: float = Field(
        2.0,
        gt=0.0,
        le=86_400.0,
        description="Report at least once in this many seconds, however long the steps take.",
    )
    mirrors: tuple[Reference, ...] = Field((), description="Sinks to copy metrics to: tensorboard, …")
    frames: bool = Field(True, description="Provide live pictures of the env to viewers.")


DEFAULT_TIMESTEPS = 1_000_000


class TrainingConfig(Section):
    """Training ends at the first limit that is reached; without any, after the preset's steps or a million."""

    worker: Annotated[Reference | None, MosaicPicks, AfterValidator(_known_worker)] = Field(
        None,
        description="Plug-in that trains: native, tabular, rllib, sb3, script, …; None lets Mosaic choose for the env.",
    )
    algorithm: Annotated[Reference | None, MosaicPicks] = Field(
        None, description="One of the worker's algorithms: ppo, dqn, q_learning, …; None uses the worker's default."
    )
    total_timesteps: Steps | None = Field(
        None,
        description="Stop after this many environment steps; None: those of the preset, unless `episodes` is set; "
        "without any limit 1,000,000.",
    )
    episodes: Steps | None = Field(None, description="Stop after this many episodes.")
    stop_reward: float | None = Field(None, description="Stop at this mean episode reward.")
    init: Reference | None = Field(
        None,
        description="Policy whose weights training starts from: run:latest@best, checkpoint:PATH, sb3:FILE.zip, "
        "or, including its optimizer's state, run:latest,optimizer=true.",
    )
    preset: bool = Field(True, description="Take options that params does not set from the tuned preset of the env.")
    params: FreeOptions = Field(
        default_factory=dict, description="Options of the worker: see `mosaic schema WORKER ALGORITHM`."
    )
    policies: PolicySections = Field(
        default_factory=dict,
        description="Settings of single policies that learn, each instead of the run's: "
        "{red: {lr: 1e-4, network: {fcnet_hiddens: [32]}, algorithm: ppo}}. See `mosaic schema WORKER ALGORITHM`.",
        json_schema_extra={
            "additionalProperties": {
                "type": "object",
                "properties": {
                    "algorithm": {"type": "string", "description": "Algorithm of this policy."},
                    "network": {"type": "object", "description": "Options of its network."},
                },
                "additionalProperties": True,
            }
        },
    )
