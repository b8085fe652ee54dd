"""Policy trained by a run: `run:RUN[@best|@latest|@STEP][/POLICY][,sample=true]`."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from itertools import groupby
from typing import cast

from pydantic import Field

from mosaic.core.errors import InputError, unknown
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.lazy import Lookup
from mosaic.core.plugins import load_plugin
from mosaic.core.reference import parse_options, split_reference
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Action, Turn
from mosaic.core.user_code import add_code_folder
from mosaic.envs.env import EnvSpec
from mosaic.policies.controller import (
    Explains,
    Explanation,
    PolicyController,
    PolicyKind,
    PolicyRequest,
    Remembers,
    Sampling,
    TrainedPolicyOptions,
    default_sampling,
    explains_from_memory,
    sampling_note,
)
from mosaic.policies.mapping import MappingError, PolicyMapping
from mosaic.store.archives.trust import foreign, loading, require_trust, trust_given
from mosaic.store.checkpoint_record import environment_of
from mosaic.store.checkpoints import Checkpoint, Which, find_checkpoint
from mosaic.store.policies.trained_spaces import check_spaces, foreign_env_note
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import read_written_state
from mosaic.store.store import Store

_LOG = logging.getLogger(__name__)


class PolicyGroup:
    """Controller of several policies of one run, each of which acts for its own agents."""

    def __init__(
        self,
        policy_of: Callable[[AgentID], str],
        make: Callable[[str], PolicyController],
        policies: Iterable[str],
    ) -> None:
        """Create the controllers of `policies` now; others follow when an agent that has them is created."""
        self._policy_of: Lookup[AgentID, str] = Lookup(policy_of)
        self._controllers: Lookup[str, PolicyController] = Lookup(make, sorted(policies))
        self._begun: set[str] = set()
        self._seed = 0

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._seed = seed
        self._begun.clear()
        for policy, members in self._groups(agents):
            self._ready(policy, members)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        actions: dict[AgentID, Action] = {}
        for policy, members in self._groups(turn.observations):
            actions.update(self._ready(policy, members).act(turn.only(members)))
        return actions

    def explain(self, turn: Turn) -> dict[AgentID, Explanation]:
        opinions = dict.fromkeys(turn.observations, Explanation(None, None))
        for policy, members in self._groups(turn.observations):
            controller = self._ready(policy, members)
            if isinstance(controller, Explains):
                opinions.update(controller.explain(turn.only(members)))
        return opinions

    @property
    def remembers(self) -> bool:
        return any(map(explains_from_memory, self._controllers.values()))

    def forget(self, agent: AgentID) -> None:
        controller = self._controllers[self._policy_of[agent]]
        if isinstance(controller, Remembers):
            controller.forget(agent)

    def close(self) -> None:
        for controller in self._controllers.values():
            controller.close()

    def _groups(self, agents: Iterable[AgentID]) -> list[tuple[str, tuple[AgentID, ...]]]:
        ordered = sorted(agents, key=self._policy_of.__getitem__)
        return [(policy, tuple(members)) for policy, members in groupby(ordered, self._policy_of.__getitem__)]

    def _ready(self, policy: str, members: tuple[AgentID, ...]) -> PolicyController:
        controller = self._controllers[policy]
        if policy not in self._begun:
            controller.begin(members, child_seed(self._seed, policy))
            self._begun.add(policy)
        return controller


class RunPolicyOptions(TrainedPolicyOptions):
    run: str = Field(min_length=1, description="RUN[@best|@latest|@STEP][/POLICY]; RUN is an id, a unique "
                     "prefix, a name or latest.")  # fmt: skip


def parse_run_reference(text: str) -> tuple[str, Which, str | None]:
    """Parse `nightly@best/red` → ("nightly", "best", "red"). Without @ it means the latest checkpoint."""
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


def fix_run(reference: PolicyID) -> PolicyID:
    """Return a reference with its run's id where a name may mean another run later: `run:latest` → `run:ID`."""
    name, _ = split_reference(reference)
    if name != "run":
        return reference
    asked = parse_options(reference, split_reference(reference)[1], RunPolicyOptions, "run").run
    run = parse_run_reference(asked)[0]
    return reference.replace(asked, Store().resolve(run).run_id + asked.removeprefix(run), 1)


def policy_for(checkpoint: Checkpoint, agent: AgentID) -> str:
    """Return the policy that the run gave this agent, the first whose patterns match.

    An agent that does not exist in the training env gets the run's policy where there is only one.
    """
    manifest = checkpoint.manifest
    if len(manifest.policies) == 1 and manifest.spaces and agent not in manifest.spaces:
        return next(iter(manifest.policies))
    rules = PolicyMapping(
        tuple((pattern, name) for name, entry in checkpoint.manifest.policies.items() for pattern in entry.agents)
    )
    try:
        return rules.key_of(agent).policy
    except MappingError as error:
        form = f"checkpoint:{checkpoint.path},policy=" if checkpoint.outside else f"run:{checkpoint.origin}/"
        raise InputError(
            f"Run '{checkpoint.origin}' trained no policy for agent '{agent}'. Name one of its policies: "
            f"{form}POLICY with {_names(checkpoint)}."
        ) from error


def load_run_policy(checkpoint: Checkpoint, policy: str, request: PolicyRequest, *, trust: bool) -> PolicyController:
    """Return a controller made by the worker that wrote the checkpoint, for an env with the spaces of training."""
    name = _worker_of(checkpoint, policy)
    worker = load_plugin("mosaic.workers", name)
    if not callable(getattr(worker, "controller", None)):
        raise InputError(
            f"Run '{checkpoint.origin}' was trained by the worker '{name}', whose policies cannot play: "
            "it makes no controllers."
        )
    check_spaces(checkpoint, policy, request)
    # The manifest may be forged, and its pickles may be files that are read only to resume:
    # only the worker's own statement that playing does not unpickle anything counts.
    if getattr(worker, "loads_pickles", True):
        require_trust(checkpoint, trust)
    add_code_folder("" if checkpoint.outside else code_folder(checkpoint.run))
    with loading(checkpoint, trust):
        return cast(PolicyController, worker.controller(checkpoint, policy, request))


def code_folder(run: RunFolder) -> str:
    """Return the directory where a run of this store was started, which holds its modules; empty for a foreign run."""
    return "" if foreign(run) else read_written_state(run).working_folder


def _make(options: RunPolicyOptions, request: PolicyRequest) -> PolicyController:
    checkpoint, policy = _find(options)
    for message in checkpoint.skipped:
        _LOG.warning(message)
    return make_trained(checkpoint, policy, options, request, trust=trust_given())


def make_trained(
    checkpoint: Checkpoint, policy: str | None, options: TrainedPolicyOptions, request: PolicyRequest, *, trust: bool
) -> PolicyController:
    """Return a controller for one policy of a checkpoint, or for each agent's own if `policy` is None."""

    def make(name: str, agents: tuple[AgentID, ...]) -> PolicyController:
        wanted = replace(request, agents=agents, sampling=_sampling(options, checkpoint, name, request.spec))
        return load_run_policy(checkpoint, name, wanted, trust=trust)

    if policy is not None:
        return make(policy, request.agents)
    groups = _groups(checkpoint, request)
    if len(groups) == 1:
        return make(*next(iter(groups.items())))
    return PolicyGroup(
        lambda agent: policy_for(checkpoint, agent), lambda name: make(name, groups.get(name, ())), groups
    )


def _notes(options: RunPolicyOptions, request: PolicyRequest) -> tuple[str, ...]:
    return trained_notes(*_find(options), options, request)


def trained_notes(
    checkpoint: Checkpoint, policy: str | None, options: TrainedPolicyOptions, request: PolicyRequest
) -> tuple[str, ...]:
    groups = _groups(checkpoint, request) if policy is None else {policy: request.agents}
    notes = [] if (note := foreign_env_note(checkpoint, request)) is None else [note]
    for name, agents in groups.items():
        _worker_of(checkpoint, name)
        check_spaces(checkpoint, name, replace(request, agents=agents))
        if options.sample is None and options.temperature is None:
            sampled = _sampling(options, checkpoint, name, request.spec) is not None
            notes += [sampling_note(request)] if sampled else []
    return tuple(dict.fromkeys(notes))


def _find(options: RunPolicyOptions) -> tuple[Checkpoint, str | None]:
    reference, which, policy = parse_run_reference(options.run)
    folder = Store().resolve(reference)
    checkpoint = find_checkpoint(folder, which, missing_ok=True)
    if checkpoint is None:
        worker = json.loads(folder.config.read_bytes())["training"].get("worker")
        saves = "Its program has saved no policy; it can, with a line @CHECKPOINT." if worker == "script" else ""
        raise InputError(f"Run '{folder.run_id}' has no checkpoint yet. {saves}".rstrip())
    return checkpoint, policy


def _groups(checkpoint: Checkpoint, request: PolicyRequest) -> dict[str, tuple[AgentID, ...]]:
    """Return the agents of each policy; empty where the env names its agents only when they are created."""
    groups: dict[str, tuple[AgentID, ...]] = {}
    for agent in request.agents if request.spec.possible_agents else ():
        name = policy_for(checkpoint, agent)
        groups[name] = (*groups.get(name, ()), agent)
    return groups


def _worker_of(checkpoint: Checkpoint, policy: str) -> str:
    entry = checkpoint.manifest.policies.get(policy)
    if entry is None:
        raise unknown(f"policy of run '{checkpoint.origin}'", policy, checkpoint.manifest.policies)
    return entry.worker or checkpoint.manifest.worker


def _sampling(options: TrainedPolicyOptions, checkpoint: Checkpoint, policy: str, spec: EnvSpec) -> Sampling | None:
    """Return the requested sampling, or else the default of the game: see `default_sampling`."""
    name = _worker_of(checkpoint, policy)
    info = getattr(load_plugin("mosaic.workers", name), "info", None)
    able = bool(getattr(info, "samples", False))
    if options.sample or options.temperature is not None:
        if not able:
            raise InputError(
                f"The worker '{name}', which trained run '{checkpoint.origin}', plays the best action only: "
                "leave sample and temperature out."
            )
        return Sampling(options.temperature)
    if options.sample is False or not able:
        return None
    return default_sampling(spec, stochastic=checkpoint.manifest.policies[policy].stochastic)


def _names(checkpoint: Checkpoint) -> str:
    return ", ".join(checkpoint.manifest.policies) or "none (this checkpoint names no policies)"


def _version(options: RunPolicyOptions) -> str:
    checkpoint, _ = _find(options)
    return f"{checkpoint.path} {checkpoint.digest}"


kind = PolicyKind(
    usage="run:RUN[@best|@latest|@STEP][/POLICY][,sample=true][,temperature=T]",
    help="Policy trained by a run; without /POLICY, the one assigned to the agent.",
    make=_make,
    notes=_notes,
    code_folder=lambda options: code_folder(Store().resolve(parse_run_reference(options.run)[0])),
    environment=lambda options: environment_of(_find(options)[0]),
    options=RunPolicyOptions,
    first="run",
    version=_version,
)
