"""Policy of a bundle, which anyone may have made: `bundle:PATH[,policy=NAME][,engine=onnx]`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from mosaic.core.errors import InputError, MissingExtraError, TrustError, UnknownNameError, unknown
from mosaic.core.files import file_stamp
from mosaic.core.ids import AgentID
from mosaic.policies.controller import PolicyController, PolicyKind, PolicyRequest, TrainedPolicyOptions
from mosaic.policies.onnx.policy import graph_notes, load_graph_policy
from mosaic.store.archives.trust import trust_given
from mosaic.store.bundles.bundle import Bundle, open_bundle
from mosaic.store.bundles.manifest import MANIFEST
from mosaic.store.checkpoint_record import environment_of
from mosaic.store.checkpoints import Checkpoint
from mosaic.store.policies.run_policy import PolicyGroup, load_run_policy, make_trained, policy_for, trained_notes
from mosaic.store.policies.trained_spaces import check_spaces, foreign_env_note

_LOG = logging.getLogger(__name__)
# Why weights are not played, although the file is whole: their worker or its packages are not here, or they name code.
_NOT_HERE = (TrustError, MissingExtraError, UnknownNameError)


class BundlePolicyOptions(TrainedPolicyOptions):
    path: str = Field(min_length=1, description="Folder that `mosaic bundle` or `mosaic pull` wrote.")
    policy: str | None = Field(None, min_length=1, description="One of its policies; default: each agent's own.")
    engine: Literal["weights", "onnx"] | None = Field(
        None, description="What is played; default: the weights, and the ONNX file where the weights cannot be."
    )


def _open(options: BundlePolicyOptions) -> Bundle:
    bundle = open_bundle(Path(options.path).expanduser().absolute())
    if options.policy is not None and options.policy not in bundle.manifest.policies:
        raise unknown(f"policy of the bundle '{bundle.path}'", options.policy, bundle.manifest.policies)
    return bundle


def _agents_of(bundle: Bundle, policy: str | None, request: PolicyRequest) -> Mapping[str, tuple[AgentID, ...]]:
    """Return the agents of each policy; where an env does not name its agents ahead, all are given one policy."""
    names = tuple(bundle.manifest.policies)
    if policy is not None:
        return {policy: request.agents}
    if not request.spec.possible_agents:
        if len(names) > 1:
            raise InputError(f"'{request.reference}' has {len(names)} policies. Name one: policy={names[0]}")
        return {names[0]: request.agents}
    groups: dict[str, tuple[AgentID, ...]] = {}
    checkpoint = bundle.checkpoint()
    for agent in request.agents:
        name = _policy_for(checkpoint, agent, request.reference)
        groups[name] = (*groups.get(name, ()), agent)
    return groups


def _policy_for(checkpoint: Checkpoint, agent: AgentID, reference: str) -> str:
    try:
        return policy_for(checkpoint, agent)
    except InputError as error:
        names = ", ".join(checkpoint.manifest.policies)
        raise InputError(
            f"'{reference}' holds no policy for agent '{agent}'. Name one of its policies, {names}: "
            f"bundle:{checkpoint.path.parent},policy=NAME"
        ) from error


def _make(options: BundlePolicyOptions, request: PolicyRequest) -> PolicyController:
    bundle = _open(options)
    groups = _agents_of(bundle, options.policy, request)
    made = {name: _one(bundle, name, agents, options, request) for name, agents in groups.items()}
    if len(made) == 1:
        return next(iter(made.values()))
    owner = {agent: name for name, agents in groups.items() for agent in agents}
    return PolicyGroup(owner.__getitem__, made.__getitem__, made)


def _one(
    bundle: Bundle, name: str, agents: tuple[AgentID, ...], options: BundlePolicyOptions, request: PolicyRequest
) -> PolicyController:
    """Return a controller of one policy, by its weights if its worker can play them here."""
    checkpoint, wanted = bundle.checkpoint(), replace(request, agents=agents)
    check_spaces(checkpoint, name, wanted)
    if options.engine != "onnx":
        try:
            return make_trained(checkpoint, name, options, wanted, trust=trust_given())
        except _NOT_HERE as error:
            if options.engine == "weights" or not bundle.manifest.policies[name].onnx:
                raise
            _LOG.warning(_fallback(request.reference, name, error))
    files = _graphs(bundle, name, wanted)
    made = {
        file: load_graph_policy(bundle.path / file, options, replace(wanted, agents=its)) for file, its in files.items()
    }
    if len(made) == 1:
        return next(iter(made.values()))
    owner = {agent: file for file, its in files.items() for agent in its}
    return PolicyGroup(owner.__getitem__, made.__getitem__, made)


def _graphs(bundle: Bundle, name: str, request: PolicyRequest) -> Mapping[str, tuple[AgentID, ...]]:
    """Return the agents of each ONNX file of a policy; there are several where their spaces differ."""
    policy = bundle.manifest.policies[name]
    if not policy.onnx:
        raise InputError(f"The policy '{name}' of '{bundle.path}' has no ONNX file: {policy.onnx_refused}")
    if len(policy.onnx) == 1:
        return {policy.onnx[0].file: request.agents}
    owner = {agent: each.file for each in policy.onnx for agent in each.agents}
    strangers = [agent for agent in request.agents if agent not in owner]
    if strangers:
        raise unknown(f"agent of '{request.reference}' with an ONNX file", strangers[0], owner)
    files = dict.fromkeys(owner[agent] for agent in request.agents)
    return {file: tuple(agent for agent in request.agents if owner[agent] == file) for file in files}


def _notes(options: BundlePolicyOptions, request: PolicyRequest) -> tuple[str, ...]:
    """Refuse an env that the policies do not fit, and say what is not as in training."""
    bundle = _open(options)
    checkpoint = bundle.checkpoint()
    notes: list[str] = []
    for name, agents in _agents_of(bundle, options.policy, request).items():
        wanted = replace(request, agents=agents)
        check_spaces(checkpoint, name, wanted)
        if options.engine != "onnx":
            try:
                load_run_policy(checkpoint, name, wanted, trust=trust_given()).close()
                notes += trained_notes(checkpoint, name, options, wanted)
                continue
            except _NOT_HERE as error:
                if options.engine == "weights" or not bundle.manifest.policies[name].onnx:
                    raise
                notes.append(_fallback(request.reference, name, error))
        note = foreign_env_note(checkpoint, wanted)
        notes += [] if note is None else [note]
        for file, its in _graphs(bundle, name, wanted).items():
            notes += graph_notes(bundle.path / file, options, replace(wanted, agents=its))
    return tuple(dict.fromkeys(notes))


def _fallback(reference: str, policy: str, error: InputError) -> str:
    return f"'{reference}' plays the ONNX file of '{policy}' instead of its weights: {error}"


kind = PolicyKind(
    usage="bundle:PATH[,policy=NAME][,engine=weights|onnx][,sample=true][,temperature=T]",
    help="Policy of a bundle, made by `mosaic bundle` or fetched by `mosaic pull`; no code in it is run.",
    make=_make,
    notes=_notes,
    environment=lambda options: environment_of(_open(options).checkpoint()),
    options=BundlePolicyOptions,
    first="path",
    version=lambda options: file_stamp(Path(options.path).expanduser() / MANIFEST),
)
