"""Lookup of policy references and creation of their controllers."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError, unknown
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.plugins import load_plugin, plugins
from mosaic.core.reference import Options, parse_options, split_reference
from mosaic.core.user_code import PREFIX, add_code_folder
from mosaic.envs.env import EnvSpec
from mosaic.policies.controller import DEFAULT_TIME_LIMIT_S, PolicyController, PolicyKind, PolicyRequest
from mosaic.policies.mapping import AgentMapping, ControllerKey, PolicyMapping


def parse_policy(reference: PolicyID) -> tuple[PolicyKind, Options]:
    """Return the kind and its checked options; nothing is started yet."""
    if not isinstance(reference, str):
        raise InputError(
            f"A {type(reference).__name__} is not the reference of a policy: give a text such as 'random', "
            "'run:latest' or 'python:MODULE:NAME'."
        )
    name, text = split_reference(reference)
    if is_table_file(reference):
        # Named by its path, not by an entry point's name; learners are a layer below this package.
        table: PolicyKind = import_module("mosaic.learners.tabular.policy").kind
        return table, parse_options(reference, reference, table.options, table.first)
    known = plugins("mosaic.policies")
    if name not in known:
        raise unknown("policy", name, known, _meant(reference, name))
    kind: PolicyKind = load_plugin("mosaic.policies", name)
    return kind, parse_options(reference, text, kind.options, kind.first)


def _meant(reference: PolicyID, name: str) -> str:
    """Return advice for a file or a function that is given without its kind; "" for anything else."""
    path = reference.partition(",")[0]
    if name.endswith(".py"):
        return f"Type: {PREFIX}{reference}{'' if ':' in reference else ':NAME'}"
    if path.endswith((".zip", ".onnx")):
        return f"Type: {'onnx' if path.endswith('.onnx') else 'sb3'}:{reference}"
    if Path(path).is_dir():
        return f"Type: checkpoint:{reference} or bundle:{reference}"
    return f"A function of your own is {PREFIX}MODULE:NAME." if ":" in reference else ""


def is_table_file(reference: PolicyID) -> bool:
    """Return whether this is the path of a saved table, such as `maze.safetensors`."""
    path = reference.partition(",")[0]
    return path.endswith(".safetensors") and split_reference(path)[0] not in plugins("mosaic.policies")


def is_reproducible(reference: PolicyID) -> bool:
    kind, options = parse_policy(reference)
    return kind.reproducible(options)


def trained_environment(reference: PolicyID) -> EnvironmentConfig | None:
    """Return the env that a policy was trained in; None for a kind of policy that has none."""
    kind, options = parse_policy(reference)
    return kind.environment(options)


def policy_version(reference: PolicyID) -> str:
    """Return a text that changes when the reference means another policy than before, as `run:latest` may."""
    kind, options = parse_policy(reference)
    return kind.version(options)


def add_code_of(mapping: AgentMapping) -> None:
    """Add the folders in which the runs named by the mapping were started to the module search."""
    for _, reference in mapping.rules if isinstance(mapping, PolicyMapping) else ():
        kind, options = parse_policy(reference)
        add_code_folder(kind.code_folder(options))


def policy_notes(reference: PolicyID, spec: EnvSpec, agents: tuple[AgentID, ...] | None = None) -> tuple[str, ...]:
    """Return notes for the user on this policy in this env; raise InputError where it cannot play."""
    kind, options = parse_policy(reference)
    return kind.notes(options, PolicyRequest(reference, spec, spec.possible_agents if agents is None else agents))


def mapping_notes(mapping: AgentMapping, spec: EnvSpec) -> tuple[str, ...]:
    """Return the notes on all policies of the first episode."""
    sharing: dict[ControllerKey, tuple[AgentID, ...]] = {}
    for agent in spec.possible_agents:
        key = mapping.key_of(agent, 0)
        sharing[key] = (*sharing.get(key, ()), agent)
    notes = [note for key, agents in sharing.items() for note in policy_notes(key.policy, spec, agents)]
    return tuple(dict.fromkeys(notes))


def load_policy(
    reference: PolicyID,
    spec: EnvSpec,
    agents: tuple[AgentID, ...] | None = None,
    *,
    seed: int = 0,
    time_limit_s: float | None = DEFAULT_TIME_LIMIT_S,
) -> PolicyController:
    """Create a controller that may act for these agents (default: all) of this env."""
    kind, options = parse_policy(reference)
    agents = spec.possible_agents if agents is None else agents
    return kind.make(options, PolicyRequest(reference, spec, agents, seed, time_limit_s))
