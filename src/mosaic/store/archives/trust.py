"""Trust in runs: whether code that a run or a checkpoint names, or packs into pickles, may be loaded.

A run is ours if this store created it. Every other run, imported or copied into the store by hand, is foreign: every
byte of it may come from a stranger, and none of the code it names runs before the user has typed `--trust`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from mosaic.config.loading import parse_run_config
from mosaic.config.programs import code_in_document, named_programs, programs_of_environment
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import FormatError, MosaicError, TrustError, describe_error
from mosaic.core.plugins import load_plugin
from mosaic.core.user_code import REFUSED, code_refused
from mosaic.store.archives.signature import RUNS, is_sealed, run_digest
from mosaic.store.checkpoint_record import Checkpoint, environment_of
from mosaic.store.checkpoints import list_checkpoints
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import read_written_state
from mosaic.store.store import Store

VARIABLE = "MOSAIC_TRUST"  # passes `--trust` to the processes that load policies
_LARGEST_FACTS = 1 << 26  # bytes of a JSON file that is searched
_ADVICE = f"add --trust (or set {VARIABLE}=1)"


def trust_given() -> bool:
    """Return whether the user passed `--trust`, to this process or to its parent."""
    return os.environ.get(VARIABLE) == "1"


def foreign(folder: RunFolder) -> str:
    """Return why a run is not ours; empty for a run that this store created."""
    if folder.is_imported():
        return "it was imported"
    if folder.path.parent.name != RUNS or is_sealed(
        folder.home, run_digest(folder.run_id), read_written_state(folder).seal
    ):
        return ""
    # Runs created before runs were sealed are recognised by their checkpoints.
    if any(is_sealed(folder.home, each.digest, each.mark) for each in list_checkpoints(folder)):
        return ""
    return "this store did not create it"


def require_trust_to_run(folder: RunFolder, trust: bool, advice: str = "") -> None:
    """Raise TrustError before the code that a foreign run's configuration names is run."""
    if trust or not (why := foreign(folder)):
        return
    forms = named_programs(folder.read_config(), folder.home)
    if forms:
        raise TrustError(
            f"The run {folder.run_id} names code or programs to run ({'; '.join(forms)}), and {why}. "
            f"If you trust its origin, {advice or f'type: mosaic runs resume {folder.run_id} --trust'}"
        )


def confine(folder: RunFolder) -> None:
    """Prevent a foreign run from loading code unless the user trusts it; called in a worker's process before it starts.

    It also leaves the working directory, which the run named or a stranger filled: Ray puts it on `sys.path`.
    """
    if trust_given() or not (why := foreign(folder)):
        return
    require_trust_to_run(folder, trust=False)
    os.environ[REFUSED] = (
        f"the run {folder.run_id} asks for it, and {why}. If you trust its origin, "
        f"type: mosaic runs resume {folder.run_id} --trust"
    )
    os.chdir(folder.home)


def require_trust_to_resume(checkpoint: Checkpoint, trust: bool | None = None) -> None:
    """Raise TrustError before a worker unpickles to resume; the worker calls this itself, and so does its starter."""
    trust = trust_given() if trust is None else trust
    require_trust(checkpoint, trust, f"type: mosaic runs resume {checkpoint.run.run_id} --trust")


def require_trust(checkpoint: Checkpoint, trust: bool, advice: str = _ADVICE) -> None:
    """Raise TrustError before anything untrusted is unpickled: a pickle runs whatever code its writer put in."""
    if trust or checkpoint.trusted(Store(checkpoint.run.home)):
        return
    run = checkpoint.run
    raise TrustError(
        f"The checkpoint of run '{checkpoint.origin}' at {checkpoint.env_steps} env steps holds pickles, which run "
        f"code when they are loaded, and {_why(run)}. If you trust its origin, {advice}."
    )


def require_trust_to_play(checkpoint: Checkpoint, policies: Collection[str], trust: bool | None = None) -> None:
    """Raise TrustError before a run is created whose worker would be refused these policies of a foreign checkpoint.

    What this search misses is refused by `loading` when the worker loads the policy.
    """
    if (trust_given() if trust is None else trust) or checkpoint.trusted(Store(checkpoint.run.home)):
        return
    manifest, forms = checkpoint.manifest, []
    for name in policies:
        entry = manifest.policies[name]
        worker = load_plugin("mosaic.workers", entry.worker or manifest.worker)
        if getattr(worker, "loads_pickles", True):
            require_trust(checkpoint, trust=False)
        forms += [form for file in entry.files for form in _code_in_file(checkpoint.path / file)]
    if not manifest.spaces and manifest.environment:  # the env is created to query its spaces
        forms += programs_of_environment(environment_of(checkpoint))
    if forms:
        raise TrustError(
            f"The checkpoint of run '{checkpoint.origin}' at {checkpoint.env_steps} env steps names code "
            f"({'; '.join(dict.fromkeys(forms))}), and {_why(checkpoint.run)}. If you trust its origin, {_ADVICE}."
        )


def require_trust_in_env(checkpoint: Checkpoint) -> None:
    """Raise TrustError before an env that is code is made because a checkpoint of others names it."""
    forms = [] if trust_given() else programs_of_environment(environment_of(checkpoint))
    store = Store() if checkpoint.outside else Store(checkpoint.run.home)
    if forms and not checkpoint.sealed_by(store):
        raise TrustError(
            f"The checkpoint of run '{checkpoint.origin}' at {checkpoint.env_steps} env steps names an env that is "
            f"code ({'; '.join(forms)}), and {_why(checkpoint.run)}. If you trust its origin, {_ADVICE}."
        )


def _code_in_file(path: Path) -> list[str]:
    if path.suffix != ".json" or path.stat().st_size > _LARGEST_FACTS:
        return []
    try:
        return code_in_document(json.loads(path.read_bytes()), path.name)
    except ValueError:  # not JSON: the worker that reads it reports that
        return []


@contextmanager
def loading(checkpoint: Checkpoint, trust: bool) -> Iterator[None]:
    """Let files of a checkpoint name code only if this store wrote them or the user trusts them.

    Files of others may also be damaged in ways that their reader does not expect: that is a FormatError.
    """
    if trust or checkpoint.trusted(Store(checkpoint.run.home)):
        yield
        return
    run = checkpoint.run
    with code_refused(
        f"the checkpoint of run '{checkpoint.origin}' at {checkpoint.env_steps} env steps names it, and {_why(run)}. "
        f"If you trust its origin, {_ADVICE}."
    ):
        try:
            yield
        except (MosaicError, ImportError):
            raise
        except Exception as error:  # what a stranger wrote may break its reader anywhere
            raise FormatError(
                f"The checkpoint '{checkpoint.path}' of run '{checkpoint.origin}' cannot be read: "
                f"{describe_error(error)}. Its worker did not write it as it is."
            ) from error


def require_trust_in_file(path: Path, document: Mapping[str, object]) -> None:
    """Raise TrustError for a configuration file inside a foreign run that names code."""
    folder = RunFolder(path.resolve().parent)
    if trust_given() or not folder.exists() or not (why := foreign(folder)):
        return
    forms = named_programs(parse_run_config(document), folder.home)
    if forms:
        raise TrustError(
            f"'{path}' names code or programs to run ({'; '.join(forms)}), and it belongs to the run {folder.run_id}: "
            f"{why}. If you trust its origin, {_ADVICE}."
        )


def require_trust_in_foreign(path: Path) -> None:
    """Raise TrustError before a checkpoint that another program wrote is loaded: it consists of pickles."""
    if not trust_given():
        raise TrustError(
            f"'{path}' was not written by Mosaic and holds pickles, which run code when they are loaded. "
            f"If you trust its origin, {_ADVICE}."
        )


def require_trust_to_replay(path: Path, environment: EnvironmentConfig) -> None:
    """Raise TrustError for an episode file whose environment is code: anyone may have written the file."""
    forms = [] if trust_given() else programs_of_environment(environment)
    if forms:
        raise TrustError(
            f"To replay '{path}', code that it names must be run ({'; '.join(forms)}). "
            f"If you recorded it or trust its origin, {_ADVICE}."
        )


def _why(run: RunFolder) -> str:
    return "it was imported" if run.is_imported() else "no run of this store wrote it as it is now"
