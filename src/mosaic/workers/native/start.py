"""Start from the weights of another run: what its networks must be like, known before a run is created."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError, unknown
from mosaic.core.ids import PolicyID
from mosaic.envs.env import EnvSpec
from mosaic.store.checkpoint_record import Checkpoint, weights_file
from mosaic.store.policies.init_source import InitSource

if TYPE_CHECKING:  # these import numba
    from pydantic import BaseModel

    from mosaic.learners.agent_roles import AgentRoles
    from mosaic.models.architecture import Architecture
    from mosaic.models.weights_file import SavedNetwork

_OPTIONS = {"hidden", "activation", "critic_hidden", "memory", "memory_size"}


def own_checkpoint(source: InitSource) -> Checkpoint:
    """Return the checkpoint of a source; raise InputError if the worker native did not write it."""
    checkpoint = source.checkpoint
    if checkpoint is None:
        raise InputError(
            f"'{source.reference}' was not written by Mosaic, and the worker native starts from its own runs "
            "alone. A zip of Stable-Baselines3: --worker sb3. A checkpoint of RLlib: --worker rllib."
        )
    writer = checkpoint.manifest.worker
    if writer != "native":
        advice = f" To start from it: --worker {writer}" if writer in ("sb3", "rllib") else ""
        raise InputError(
            f"'{source.reference}' was saved by a run of the worker {writer}, and the worker native starts from its "
            f"own runs alone.{advice}"
        )
    known = checkpoint.manifest.policies
    if source.policy is not None and source.policy not in known:
        raise unknown(f"policy of '{source.reference}'", source.policy, known)
    return checkpoint


def matched(
    source: InitSource,
    names: Sequence[PolicyID],
    architectures: Sequence[Architecture],
    settable: Collection[str] = (),
) -> Iterator[tuple[PolicyID, SavedNetwork]]:
    """Yield for each policy of a run the policy that it starts from, and its network; raise if one does not fit.

    `settable` are the names of the run's options.
    """
    from mosaic.models.weights_file import load_weights

    checkpoint = own_checkpoint(source)
    known = checkpoint.manifest.policies
    for name, architecture in zip(names, architectures, strict=True):
        policy = source.policy or (name if name in known else next(iter(known)))
        saved = load_weights(checkpoint.path / weights_file(checkpoint, policy))
        if saved.architecture != architecture:
            raise InputError(_differences(source.reference, checkpoint, saved.architecture, architecture, settable))
        yield policy, saved


def check_fits(config: RunConfig, options: BaseModel, spec: EnvSpec, roles: AgentRoles, source: InitSource) -> None:
    """Raise InputError, with what differs, if the networks of a source are not like those that a run would have."""
    checkpoint = own_checkpoint(source)
    architectures = architectures_of(config, options, spec, roles)
    here = bool(getattr(options, "normalize_observations", False))
    for policy, _ in matched(source, roles.plan.names, architectures, type(options).model_fields):
        normalized = checkpoint.manifest.policies[policy].normalized
        if normalized is not None and normalized != here:
            raise InputError(normalization_differs(source.reference, saved=normalized))


def normalization_differs(reference: str, *, saved: bool) -> str:
    does, other = ("true", "false") if saved else ("false", "true")
    return (
        f"'{reference}' was trained with normalize_observations {does}, this run has {other}: "
        f"set normalize_observations to {does}."
    )


def architectures_of(
    config: RunConfig, options: BaseModel, spec: EnvSpec, roles: AgentRoles
) -> tuple[Architecture, ...]:
    """Return the networks that a run would have, without making its envs."""
    from mosaic.envs.vector.encoding import action_code, row_code
    from mosaic.envs.vector.layout import VectorShape
    from mosaic.learners.actor_critic.build import squashed_architecture
    from mosaic.learners.actor_critic.options import ActorCriticOptions
    from mosaic.learners.alphazero.build import game_architecture
    from mosaic.learners.alphazero.options import AlphaZeroOptions
    from mosaic.learners.dqn.build import q_architecture
    from mosaic.learners.dqn.options import QOptions
    from mosaic.learners.network_options import NetworkOptions
    from mosaic.learners.ppo.build import make_architectures
    from mosaic.models.packed_rows import row_packing
    from mosaic.workers.native.worker import worker
    from mosaic.workers.policy_settings import read_policy_options

    agents = tuple(agent for agent in spec.possible_agents if agent not in roles.played)
    rows = {agent: row_code(spec.observation_spaces[agent]) for agent in agents}
    shape = VectorShape(
        envs=1,
        agents=agents,
        turn_based=spec.facts.turn_based,
        widths=tuple(row.width for row in rows.values()),
        heads=tuple(action_code(spec.action_spaces[agent]).head for agent in agents),
        masked=False,
    )
    if isinstance(options, AlphaZeroOptions):
        return (game_architecture(spec, shape, options)[1],)
    if isinstance(options, ActorCriticOptions):
        return (squashed_architecture(shape, options),)
    if isinstance(options, QOptions):
        code = rows[roles.learners[0]]
        return (q_architecture(shape, options, code.parts if row_packing([code]) else ()),)
    assert isinstance(options, NetworkOptions)
    own = read_policy_options(worker, config, options, roles.plan)
    each = [one for name in roles.plan.names if isinstance(one := own.get(name, options), NetworkOptions)]
    return make_architectures(roles, each, shape, rows)


def _differences(
    reference: str, checkpoint: Checkpoint, there: Architecture, here: Architecture, settable: Collection[str]
) -> str:
    """Describe what differs between two networks, and what to type where an option sets it."""
    found: list[str] = []
    typed: dict[str, str] = {}
    if there.observation != here.observation or there.parts != here.parts:
        found.append(f"it sees {there.observation} numbers there and {here.observation} here")
    if there.head != here.head:
        found.append(f"it acts by {_head(there)} there and by {_head(here)} here")
    if there.critic_observation != here.critic_observation:
        found.append(
            f"its critic sees {there.critic_observation} numbers of all agents there, {here.critic_observation} here"
        )
    if there.shared != here.shared:
        found.append(f"share_layers is {_text(there.shared)} there and {_text(here.shared)} here")
        typed["share_layers"] = _text(there.shared)
    for name in sorted(_OPTIONS):
        ours, theirs = getattr(here, name), getattr(there, name)
        if ours != theirs:
            found.append(f"{name} is {_text(theirs)} there and {_text(ours)} here")
            typed[name] = _text(theirs)
    environment = checkpoint.manifest.environment.get("env_id") if checkpoint.manifest.environment else None
    other_env = there.observation != here.observation or there.head != here.head
    options = " ".join(f"--set training.params.{name}={value}" for name, value in typed.items())
    sets_all = options and not other_env and typed.keys() <= set(settable)
    advice = f"Type: {options}" if sets_all else "Name a run with the same spaces and algorithm."
    trained = f" (trained in {environment})" if environment and other_env else ""
    return f"'{reference}'{trained} has another network than this run: {'; '.join(found)}. {advice}"


def _head(architecture: Architecture) -> str:
    return f"{architecture.head.kind} {'×'.join(map(str, architecture.head.sizes))}"


def _text(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{','.join(map(str, value))}]"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)
