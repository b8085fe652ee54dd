"""Construction of learners that clone, from a run configuration, and checks of what is possible."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from mosaic.config.run import RunConfig
from mosaic.config.sections import INTERVALS
from mosaic.core.errors import InputError
from mosaic.core.reference import split_reference
from mosaic.core.seeding import child_seed
from mosaic.envs.env import EnvSpec
from mosaic.envs.shared_env import env_spec, sharing_envs, take_env
from mosaic.envs.vector.encoding import row_code
from mosaic.envs.vector.in_process import PythonVector
from mosaic.envs.vector.layout import VectorEnv
from mosaic.learners.agent_roles import AgentRoles, read_agent_roles
from mosaic.learners.base import Assembled
from mosaic.learners.bc.algorithm import BcLearner
from mosaic.learners.bc.clones import Clone, label_rows, moments_of, no_rows, normalized
from mosaic.learners.bc.dagger import DaggerLearner
from mosaic.learners.bc.labels import Follow, LabelledRollouts, LabelSource, PersonLabels
from mosaic.learners.bc.options import BcOptions, DaggerOptions
from mosaic.learners.external.labels import ProgramLabels
from mosaic.learners.external.world import ExternalWorld, Listen, open_world
from mosaic.learners.opponents import check_players
from mosaic.learners.ppo.build import make_architectures, make_engine, make_python_vector
from mosaic.learners.ppo.hardware import check_torch, cuda_is_available, pick_engine, usual_torch_threads
from mosaic.learners.recorded import (
    Recorded,
    RecordedSteps,
    check_offline,
    check_offline_roles,
    read_recorded,
)
from mosaic.models.dense import set_product_threads
from mosaic.models.engine import LearnSettings
from mosaic.models.packed_rows import row_packing
from mosaic.policies.registry import load_policy
from mosaic.runners.fixed_policies import make_others


def check_cloning(config: RunConfig, options: BcOptions | DaggerOptions, roles: AgentRoles, spec: EnvSpec) -> None:
    """Raise InputError for what cloning does not honour, before anything is built."""
    algorithm = config.training.algorithm or "bc"
    check_offline_roles(algorithm, roles)
    if config.environment.family == "external":
        _check_programs(config, algorithm, options)
    elif isinstance(options, BcOptions):
        check_offline(config, algorithm, options)
    else:
        _check_expert(config, options, roles, spec)
    rows = [row_code(spec.observation_spaces[agent]) for agent in roles.learners]
    engine, why = pick_engine(options, rows)
    if engine == "torch":
        check_torch(options, why)


_OF_PROGRAMS = "The actions that programs report (log_action) are what is cloned, so {} has no effect. Leave it out."


def _check_programs(config: RunConfig, algorithm: str, options: BcOptions | DaggerOptions) -> None:
    """Raise InputError for settings that make no sense where programs own the env and their actions are the labels."""
    names = ("n_epochs", "patience", "normalize_observations") if isinstance(options, BcOptions) else _MIXTURE
    for name in names:
        if getattr(options, name) != type(options).model_fields[name].default:
            raise InputError(_OF_PROGRAMS.format(f"training.params.{name}"))
    if config.environment.options.get("whole_episodes") is False:
        raise InputError(f"whole_episodes=false: {algorithm} learns from an episode once it is over. Leave it out.")
    if config.environment.num_envs not in (None, 1):
        raise InputError(_OF_PROGRAMS.format("environment.num_envs"))


def _check_person(options: DaggerOptions) -> None:
    """Raise InputError where it is not said which demonstration a person records, or how it is recorded."""
    if options.dataset is None or split_reference(options.dataset)[0] != "demo" or "/" in options.dataset:
        raise InputError(
            "expert=human learns from episodes while a person plays and records them: add --demo NAME, and then play "
            "with that name, in the terminal (mosaic play ENV --agent NAME=human --demo NAME), the terminal app or the "
            "web app. Where run:ID plays an agent, take over when it errs."
        )
    for name in _MIXTURE[1:]:
        if getattr(options, name) != type(options).model_fields[name].default:
            raise InputError(f"A person takes over at will, so training.params.{name} has no effect. Leave it out.")


_MIXTURE = ("expert", "beta", "beta_rounds")


def _check_expert(config: RunConfig, options: DaggerOptions, roles: AgentRoles, spec: EnvSpec) -> None:
    if options.expert is None:
        raise InputError(
            "dagger asks an expert what it would do: add --set training.params.expert=POLICY, such as minimax or "
            "run:ID. Type: mosaic policies"
        )
    if options.asks_person:
        _check_person(options)
    else:
        check_players((options.expert,), spec)
    if roles.played_episodes is not None:
        raise InputError(
            f"{config.agents} gives agents different policies in different episodes, which dagger does not support. "
            "Give each agent that does not learn one policy: --agent NAME=POLICY"
        )
    environment, resources = config.environment, config.resources
    asked = {
        "environment.curriculum": environment.curriculum or None,
        "environment.num_envs": environment.num_envs if environment.num_envs != 1 else None,
        "resources.num_env_runners": resources.num_env_runners if resources.num_env_runners != 1 else None,
        "resources.runtime": resources.runtime if resources.runtime != "single" else None,
    }
    for name, value in asked.items():
        if value is not None:
            raise InputError(f"dagger plays one episode at a time in one env, so {name} has no effect. Leave it out.")


def settle_cloning(
    config: RunConfig, options: BcOptions | DaggerOptions, roles: AgentRoles, spec: EnvSpec
) -> tuple[RunConfig, BcOptions | DaggerOptions]:
    """Return configuration and options with a value for every setting left to Mosaic."""
    rows = [row_code(spec.observation_spaces[agent]) for agent in roles.learners]
    engine, _ = pick_engine(options, rows)
    chosen: dict[str, Any] = {"engine": engine}
    if options.device == "auto":
        chosen["device"] = "cuda" if engine == "torch" and cuda_is_available() else "cpu"
    if engine == "torch" and options.torch_threads is None:
        chosen["torch_threads"] = usual_torch_threads(max(code.width for code in rows))
    environment, checkpoint = config.environment.model_copy(update={"num_envs": 1}), config.checkpoint
    waits = isinstance(options, DaggerOptions) and options.asks_person
    if waits and not any(getattr(checkpoint, name) for name in INTERVALS):
        checkpoint = checkpoint.model_copy(update={"every_iterations": 1})  # so that run:ID plays what was learned
    config = config.model_copy(update={"environment": environment, "checkpoint": checkpoint})
    return config, options.model_copy(update=chosen)


def learn_settings(options: BcOptions | DaggerOptions) -> LearnSettings:
    """Return the settings of one pass."""
    return LearnSettings(
        n_epochs=1,
        batch_size=options.batch_size,
        gamma=options.gamma,
        ent_coef=options.ent_coef,
        vf_coef=options.vf_coef,
        max_grad_norm=options.max_grad_norm,
        normalize_advantage=False,
        imitate=True,
    )


@sharing_envs()
def assemble_bc(config: RunConfig, options: BcOptions, recorded: Recorded) -> Assembled:
    """Make the policies and encode what they learn from; the caller closes the learner."""
    set_product_threads(1)  # minibatches are small: more threads would spin
    spec = env_spec(config.environment)
    roles = read_agent_roles(config, spec)
    steps = read_recorded(recorded, roles, spec, options.controller_weights, str(options.dataset))
    rows = {agent: row_code(spec.observation_spaces[agent]) for agent in roles.learners}
    engine, why = pick_engine(options, [*rows.values()])
    vector = make_python_vector(config, roles, envs=1, processes=0)
    try:
        each = (options,) * len(steps)
        architectures = make_architectures(roles, each, vector.shape, rows)
        make = partial(make_engine, engine, architectures, each, config.seed)
        packing = None if options.normalize_observations else row_packing([*rows.values()])
        scalers = [moments_of(own.seen) if options.normalize_observations else None for own in steps]
        clones = []
        for policy, own in enumerate(steps):
            scaler = scalers[policy]
            if scaler is not None:
                own = replace(own, seen=normalized(own.seen, scaler))
            data = label_rows(own, options.held_out, options.gamma, config.seed, packing)
            if not len(data.learned):
                raise InputError(
                    f"dataset={options.dataset}: no step is left to learn '{roles.plan.names[policy]}' from. "
                    "Record more episodes, set held_out lower, or change controller_weights."
                )
            clones.append(Clone(make(policy, child_seed(config.seed, "engine", policy)), data, learn_settings(options)))
        if options.patience is not None and not any(len(clone.data.held_out) for clone in clones):
            raise InputError(
                f"patience={options.patience} watches the loss of held-out episodes, and dataset={options.dataset} has "
                "none to spare. Record more episodes, or leave it out: --set training.params.n_epochs=N ends training."
            )
        total = config.training.total_timesteps
        learner = BcLearner(vector, roles.plan, clones, options, config.seed, total, scalers)
    except BaseException:
        vector.close()
        raise
    learned, held_out = (sum(len(getattr(clone.data, name)) for clone in clones) for name in ("learned", "held_out"))
    said = f"{engine} engine ({why}), {learned:,} steps of {options.dataset} to learn from, {held_out:,} held out"
    return Assembled(learner, roles, spec, architectures, engine, said, tuple(one.network for one in each))


@sharing_envs()
def assemble_dagger(
    config: RunConfig,
    options: BcOptions | DaggerOptions,
    recorded: Recorded,
    follow: Follow | None = None,
    listen: Listen | None = None,
) -> Assembled:
    """Make the env, the expert and the policies; what was recorded is learned from in the first round, too.

    `follow` reads the demonstration of an expert that is a person. With `listen` the envs are those of programs that
    connect, and their actions are the labels; options of plain cloning have the passes and rounds of DAgger there.
    """
    set_product_threads(1)
    if isinstance(options, BcOptions):
        shared = DaggerOptions.model_fields.keys() & BcOptions.model_fields.keys() - {"n_epochs"}
        options = DaggerOptions.model_validate(options.model_dump(include=set(shared)))
    spec = env_spec(config.environment)
    roles = read_agent_roles(config, spec)
    rows = {agent: row_code(spec.observation_spaces[agent]) for agent in roles.learners}
    engine, why = pick_engine(options, [*rows.values()])
    external: ExternalWorld | None = None
    vector: VectorEnv
    if listen is not None:
        external = open_world(config, spec, roles, listen, 1, off_policy=True, episodes_before=0)
        vector = external.vector
    else:
        env, seed = take_env(config.environment), child_seed(config.seed, "others", 0)
        others = make_others(config.environment, dict(roles.played), seed) if roles.played else None
        vector = PythonVector([env], others)
    try:
        each = (options,) * len(roles.plan.names)
        architectures = make_architectures(roles, each, vector.shape, rows)
        make = partial(make_engine, engine, architectures, each, config.seed)
        steps: tuple[RecordedSteps, ...] = ()
        if recorded:
            steps = read_recorded(recorded, roles, spec, options.controller_weights, str(options.dataset))
        clones = [
            Clone(
                make(policy, child_seed(config.seed, "engine", policy)),
                label_rows(steps[policy], options.held_out, options.gamma, config.seed)
                if steps
                else no_rows(architecture),
                learn_settings(options),
            )
            for policy, architecture in enumerate(architectures)
        ]
        rollouts: LabelSource
        if external is not None:
            rollouts, by = ProgramLabels(external, roles.plan, roles.learners), "programs that connect"
        elif options.asks_person:
            assert follow is not None, "a person's episodes are read from a demonstration"
            rollouts = PersonLabels(follow, roles, spec, options.controller_weights, str(options.dataset))
            by = f"a person who records {options.dataset}"
        else:
            by = str(options.expert)
            expert = load_policy(by, spec, roles.learners, seed=child_seed(config.seed, "expert"))
            rollouts = LabelledRollouts(env, roles.learners, others, expert, by, masked=vector.shape.masked)
        total = config.training.total_timesteps
        learner = DaggerLearner(vector, roles.plan, clones, options, config.seed, rollouts, total)
    except BaseException:
        vector.close()
        raise
    said = f"{engine} engine ({why}), {config.environment.id} labelled by {by}, {options.rollout_steps} steps a round"
    return Assembled(learner, roles, spec, architectures, engine, said, tuple(one.network for one in each))
