"""Contents of a bundle: weights without pickles, ONNX files, and what the policies see and do."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

from gymnasium.spaces import Space

from mosaic.config.loading import dump_run_config
from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError, MissingExtraError, TrustError
from mosaic.core.files import sync_file
from mosaic.core.ids import AgentID
from mosaic.envs.env import EnvSpec
from mosaic.envs.space_json import space_to_json
from mosaic.envs.vector.encoding import action_code, leaves
from mosaic.exports.export import file_names, refuse_failures
from mosaic.exports.tracing import ExportSettings, trace_policy
from mosaic.policies.onnx.controller import read_facts
from mosaic.policies.onnx.file import check_onnx
from mosaic.policies.onnx.interface import leaf_names
from mosaic.store.bundles.manifest import (
    GRAPHS,
    LOADED,
    WEIGHTS,
    BundledPolicy,
    Decoding,
    GraphEntry,
    Preprocessing,
    TrainingSummary,
    check_name,
)
from mosaic.store.checkpoints import Checkpoint
from mosaic.store.index.summary import last_metrics
from mosaic.store.policies.run_policy import policy_for


def add_weights(checkpoint: Checkpoint, policies: Sequence[str], folder: Path) -> dict[str, tuple[str, ...]]:
    """Copy the files that policies are played from, without any that could hold code; return the names of each's."""
    manifest = checkpoint.manifest
    files: dict[str, tuple[str, ...]] = {}
    for policy in policies:
        listed = manifest.policies[policy].files
        if not any(_is_weights(name) for name in listed):  # it shares files with other policies of the checkpoint
            listed = tuple(manifest.files)
        files[policy] = tuple(sorted(name for name in listed if PurePosixPath(name).suffix in LOADED))
        if not any(_is_weights(name) for name in files[policy]):
            raise InputError(
                f"The files of policy '{policy}' ({', '.join(listed)}) may hold code, and a bundle has none of it. "
                f"Policies in {', '.join(LOADED)} files can be bundled."
            )
    for name in dict.fromkeys(name for names in files.values() for name in names):
        check_name(f"{WEIGHTS}/{name}", f"The checkpoint '{checkpoint.path}'")
        target = folder / WEIGHTS / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(checkpoint.path / name, target)
        sync_file(target)
    return files


def _is_weights(name: str) -> bool:
    return PurePosixPath(name).suffix in LOADED and PurePosixPath(name).suffix != ".json"


def describe_policy(checkpoint: Checkpoint, policy: str, weights: tuple[str, ...], spec: EnvSpec) -> BundledPolicy:
    """Describe one policy, for its first agent if their spaces differ."""
    entry = checkpoint.manifest.policies[policy]
    agents = [agent for agent in spec.possible_agents if _plays(checkpoint, agent, policy)]
    preprocessing, decoding = Preprocessing(), tuple[Decoding, ...]()
    if agents:
        seen, acts = spec.observation_spaces[agents[0]], spec.action_spaces[agents[0]]
        inputs = {name: space_to_json(leaf.space) for name, leaf in zip(leaf_names(seen), leaves(seen), strict=True)}
        preprocessing = Preprocessing(inputs=inputs, normalized=entry.normalized)
        decoding = tuple(_decoding(leaf.space) for leaf in leaves(acts))
    return BundledPolicy(
        agents=entry.agents,
        worker=entry.worker or checkpoint.manifest.worker,
        stochastic=entry.stochastic,
        weights=weights,
        preprocessing=preprocessing,
        decoding=decoding,
    )


def _decoding(space: Space[object]) -> Decoding:
    head = action_code(space).head
    if head.kind == "gaussian":
        return Decoding(kind="numbers", width=head.width)
    start = getattr(space, "start", 0)
    return Decoding(kind="choice", sizes=head.sizes, start=int(start) if isinstance(start, int) else 0)


def _plays(checkpoint: Checkpoint, agent: AgentID, policy: str) -> bool:
    try:
        return policy_for(checkpoint, agent) == policy
    except InputError:
        return False


def add_graphs(
    checkpoint: Checkpoint, policy: str, described: BundledPolicy, spec: EnvSpec, folder: Path
) -> BundledPolicy:
    """Write the ONNX files of a policy; where it has none, the reason. A file that differs from its policy fails."""
    settings = ExportSettings()
    try:
        traced = trace_policy(checkpoint, policy, spec, settings)
    except (TrustError, MissingExtraError):
        raise
    except InputError as error:
        return described.model_copy(update={"onnx_refused": str(error)})
    refuse_failures(traced, settings)
    (folder / GRAPHS).mkdir(exist_ok=True)
    entries = []
    for name, each in zip(file_names(traced), traced, strict=True):
        file = _free_name(folder, name)
        check_name(file, f"The policy '{policy}'")
        (folder / file).write_bytes(each.data)
        sync_file(folder / file)
        entries.append(GraphEntry(file=file, agents=each.agents, parity=each.parity.to_json()))
    facts = read_facts(policy, check_onnx(policy, traced[0].data).facts())
    assert facts is not None
    update = {"masked": facts.masked, "memory": facts.memory}
    return described.model_copy(
        update={"onnx": tuple(entries), "preprocessing": described.preprocessing.model_copy(update=update)}
    )


def _free_name(folder: Path, name: str) -> str:
    """Return a name that no policy has yet: two may differ only in characters that file names do not have."""
    taken = {each.name.casefold() for each in (folder / GRAPHS).iterdir()}
    plain = f"{name}.onnx"
    number = 2
    while plain.casefold() in taken:
        plain, number = f"{name}-{number}.onnx", number + 1
    return f"{GRAPHS}/{plain}"


def summarize_training(checkpoint: Checkpoint, config: RunConfig) -> TrainingSummary:
    manifest, last = checkpoint.manifest, last_metrics(checkpoint.run.metrics)
    event = last.event if last.env_steps == checkpoint.env_steps else {}  # of this checkpoint, not of a later one
    counts = {key: event.get(key) for key in ("agent_steps", "episodes_total")}
    training = dump_run_config(config)["training"]
    return TrainingSummary(
        algorithm=training["algorithm"],
        env_steps=checkpoint.env_steps,
        agent_steps=counts["agent_steps"] if isinstance(counts["agent_steps"], int) else None,
        episodes=counts["episodes_total"] if isinstance(counts["episodes_total"], int) else None,
        reward_mean=manifest.reward,
        rating=manifest.rating,
        best_by=manifest.best_by,
        seed=manifest.seed,
        policy_configuration=config.policy_configuration,
        params=training["params"],
    )
