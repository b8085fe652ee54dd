"""Work of an export job: the request carried out, and its result."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mosaic.config.export import ExportRequest
from mosaic.core.errors import InputError, MosaicError
from mosaic.exports.export import (
    MAPPING,
    ExportedFile,
    ExportFailedError,
    check_request,
    check_target,
    export_to,
    report_of,
    settings_of,
)
from mosaic.exports.foreign import checkpoint_at, find_named, is_path
from mosaic.exports.formats import SUFFIXES
from mosaic.exports.parity import Parity
from mosaic.exports.progress import ProgressReport
from mosaic.runs.exporting.record import FILES, ComparedFile, ExportResult, WrittenFile
from mosaic.store.archives.trust import require_trust_in_env
from mosaic.store.checkpoints import Checkpoint, Which, find_checkpoint, held_checkpoint, holding
from mosaic.store.run_folder import RunFolder
from mosaic.store.store import Store


@contextmanager
def open_checkpoint(request: ExportRequest, store: Store) -> Iterator[Checkpoint]:
    """Open the checkpoint that the request names; one of another program exists until the block ends."""
    if is_path(request.run):
        with checkpoint_at(request.run, request.environment) as named:
            yield named
    else:
        with held_checkpoint(store.resolve(request.run), _which(request)) as found:
            require_trust_in_env(found)
            yield found


@contextmanager
def holding_for(request: ExportRequest, store: Store) -> Iterator[tuple[int, ...]]:
    """Keep the checkpoint of a checked request from being pruned; yield what a job's process inherits to keep it."""
    if is_path(request.run):
        yield ()
        return
    with holding(store.folder(request.run).checkpoints / str(request.checkpoint)) as lock:
        yield () if lock is None else (lock,)


def env_of(request: ExportRequest, store: Store) -> str:
    """Return the name of the env in which observations are recorded."""
    if is_path(request.run):
        return find_named(request.run, request.environment).environment
    return store.folder(request.run).read_config().environment.id


def _which(request: ExportRequest) -> Which:
    return request.checkpoint  # type: ignore[return-value]  # the model allows nothing else


def check_ahead(request: ExportRequest, store: Store) -> ExportRequest:
    """Raise InputError for what is known to fail before anything is loaded; return the request with fixed choices.

    `latest` and names of runs may mean something else by the time that a job starts, and in its history.
    """
    if request.out is None and request.overwrite:
        raise InputError("'overwrite' belongs to a file or folder that 'out' names: name it, or leave it out.")
    out = None if request.out is None else Path(request.out).expanduser().absolute()
    target, settings, overwrite = out or Path(FILES), settings_of(request), request.overwrite or out is None
    if is_path(request.run):
        if request.checkpoint != "latest":
            raise InputError(f"'{request.run}' names one checkpoint: leave --checkpoint out.")
        named = find_named(request.run, request.environment)
        if isinstance(named.found, Checkpoint):
            check_request(named.found, target, request.policies, settings, overwrite=overwrite)
        else:  # its policies are known once it is converted
            check_target(target, settings, overwrite=overwrite)
        return request.model_copy(update={"run": named.reference, "out": None if out is None else str(out)})
    if request.environment is not None:
        raise InputError(f"'{request.run}' names its env: 'environment' belongs to checkpoint:PATH. Leave it out.")
    found = find_checkpoint(store.resolve(request.run), _which(request))
    require_trust_in_env(found)
    names = check_request(found, target, request.policies, settings, overwrite=overwrite)
    return request.model_copy(
        update={
            "run": found.run.run_id,
            "checkpoint": found.env_steps,
            "policies": names,
            "out": None if out is None else str(out),
        }
    )


def carry_out(request: ExportRequest, folder: RunFolder, report: ProgressReport) -> ExportResult:
    """Export into the place that the request names, or else into the job's own folder."""
    target = folder.path / FILES if request.out is None else Path(request.out)
    with open_checkpoint(request, Store(folder.home)) as found:
        files = export_to(
            found, target, request.policies, settings_of(request), overwrite=request.overwrite, on_progress=report
        )
    return success(files, alone=target.suffix == SUFFIXES[request.target])


def success(files: tuple[ExportedFile, ...], *, alone: bool) -> ExportResult:
    """Return the result of files that were kept; a folder of them has a file with the agents of each."""
    paths = [each.path for each in files] + [report_of(each.path) for each in files]
    if not alone:
        paths.append(files[0].path.parent / MAPPING)
    return ExportResult(
        compared=tuple(_compared(each.policy, each.agents, each.parity, each.path) for each in files),
        written=tuple(_written(path) for path in paths),
    )


def failure(error: BaseException, text: str) -> ExportResult:
    """Return the result of an export that kept no file, with the comparisons if it came so far."""
    traced = error.traced if isinstance(error, ExportFailedError) else ()
    compared = tuple(_compared(each.policy, each.agents, each.parity, None) for each in traced)
    return ExportResult(
        compared=compared, error=text, exit_code=error.exit_code if isinstance(error, MosaicError) else 1
    )


def _compared(policy: str, agents: tuple[str, ...], parity: Parity, path: Path | None) -> ComparedFile:
    far = parity.max_abs_diff
    return ComparedFile(
        policy=policy,
        agents=agents,
        path=None if path is None else str(path),
        name="" if path is None else path.name,
        max_abs_diff=far if far < float("inf") else None,
        action_agreement=parity.action_agreement,
        recorded=parity.recorded,
        random=parity.random,
        tolerance=parity.tolerance,
        passed=parity.passed,
    )


def _written(path: Path) -> WrittenFile:
    data = path.read_bytes()
    return WrittenFile(name=path.name, path=str(path), size=len(data), sha256=hashlib.sha256(data).hexdigest())
