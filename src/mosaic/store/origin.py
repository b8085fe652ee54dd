"""Origin of a run (request, command, code, machine), and the changes made to its configuration since."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError

from mosaic.core.machine import available_cores
from mosaic.core.plugins import Group, distributions
from mosaic.core.reference import explain, split_reference
from mosaic.core.system import kernel_value
from mosaic.core.version import versions, versions_of
from mosaic.store.atomic import write_atomic
from mosaic.store.errors import DamagedError
from mosaic.store.run_folder import RunFolder

if TYPE_CHECKING:
    from mosaic.config.run import RunConfig

ORIGIN = "origin.json"
_PACKAGES = (
    *("torch", "ray", "numba", "stable-baselines3", "sb3-contrib", "scipy", "safetensors"),
    *("mpi4py", "mpich", "onnx", "onnxruntime", "minari"),
)
_RUN = "MOSAIC_RUN"  # environment variable that marks the processes of a run
_CPU_FACTS = Path("/proc/cpuinfo")
_GIT_WITHIN_S = 10.0
_SECRET = re.compile(r"token|secret|passw|api.?key|credential", re.IGNORECASE)
_HIDDEN = "***"
HISTORY = "config_history.json"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class GitState(_Record):
    """Commit of a folder, and whether it has changes that are not committed."""

    commit: str
    dirty: bool | None  # None: git did not return in time


class MachineRecord(_Record):
    host: str
    system: str
    cpu: str
    cores: int  # available to the process
    gpus: tuple[str, ...]


class Origin(_Record):
    asked: dict[str, object]  # the configuration before Mosaic filled it in
    command: tuple[str, ...]  # of the process that created the run, without secrets
    git: GitState | None  # of the folder it was created from; None: not a repository
    machine: MachineRecord
    versions: dict[str, str]
    checkouts: dict[str, GitState] = {}  # of Mosaic and of plug-ins' packages that were installed from git


def origin_here(asked: Mapping[str, object], packages: Iterable[str] = ()) -> Origin:
    """Describe this process, its working directory and its machine; `packages` are recorded beside those of Mosaic."""
    return Origin(
        asked=dict(asked),
        command=without_secrets(sys.argv),
        git=git_state(Path.cwd()),
        machine=machine_here(),
        versions=all_versions(packages),
        checkouts=checkouts(packages),
    )


def checkouts(packages: Iterable[str] = ()) -> dict[str, GitState]:
    """Return the commit of Mosaic and of each of these packages that was installed from git or from a folder."""
    found = {package: _checkout(package) for package in sorted({"mosaic-rl", *packages})}
    return {package: state for package, state in found.items() if state is not None}


def _checkout(package: str) -> GitState | None:
    """Read direct_url.json (PEP 610), which pip and uv write for packages that are not from an index."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution(package).read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    try:
        facts = json.loads(text or "{}")
        if facts.get("vcs_info", {}).get("vcs") == "git":
            return GitState(commit=facts["vcs_info"]["commit_id"], dirty=False)
        source = urlsplit(facts["url"]) if facts.get("dir_info", {}).get("editable") else None
    except (ValueError, KeyError, AttributeError):
        return None  # not as PEP 610 says: nothing is known
    return git_state(Path(unquote(source.path))) if source is not None and source.scheme == "file" else None


def write_origin(folder: RunFolder, origin: Origin) -> None:
    write_atomic(folder.path / ORIGIN, origin.model_dump_json(indent=1) + "\n")


def read_origin(folder: RunFolder) -> Origin | None:
    """Return the run's origin; None for a run of a version that kept none."""
    path = folder.path / ORIGIN
    try:
        return Origin.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise DamagedError(f"'{path}' is damaged: {explain(error, Origin)}") from error


def machine_here() -> MachineRecord:
    return MachineRecord(
        host=platform.node(),
        system=platform.platform(),
        cpu=_cpu(),
        cores=available_cores(),
        gpus=_gpus(),
    )


def all_versions(packages: Iterable[str] = ()) -> dict[str, str]:
    """Return the versions of Python, of the packages that affect results and of these."""
    return {**versions(), **versions_of(_PACKAGES), **versions_of(tuple(packages))}


def packages_of(config: RunConfig) -> tuple[str, ...]:
    """Return the packages whose plug-ins or modules a run uses: its env, wrappers, worker, policies and mirrors."""
    used: list[tuple[Group, str]] = [("mosaic.sinks", name) for name in config.telemetry.mirrors]
    used.append(("mosaic.envs", config.environment.family or ""))
    used.append(("mosaic.workers", config.training.worker or ""))
    policies = [*config.evaluation.opponents, *(config.agents.values() if isinstance(config.agents, dict) else ())]
    used += [("mosaic.policies", split_reference(reference)[0]) for reference in policies]
    env = config.environment
    named = [split_reference(reference) for reference in (*env.wrappers, *policies)]
    modules = [rest for kind, rest in named if kind == "python"]
    if ":" in env.env_id and env.family in ("gym", "python"):
        modules.append(env.env_id)
    tops = {re.split(r"[.:]", module)[0] for module in modules}
    return tuple(sorted({*distributions(used), *filter(None, map(_package_named, tops))}))


def _package_named(module: str) -> str | None:
    """Return the installed package with a module's name, which most have: to look into all packages would take long."""
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        return distribution(module).name
    except (PackageNotFoundError, ValueError):  # the name may be empty
        return None


@lru_cache(maxsize=8)
def code_of_attempt(run_id: str, attempt: int) -> GitState | None:
    """Return the state of this process's working folder when an attempt first asked for it."""
    return git_state(Path.cwd())


def git_state(folder: Path) -> GitState | None:
    status = _git(folder, "status", "--porcelain=v2", "--branch")
    if status is None:  # no repository, or a slow one, whose commit is still quick to read
        commit = _git(folder, "rev-parse", "HEAD")
        return GitState(commit=commit, dirty=None) if commit else None
    head, *changes = [line for line in status.splitlines() if line.startswith("# branch.oid") or line[0] != "#"]
    commit = head.removeprefix("# branch.oid ")
    return None if commit == "(initial)" else GitState(commit=commit, dirty=bool(changes))


def describe_git(state: GitState) -> str:
    """Return the commit in words, with what is known of changes to it."""
    return state.commit + {True: ", with uncommitted changes", False: "", None: " (changes unknown)"}[state.dirty]


def _git(folder: Path, *words: str) -> str | None:
    """Return git's output; None where there is no git, no repository or no output in time."""
    if not _has_git():
        return None
    try:
        done = subprocess.run(
            ["git", "--no-optional-locks", "-C", str(folder), *words],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if name != _RUN},  # not a process of a run's work
            timeout=_GIT_WITHIN_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


@cache
def _has_git() -> bool:
    """Return whether git can be called: Apple's stand-in for it opens a dialog where git is not installed."""
    if sys.platform == "darwin" and shutil.which("git") == "/usr/bin/git":
        return subprocess.run(["xcode-select", "-p"], capture_output=True, check=False).returncode == 0
    return True


def without_secrets(words: Sequence[str]) -> tuple[str, ...]:
    """Replace the values of options, settings and addresses that are named like secrets."""
    shown: list[str] = []
    hide_next = False
    for word in words:
        name, equals, _ = word.partition("=")
        if hide_next:
            shown.append(_HIDDEN)
        elif equals and "://" not in name and _SECRET.search(name):
            shown.append(f"{name}={_HIDDEN}")
        else:
            hidden = re.sub(r"//[^/@\s]+@", f"//{_HIDDEN}@", word)
            shown.append(re.sub(r"([?&#][^=&\s]*(?:token|key|secret)[^=&\s]*=)[^&\s]+", rf"\1{_HIDDEN}", hidden))
        hide_next = not hide_next and word.startswith("-") and not equals and bool(_SECRET.search(word))
    return tuple(shown)


def _cpu() -> str:
    try:
        text = _CPU_FACTS.read_text()
    except OSError:  # macOS, where Python knows no more than "arm"
        return kernel_value("machdep.cpu.brand_string") or platform.processor()
    found = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return found[1] if found else platform.processor()


def _gpus() -> tuple[str, ...]:
    """Return the names of NVIDIA's cards, as their driver lists them."""
    names = []
    for path in sorted(Path("/proc/driver/nvidia/gpus").glob("*/information")):
        found = re.search(r"^Model:\s*(.+)$", path.read_text(errors="replace"), re.MULTILINE)
        names.append(found[1].strip() if found else path.parent.name)
    return tuple(names)


def changed_settings(
    before: Mapping[str, object], after: Mapping[str, object], above: str = ""
) -> dict[str, list[object]]:
    """Return the settings in which two documents differ: {dotted name: [old value, new value]}."""
    found: dict[str, list[object]] = {}
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found |= changed_settings(old, new, f"{above}{name}.")
        elif old != new:
            found[f"{above}{name}"] = [old, new]
    return found


def read_history(folder: RunFolder) -> list[dict[str, object]]:
    """Return the changes, oldest first: the first attempt with them, the time, and old and new values."""
    path = folder.path / HISTORY
    return json.loads(path.read_text()) if path.exists() else []


def add_to_history(folder: RunFolder, attempt: int, changes: Mapping[str, object]) -> None:
    """Append the changes of an attempt; the caller holds the run's lock."""
    entry = {"attempt": attempt, "timestamp": time.time(), "changes": dict(changes)}
    write_atomic(folder.path / HISTORY, json.dumps([*read_history(folder), entry], indent=1) + "\n")
