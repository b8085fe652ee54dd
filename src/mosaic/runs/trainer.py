"""Trainer: the API through which scripts and user interfaces submit and find runs."""

from __future__ import annotations

import secrets
import time
from collections.abc import Collection, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import TypeAlias, TypedDict, Unpack

from mosaic.config.file_formats import read_document
from mosaic.config.loading import load_run_config, parse_run_config
from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError, unknown
from mosaic.core.reference import parse_options, split_reference, without_search
from mosaic.core.seeding import child_seed
from mosaic.core.user_code import check_not_imported
from mosaic.runs.launch import RunAliveError
from mosaic.runs.run import Run
from mosaic.store.archives.trust import require_trust_in_file, require_trust_to_play
from mosaic.store.checkpoints import Checkpoint, Which, find_checkpoint, list_checkpoints
from mosaic.store.index.summary import RunSummary
from mosaic.store.policies.init_source import find_init, parse_init
from mosaic.store.policies.run_policy import RunPolicyOptions, parse_run_reference
from mosaic.store.projects.registry import ProjectRegistry
from mosaic.store.run_folder import new_run_id
from mosaic.store.state import State
from mosaic.store.store import Store
from mosaic.workers.api import ChecksDataset, ChecksInit
from mosaic.workers.registry import load_worker, parse_params
from mosaic.workers.resolution import ResolvedConfig, resolve


def group_members(config: RunConfig, seeds: int) -> tuple[str, list[RunConfig]]:
    """Return the group's id and its runs' configurations."""
    if seeds < 1:
        raise InputError(f"A group has at least one run, not {seeds}.")
    group = config.run_id or new_run_id(config.environment.id, time.time(), secrets.randbelow)
    return group, [_member(config, number) for number in range(1, seeds + 1)]


def _member(config: RunConfig, number: int) -> RunConfig:
    """Derive the seed from the configuration's own and the number, so that a larger group contains the smaller one's
    runs.
    """
    changes: dict[str, object] = {"seed": child_seed(config.seed, "group", number)}
    for key, text in (("run_id", config.run_id), ("name", config.name)):
        if text:
            changes[key] = f"{text}-{number}"
    return parse_run_config({**config.model_dump(mode="json"), **changes})


def check_mentioned_runs(config: RunConfig, store: Store, *, trust: bool | None = None) -> None:
    """Raise InputError for a run that does not exist, and for a policy that needs code of a run that is not trusted.

    A run that has saved nothing yet may still do so in time.
    """
    for reference in map(without_search, _references(config)):
        kind, text = split_reference(reference)
        if kind == "run":
            asked = parse_run_reference(parse_options(reference, text, RunPolicyOptions, first="run").run)
            saved = _find(*asked, store)
            if saved is not None:
                policy = asked[2]
                require_trust_to_play(saved, saved.manifest.policies if policy is None else (policy,), trust)
    if config.training.init is not None and split_reference(config.training.init)[0] == "run":
        parsed = parse_init(config.training.init)
        assert isinstance(parsed, tuple)
        _find(*parsed[:3], store)  # reads its weights, and no code that it names


def check_init(resolved: ResolvedConfig, store: Store) -> None:
    """Raise InputError for weights to start from that do not fit, where the worker can tell before the run."""
    config, spec = resolved.config, resolved.spec
    worker = load_worker(config.training.worker or "")
    if config.training.init is None or spec is None or not isinstance(worker, ChecksInit):
        return
    source = find_init(config.training.init, store, missing_ok=True)
    if source is not None:
        options = parse_params(worker, config.training.algorithm or "", dict(config.training.params))
        worker.check_init(config, options, spec, source)


def check_dataset(resolved: ResolvedConfig, store: Store) -> None:
    """Raise InputError for recorded steps to learn from that are missing or do not fit."""
    config, spec = resolved.config, resolved.spec
    worker = load_worker(config.training.worker or "")
    if spec is not None and isinstance(worker, ChecksDataset):
        options = parse_params(worker, config.training.algorithm or "", dict(config.training.params))
        worker.check_dataset(config, options, spec, store.home)


def _find(run: str, which: Which, policy: str | None, store: Store) -> Checkpoint | None:
    folder = store.resolve(run)
    last = max((each.env_steps for each in list_checkpoints(folder)), default=-1)
    if last < 0 or (isinstance(which, int) and which > last):
        return None
    saved = find_checkpoint(folder, which)
    if policy is not None and policy not in saved.manifest.policies:
        raise unknown(f"policy of run '{run}'", policy, saved.manifest.policies)
    return saved


def _references(config: RunConfig) -> Iterator[str]:
    if not isinstance(config.agents, str):  # else code names them
        yield from config.agents.values()
    yield from config.evaluation.opponents
    opponents = config.training.params.get("opponents", ())
    if isinstance(opponents, list | tuple):
        yield from (each for each in opponents if isinstance(each, str))


class RunFilter(TypedDict, total=False):
    """Filter for a list of runs; a run must match all given criteria."""

    states: Collection[State]
    tags: Collection[str]
    env: str | None
    worker: str | None
    group: str | None


Asked: TypeAlias = RunConfig | Mapping[str, object] | str | PathLike[str]


class Trainer:
    """Access to the runs of one store. Nothing has to stay open: a run is independent once it is started."""

    def __init__(self, home: Path | None = None) -> None:
        """Use the store in `home`, or else in $MOSAIC_HOME."""
        self.store = Store(home)

    def submit(self, config: Asked | ResolvedConfig, *, start: bool = True, group: str | None = None) -> Run:
        """Create a run from a configuration, a document, or a file with one; submitting twice creates two runs."""
        check_not_imported("a run")
        resolved = config if isinstance(config, ResolvedConfig) else resolve(read_config(config))
        self.check(resolved)
        return self._create(resolved, group or "", start)

    def check(self, resolved: ResolvedConfig) -> None:
        """Raise InputError for runs, weights and datasets that are named and are missing or do not fit."""
        check_mentioned_runs(resolved.config, self.store)
        check_init(resolved, self.store)
        check_dataset(resolved, self.store)

    def submit_group(self, config: Asked | ResolvedConfig, seeds: int, *, start: bool = True) -> list[Run]:
        """Create runs that differ only in the seed, so that their curves can be aggregated."""
        check_not_imported("a run")
        asked = config.asked if isinstance(config, ResolvedConfig) else read_config(config)
        group, members = group_members(asked, seeds)
        if asked.environment.family == "external" and seeds > 1:
            raise InputError(
                f"{asked.environment.id}: one run listens on a port, and {seeds} would. Leave --seeds out."
            )
        resolved = config if isinstance(config, ResolvedConfig) else resolve(asked)
        self.check(resolved)
        return [self._create(resolved.renamed(member), group, start) for member in members]

    @property
    def projects(self) -> ProjectRegistry:
        """Return the projects that this store knows."""
        return self.store.projects

    def run(self, reference: str) -> Run:
        """Find a run by its id, a unique prefix of it, its name, or `latest`."""
        return Run(self.store, self.store.resolve(reference))

    def runs(self, *, project: str | None = None, **wanted: Unpack[RunFilter]) -> list[Run]:
        """Return the runs, newest first; `wanted` as for `summaries`."""
        return [Run(self.store, self.store.folder(each.run_id)) for each in self.summaries(project=project, **wanted)]

    def summaries(self, *, project: str | None = None, **wanted: Unpack[RunFilter]) -> list[RunSummary]:
        """Return one summary per run, newest first. `wanted`: states, tags, env, worker, group."""
        return self.store.index.list(**wanted, projects=self.store.project_names(project))

    def _create(self, resolved: ResolvedConfig, group: str, start: bool) -> Run:
        run = Run(self.store, self.store.create(resolved.config, group=group, asked=resolved.asked))
        if start:
            _start(run)
        return run


def _start(run: Run) -> None:
    """Start a new run, which waits in the queue for a moment: a server of this store may start it first."""
    try:
        run.start()
    except RunAliveError:
        pass
    except InputError:
        if run.state is State.QUEUED:
            raise


def read_config(asked: Asked) -> RunConfig:
    match asked:
        case RunConfig():
            return asked
        case str() | PathLike():
            require_trust_in_file(Path(asked), read_document(asked))
            return load_run_config(asked)
        case _:
            return parse_run_config(asked)
