"""Export of a run's policies, all or none: each file is compared with its policy before it gets its name."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mosaic.config.export import ExportOptions
from mosaic.core.errors import InputError, MissingExtraError, MosaicError, TrustError, unknown
from mosaic.core.files import temporary_path, write_atomic, write_new
from mosaic.core.ids import AgentID
from mosaic.envs.catalog import make_env
from mosaic.exports.foreign import checkpoint_at, is_path
from mosaic.exports.formats import SUFFIXES, check_versions, versions_for
from mosaic.exports.parity import Parity
from mosaic.exports.progress import ExportProgress, ProgressReport, Step, ignore_progress
from mosaic.exports.tracing import OBSERVATIONS, ExportSettings, TracedPolicy, trace_policy
from mosaic.store.archives.trust import require_trust_in_env
from mosaic.store.checkpoint_record import Checkpoint, environment_of
from mosaic.store.checkpoints import Which, held_checkpoint
from mosaic.store.errors import StorageError, reason
from mosaic.store.store import Store

MAPPING = "policies.json"


class ExportFailedError(MosaicError):
    """File that does not do what its policy does."""

    def __init__(self, message: str, traced: Sequence[TracedPolicy] = ()) -> None:
        super().__init__(message)
        self.traced = tuple(traced)  # all files, with their comparisons


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A file that was written and compared."""

    policy: str
    path: Path
    agents: tuple[AgentID, ...]
    parity: Parity

    def to_json(self) -> dict[str, Any]:
        return {
            "policy": self.policy,
            "path": str(self.path),
            "agents": list(self.agents),
            "max_abs_diff": self.parity.max_abs_diff,
            "action_agreement": self.parity.action_agreement,
        }


def export(
    run: str,
    out: Path | str,
    *,
    policies: Sequence[str] = (),
    checkpoint: Which = "latest",
    settings: ExportSettings | None = None,
    overwrite: bool = False,
    on_progress: ProgressReport = ignore_progress,
    environment: str | None = None,
) -> tuple[ExportedFile, ...]:
    """Write policies of a run as files, all or none: each is compared with its policy first.

    `out` is a file for one policy, else a folder that gets a file for each and `policies.json` with the agents of each.
    `checkpoint:PATH` instead of a run is a checkpoint by its path; a zip of SB3 needs the name of its env with it.
    """
    if is_path(run):
        if checkpoint != "latest":
            raise InputError(f"'{run}' names one checkpoint: leave --checkpoint out.")
        with checkpoint_at(run, environment) as named:
            return export_to(
                named,
                Path(out).expanduser(),
                policies,
                settings or ExportSettings(),
                overwrite=overwrite,
                on_progress=on_progress,
            )
    if environment is not None:
        raise InputError(f"'{run}' names its env: --env belongs to checkpoints of other programs. Leave it out.")
    chosen = settings or ExportSettings()
    with held_checkpoint(Store().resolve(run), checkpoint) as found:
        require_trust_in_env(found)
        return export_to(found, Path(out).expanduser(), policies, chosen, overwrite=overwrite, on_progress=on_progress)


def export_to(
    found: Checkpoint,
    target: Path,
    policies: Sequence[str],
    settings: ExportSettings,
    *,
    overwrite: bool = False,
    on_progress: ProgressReport = ignore_progress,
) -> tuple[ExportedFile, ...]:
    """Write policies of a checkpoint, all or none."""
    names = check_request(found, target, policies, settings, overwrite=overwrite)
    for each in _existing(target) if not target.is_dir() else ():
        each.unlink()  # an older file must not be taken for the result of a failed export
    with closing(make_env(environment_of(found))) as env:
        spec = env.spec
    written: list[TracedPolicy] = []
    failed: dict[str, MosaicError] = {}
    for number, name in enumerate(names, 1):

        def report(step: Step, done: int, total: int, name: str = name, number: int = number) -> None:
            on_progress(ExportProgress(name, number, len(names), step, done, total))

        try:
            written += trace_policy(found, name, spec, settings, report)
        except (TrustError, MissingExtraError):
            raise
        except MosaicError as error:
            failed[name] = error
    if failed:
        raise _some_failed(failed, names)
    refuse_failures(written, settings)
    on_progress(ExportProgress(names[-1], len(names), len(names), "writing"))
    return _keep(found, target, written, settings, overwrite=overwrite)


def check_request(
    found: Checkpoint, target: Path, policies: Sequence[str], settings: ExportSettings, *, overwrite: bool
) -> tuple[str, ...]:
    """Raise InputError for what is known to fail before anything is loaded; return the policies to export."""
    names = tuple(policies) or tuple(found.manifest.policies)
    for name in names:
        if name not in found.manifest.policies:
            raise unknown(f"policy of run '{found.origin}'", name, found.manifest.policies)
    if not names:
        raise InputError(f"The checkpoint of run '{found.origin}' at {found.env_steps} env steps holds no policy.")
    check_target(target, settings, overwrite=overwrite)
    if target.suffix == SUFFIXES[settings.target] and len(names) > 1:
        raise InputError(
            f"Run '{found.origin}' has {len(names)} policies: {', '.join(names)}. Name a folder with --out, or one of "
            "them with --policy."
        )
    return names


def check_target(target: Path, settings: ExportSettings, *, overwrite: bool) -> None:
    """Raise for settings that cannot be met, and for files that may not be replaced."""
    check_settings(settings)
    above = next((each for each in target.absolute().parents if each.exists()), Path("/"))
    if not above.is_dir() or not os.access(above, os.W_OK):
        why = "may not be written to" if above.is_dir() else "is not a folder"
        raise InputError(f"'{target}' cannot be written: {above} {why}. Name another place with --out.")
    there = _existing(target)
    if there and not overwrite:
        raise InputError(f"{there[0]} exists. Name another place, or replace it with --overwrite.")


def settings_of(options: ExportOptions) -> ExportSettings:
    """Return the options as the exporter takes them."""
    versions = versions_for(options.opset, options.ir_version)
    return ExportSettings(options.target, versions, options.tolerance, options.observations)


def check_settings(settings: ExportSettings) -> None:
    """Raise for settings that cannot be met, and for packages that are not installed."""
    if settings.target not in SUFFIXES:
        raise unknown("export target", settings.target, SUFFIXES)
    if settings.observations < OBSERVATIONS:
        raise InputError(f"A file is compared on at least {OBSERVATIONS:,} observations.")
    if not settings.tolerance > 0:
        raise InputError(f"--tolerance {settings.tolerance:g} is not above 0.")
    if find_spec("torch") is None:
        raise MissingExtraError("Exports are traced by torch: pip install 'mosaic-rl[torch]'")
    if settings.target != "torchscript":
        check_versions(settings.versions)


def _existing(target: Path) -> list[Path]:
    """Return the files that an export to this place could replace."""
    if target.is_dir():
        return [each for each in sorted(target.iterdir()) if each.suffix in {*SUFFIXES.values(), ".json"}]
    return [each for each in (target, report_of(target)) if each.is_file() or each.is_symlink()]


def _some_failed(failed: Mapping[str, MosaicError], names: Sequence[str]) -> MosaicError:
    """Return one error for the policies of which no file could be made; it names the others."""
    first = next(iter(failed.values()))
    if len(names) == 1:
        return first
    reasons = "; ".join(f"'{name}': {error}" for name, error in failed.items())
    kind = InputError if all(isinstance(error, InputError) for error in failed.values()) else MosaicError
    message = f"{len(failed)} of {len(names)} policies cannot be exported, and nothing was written. {reasons}"
    made = kind(message + _alone([name for name in names if name not in failed]))
    made.__cause__ = first
    return made


def _alone(names: Sequence[str]) -> str:
    """Return how to export the policies that did not fail."""
    if not names:
        return ""
    return (
        f" Without a failure: {', '.join(names)}. Type, to export only such: {' '.join(f'--policy {n}' for n in names)}"
    )


def refuse_failures(traced: Sequence[TracedPolicy], settings: ExportSettings) -> None:
    """Raise if one file differs from its policy: nothing is kept then."""
    failed = [each for each in traced if not each.parity.passed]
    if not failed:
        return
    wrong = {each.policy for each in failed}
    lines = [
        f"'{each.policy}': outputs differ by up to {each.parity.max_abs_diff:.3g} (allowed: {settings.tolerance:g}), "
        f"{each.parity.action_agreement:.2%} of the actions are equal"
        for each in failed
    ]
    raise ExportFailedError(
        f"{len(failed)} of {len(traced)} files do not do what their policies do, and nothing was written. "
        + "; ".join(lines)
        + "."
        + _alone(list(dict.fromkeys(each.policy for each in traced if each.policy not in wrong))),
        traced,
    )


def _keep(
    checkpoint: Checkpoint,
    target: Path,
    traced: Sequence[TracedPolicy],
    settings: ExportSettings,
    *,
    overwrite: bool,
) -> tuple[ExportedFile, ...]:
    """Write all files under other names, then give them their own, unless another export took those meanwhile."""
    suffix = SUFFIXES[settings.target]
    alone = target.suffix == suffix
    if alone and len(traced) > 1:
        raise InputError(
            f"The agents of '{traced[0].policy}' need {len(traced)} files, since their spaces or filters differ: "
            f"{', '.join(each.agents[0] for each in traced)}. Name a folder with --out."
        )
    places = [target] if alone else [target / f"{name}{suffix}" for name in file_names(traced)]
    temporary = [temporary_path(place) for place in places]
    files = tuple(
        ExportedFile(each.policy, place, each.agents, each.parity) for place, each in zip(places, traced, strict=True)
    )
    named: list[Path] = []
    try:
        for place in places:
            place.parent.mkdir(parents=True, exist_ok=True)
        for path, each in zip(temporary, traced, strict=True):
            write_new(path, each.data, 0o644)
        with _locked(places[0].parent):
            check_target(target, settings, overwrite=overwrite)
            try:
                for path, place, each in zip(temporary, places, traced, strict=True):
                    named += [report_of(place), place]
                    write_atomic(report_of(place), _text({"policy": each.policy, **each.parity.to_json()}))
                    path.replace(place)
                if not alone:
                    named.append(target / MAPPING)
                    write_atomic(target / MAPPING, _text(_mapping(checkpoint, files, settings)))
            except BaseException:  # a full disk, or Ctrl-C
                for path in named:
                    path.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise StorageError(
            f"'{target}' cannot be written: {reason(error)}. Nothing was kept. Name another place with --out."
        ) from error
    finally:
        for path in filter(Path.exists, temporary):
            path.unlink(missing_ok=True)
    return files


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Wait until no other export writes into the folder."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def file_names(traced: Sequence[TracedPolicy]) -> list[str]:
    """Return names without folders; a policy of several files adds the first agent of each."""
    policies = [each.policy for each in traced]
    names = [each.policy if policies.count(each.policy) == 1 else f"{each.policy}-{each.agents[0]}" for each in traced]
    plain = ["".join(letter if letter.isalnum() or letter in "._-" else "_" for letter in name) for name in names]
    return (
        [name.lstrip(".") or "policy" for name in plain]
        if len(set(plain)) == len(plain)
        else [f"{number}-{name.lstrip('.')}" for number, name in enumerate(plain)]
    )


def _mapping(checkpoint: Checkpoint, files: Sequence[ExportedFile], settings: ExportSettings) -> dict[str, Any]:
    return {
        "format": "mosaic-export-1",
        "run": checkpoint.origin,
        "env_steps": checkpoint.env_steps,
        "environment": checkpoint.manifest.environment,
        "target": settings.target,
        "policies": [{**each.to_json(), "path": each.path.name} for each in files],
        "agents": {agent: each.path.name for each in files for agent in each.agents},
    }


def report_of(path: Path) -> Path:
    """Return where the comparison of a file is stored."""
    return path.with_name(f"{path.stem}.parity.json")


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, indent=1, ensure_ascii=False, default=str) + "\n"
