"""Peers that run in their own process, with our interpreter or in a virtual environment created for them once.

Scripts of the folder own/ import packages that conflict with ours: `mosaic bench --with-peers` installs those there, in
the versions that are written here. Such a peer that was asked for and is not measured is a failure.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryFile
from time import perf_counter
from typing import Any

from figures import note_skipped
from platformdirs import user_cache_path
from ppo_rows.measure import Outcome, Plan, Unmeasured, keep_on, raise_if_missing

PACKAGES = {
    "jax": ("jax==0.10.2", "jaxlib==0.10.2", "pgx==2.6.0"),
    "vmas": ("torch==2.13.0", "vmas==1.5.2"),
}
MOST_S = 1800  # for an installation
_HERE = Path(__file__).parent
_ONE_THREAD_XLA = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"


def pinned(package: str) -> str:
    """Return the name and version of a package that has an environment of its own, for the report."""
    (found,) = [each for packages in PACKAGES.values() for each in packages if each.startswith(f"{package}==")]
    return found.replace("==", " ")


def wanted(plan: Plan, what: str, name: str) -> bool:
    """Return whether a peer with an environment of its own is measured; if not, say in the report what to type."""
    if not plan.with_peers:
        reason = f"{name} runs in an environment of its own. Type: mosaic bench --with-peers"
        note_skipped(f"{what} beside {name}", reason)
        print(f"{what} beside {name}: {reason}", flush=True)
    return plan.with_peers


def python_of(place: str) -> Path:
    """Return the interpreter of a peer's virtual environment, which is created and filled at the first call."""
    folder = user_cache_path("mosaic") / "benchmark-peers" / place
    python, done = folder / "bin" / "python", folder / ".installed"
    packages = PACKAGES[place]
    if not python.exists() or not done.exists() or done.read_text().split() != list(packages):
        print(f"making a virtual environment for {place} in {folder}", flush=True)
        _quietly(sys.executable, "-m", "venv", "--clear", str(folder))
        _quietly(str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages)
        done.write_text(" ".join(packages))
    return python


def _quietly(*command: str) -> None:
    every_core = set(range(os.cpu_count() or 1))
    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=MOST_S, preexec_fn=lambda: keep_on(every_core)
        )
    except subprocess.TimeoutExpired as error:
        raise Unmeasured(f"'{' '.join(command[:4])} …' took longer than {MOST_S} s") from error
    if ended.returncode:
        said = [line for line in ended.stderr.splitlines() if line.strip() and not line.startswith("WARNING")]
        raise Unmeasured(f"'{' '.join(command[:4])} …' failed: {said[-1] if said else ended.returncode}")


def ask(script: str, *arguments: str, place: str | None = None) -> Outcome:
    """Run a peer's script and return its figures.

    Its last line of output is JSON. Times missing there are those of the process, from its start to that line, so a
    slow shutdown of a peer does not count.
    """
    python = sys.executable if place is None else str(python_of(place))
    environment = {**os.environ, "XLA_FLAGS": _ONE_THREAD_XLA, "JAX_PLATFORMS": "cpu"}
    before, began = _children_cpu_s(), perf_counter()
    command = [python, str(_HERE / script), *arguments]
    with (
        TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment) as process,
    ):
        assert process.stdout is not None
        said: dict[str, Any] | None = None
        wall_s = 0.0
        for line in process.stdout:
            if line.startswith("{"):
                said, wall_s = json.loads(line), perf_counter() - began
        process.wait()
        errors.seek(0)
        last = (errors.read().strip().splitlines() or [""])[-1]
    if said is None:
        if place is None:  # what is missing in an environment of its own is a fault of PACKAGES
            raise_if_missing(last)
        raise Unmeasured(f"{script} ended with {process.returncode}: {last}")
    times = {"wall_s": wall_s, "cpu_s": _children_cpu_s() - before}
    return Outcome(**{**times, **said})


def _children_cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
