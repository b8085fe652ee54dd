"""Files of one policy: built by its worker, traced, and compared with the controller that plays as `run:`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from mosaic.core.errors import InputError, MissingExtraError
from mosaic.core.ids import AgentID
from mosaic.core.plugins import load_plugin, plugins
from mosaic.envs.env import EnvSpec
from mosaic.envs.space_json import space_to_json
from mosaic.envs.vector.encoding import action_code
from mosaic.exports.formats import (
    DEFAULT_VERSIONS,
    ModuleGraph,
    OnnxVersions,
    Target,
    graph_ports,
    one_thread,
    read_torchscript,
    write_onnx,
    write_torchscript,
)
from mosaic.exports.godot import check_plug_in, plug_in_columns, spread_over
from mosaic.exports.observations import Sample, draw, record, usable
from mosaic.exports.parity import TOLERANCE, Parity, compare
from mosaic.exports.policy import ExportablePolicy
from mosaic.exports.progress import StepReport, ignore_step
from mosaic.policies.controller import PolicyController, PolicyRequest
from mosaic.policies.onnx.controller import OnnxGraph
from mosaic.policies.onnx.file import check_onnx
from mosaic.policies.onnx.interface import Graph, GraphFacts
from mosaic.store.archives.trust import loading, trust_given
from mosaic.store.checkpoint_record import Checkpoint, environment_of
from mosaic.store.policies.run_policy import load_run_policy, policy_for

if TYPE_CHECKING:
    from torch import nn

OBSERVATIONS = 1000


@dataclass(frozen=True, slots=True)
class ExportSettings:
    """Settings for writing and comparing files."""

    target: Target = "onnx"
    versions: OnnxVersions = DEFAULT_VERSIONS
    tolerance: float = TOLERANCE
    observations: int = OBSERVATIONS  # half of them recorded, half random


@dataclass(frozen=True, slots=True)
class TracedPolicy:
    """Content of a file, with how near it comes to its policy."""

    policy: str
    agents: tuple[AgentID, ...]
    data: bytes
    parity: Parity


def trace_policy(
    checkpoint: Checkpoint, policy: str, spec: EnvSpec, settings: ExportSettings, report: StepReport = ignore_step
) -> list[TracedPolicy]:
    """Export one policy: one file, or several where its agents have different spaces or preprocessing."""
    left = [agent for agent in spec.possible_agents if _plays(checkpoint, agent, policy)] or list(spec.possible_agents)
    if not left:
        raise InputError(f"{spec.env_id} does not name its agents ahead, so that their spaces are unknown.")
    made: list[TracedPolicy] = []
    while left:
        spaces = (spec.observation_spaces[left[0]], spec.action_spaces[left[0]])
        alike = [each for each in left if (spec.observation_spaces[each], spec.action_spaces[each]) == spaces]
        one = _one_file(checkpoint, policy, spec, tuple(alike), settings, report)
        made.append(one)
        left = [agent for agent in left if agent not in one.agents]
    return made


def _plays(checkpoint: Checkpoint, agent: AgentID, policy: str) -> bool:
    try:
        return policy_for(checkpoint, agent) == policy
    except InputError:
        return False


def _one_file(
    checkpoint: Checkpoint,
    policy: str,
    spec: EnvSpec,
    agents: tuple[AgentID, ...],
    settings: ExportSettings,
    report: StepReport,
) -> TracedPolicy:
    request = PolicyRequest(f"run:{checkpoint.origin}@{checkpoint.env_steps}/{policy}", spec, agents)
    config = environment_of(checkpoint)
    report("loading", 0, 0)
    with one_thread(), closing(load_run_policy(checkpoint, policy, request, trust=trust_given())) as controller:
        exportable = _exportable(checkpoint, policy, request)
        request = replace(request, agents=exportable.agents or agents)
        recorded = record(config, request.agents, controller, settings.observations // 2, report=report)
        masked = any(sample.turn.action_masks for sample in recorded)
        random = usable(draw(spec, request.agents, settings.observations - len(recorded), masked=masked), controller)
        if len(recorded) + len(random) < settings.observations:  # few members of its space are observations
            recorded = record(config, request.agents, controller, settings.observations - len(random), report=report)
        stochastic = checkpoint.manifest.policies[policy].stochastic
        data, parity = trace(
            controller, exportable, request, (recorded, random), settings, stochastic=stochastic, report=report
        )
    return TracedPolicy(policy, request.agents, data, parity)


def trace(
    controller: PolicyController,
    exportable: ExportablePolicy,
    request: PolicyRequest,
    samples: tuple[Sequence[Sample], Sequence[Sample]],
    settings: ExportSettings,
    *,
    stochastic: bool = False,
    report: StepReport = ignore_step,
) -> tuple[bytes, Parity]:
    """Return the content of a file for these agents, and its comparison with the controller on the samples."""
    from mosaic.exports.torch_parts import PolicyGraph

    spec, agent, memory = request.spec, request.agents[0], exportable.memory
    seen, acts = spec.observation_spaces[agent], spec.action_spaces[agent]
    masked = any(sample.turn.action_masks for part in samples for sample in part)
    plug_in = settings.target == "godot"
    if plug_in:
        check_plug_in(f"'{request.reference}'", seen, acts, masked=masked, memory=memory)
    width = action_code(acts).head.width
    parts = spec.facts.action_parts.get(agent, ()) if plug_in else ()
    columns = plug_in_columns(parts)
    spread = spread_over(columns, parts)
    ports = graph_ports(seen, len(spread) or width, mask=width if masked else 0, memory=memory, plug_in=plug_in)
    count = len(ports.inputs) - masked - bool(memory or plug_in)
    function = cast("nn.Module", exportable.function).eval()
    module = PolicyGraph(
        function, acts, count=count, masked=masked, memory=memory, plug_in=plug_in, spread=spread
    ).eval()
    facts = GraphFacts(
        observation=space_to_json(seen),
        action=space_to_json(acts),
        masked=masked,
        memory=memory,
        stochastic=stochastic,
        columns=columns,
        environment=spec.env_id,
        origin=request.reference,
        agents=request.agents,
    )
    graph: Graph
    report("tracing", 0, 0)
    if settings.target == "torchscript":
        data = write_torchscript(module, ports, facts)
        graph = read_torchscript(request.reference, data, ports)
    else:
        data = write_onnx(module, ports, facts, settings.versions)
        graph = OnnxGraph(check_onnx(request.reference, data))
    traced = ModuleGraph(request.reference, module, ports, facts)
    with one_thread():
        return data, compare(controller, traced, graph, request, samples, settings.tolerance, report)


def _exportable(checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> ExportablePolicy:
    name = checkpoint.manifest.policies[policy].worker or checkpoint.manifest.worker
    worker = load_plugin("mosaic.workers", name)
    make = getattr(worker, "exportable", None)
    if not callable(make):
        able = [each for each in plugins("mosaic.workers") if callable(getattr(_loaded(each), "exportable", None))]
        raise InputError(
            f"'{policy}' was trained by the worker '{name}', whose policies cannot be exported. Workers whose policies "
            f"can: {', '.join(sorted(able))}."
        )
    with loading(checkpoint, trust_given()):  # a user's own network is code
        return cast(ExportablePolicy, make(checkpoint, policy, request))


def _loaded(worker: str) -> object:
    try:
        return load_plugin("mosaic.workers", worker)
    except MissingExtraError:
        return None
