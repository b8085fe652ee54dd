"""A policy that a run has trained: `run:RUN[@best|@latest|@STEP][/POLICY]`."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from pydantic import Field

from mosaic.core.errors import InputError, unknown
from mosaic.core.ids import AgentID
from mosaic.core.plugins import load_plugin
from mosaic.core.reference import Options
from mosaic.policies.controller import PolicyController, PolicyKind, PolicyRequest
from mosaic.policies.mapping import MappingError, PolicyMapping
from mosaic.store.checkpoints import Checkpoint, Which, find_checkpoint
from mosaic.store.home import Store
from mosaic.store.policy_group import PolicyGroup
from mosaic.store.trust import loading, require_trust, trust_given

_LOG = logging.getLogger(__name__)


class RunPolicyOptions(Options):
    run: str = Field(min_length=1, description="RUN[@best|@latest|@STEP][/POLICY]; RUN is an id, a unique beginning, "
                     "a name or latest.")  # fmt: skip


def parse_run_reference(text: str) -> tuple[str, Which, str | None]:
    """`nightly@best/red` → ("nightly", "best", "red"). Without @ the latest checkpoint is meant."""
    left, slash, policy = text.partition("/")
    run, at, which = left.partition("@")
    if not run or (at and not which) or (slash and not policy):
        raise InputError(f"'run:{text}' is not run:RUN[@best|@latest|@STEP][/POLICY], for example run:latest@best.")
    if which in ("", "latest"):
        return run, "latest", policy or None
    if which == "best":
        return run, "best", policy or None
    if not (which.isascii() and which.isdigit() and len(which) < 19):
        raise InputError(f"'@{which}' in 'run:{text}' is neither @best nor @latest nor a number of env steps.")
    return run, int(which), policy or None


def policy_for(checkpoint: Checkpoint, agent: AgentID) -> str:
    """The policy that the run gave this agent; the first whose patterns fit."""
    rules = PolicyMapping(
        tuple((pattern, name) for name, entry in checkpoint.manifest.policies.items() for pattern in entry.agents)
    )
    try:
        return rules.seat(agent).policy
    except MappingError as error:
        raise InputError(
            f"Run '{checkpoint.run.run_id}' trained no policy for agent '{agent}'. Name one of its policies: "
            f"run:{checkpoint.run.run_id}/POLICY with {_names(checkpoint)}."
        ) from error


def load_run_policy(checkpoint: Checkpoint, policy: str, request: PolicyRequest, *, trust: bool) -> PolicyController:
    """A controller made by the worker that wrote the checkpoint."""
    entry = checkpoint.manifest.policies.get(policy)
    if entry is None:
        raise unknown(f"policy of run '{checkpoint.run.run_id}'", policy, checkpoint.manifest.policies)
    name = entry.worker or checkpoint.manifest.worker
    worker = load_plugin("mosaic.workers", name)
    if not callable(getattr(worker, "controller", None)):
        raise InputError(
            f"Run '{checkpoint.run.run_id}' was trained by the worker '{name}', whose policies cannot play: "
            "it makes no controllers."
        )
    # What the manifest says may be forged, and its pickles may be files that only going on reads: the worker's own word
    # that playing unpickles nothing is what counts.
    if getattr(worker, "loads_pickles", True):
        require_trust(checkpoint, trust)
    with loading(checkpoint, trust):
        return cast(PolicyController, worker.controller(checkpoint, policy, request))


def _make(options: RunPolicyOptions, request: PolicyRequest) -> PolicyController:
    reference, which, policy = parse_run_reference(options.run)
    checkpoint = find_checkpoint(Store().resolve(reference), which)
    for message in checkpoint.skipped:
        _LOG.warning(message)
    if policy is not None:
        return load_run_policy(checkpoint, policy, request, trust=trust_given())
    known = request.agents if request.spec.possible_agents else ()  # else the env names its agents when they are born
    wanted = {policy_for(checkpoint, agent) for agent in known}
    if len(wanted) == 1:
        return load_run_policy(checkpoint, wanted.pop(), request, trust=trust_given())

    def make(name: str) -> PolicyController:
        agents = tuple(agent for agent in known if policy_for(checkpoint, agent) == name)
        return load_run_policy(checkpoint, name, replace(request, agents=agents), trust=trust_given())

    return PolicyGroup(lambda agent: policy_for(checkpoint, agent), make, wanted)


def _names(checkpoint: Checkpoint) -> str:
    policies: Mapping[str, Any] = checkpoint.manifest.policies
    return ", ".join(policies) or "none (this checkpoint names no policies)"


kind = PolicyKind(
    usage="run:RUN[@best|@latest|@STEP][/POLICY]",
    help="What a run has trained; without /POLICY the one that it gave the agent.",
    make=_make,
    options=RunPolicyOptions,
    first="run",
)
