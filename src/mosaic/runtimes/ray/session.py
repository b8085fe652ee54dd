"""Ray sessions: start, resource check, and cleanup that leaves nothing behind.

Ray by itself leaves processes and files behind: agents outlive a killed driver by a minute, an idle worker outlives
`shutdown`, and its directory is never removed. So an embedded session has a directory of its own, is recorded before
its first process starts, and ends with `clean_up`, which any process that has the record can also run for a driver that
was killed. `ray stop` is never used: it ends every Ray on the machine.
"""

from __future__ import annotations

import logging
import os
import secrets
import shutil
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import Any

import psutil

from mosaic.core.child_process import restored
from mosaic.core.errors import InputError, MissingExtraError, MosaicError
from mosaic.core.machine import available_cores, free_memory, is_current
from mosaic.core.system import boot_id
from mosaic.runtimes.ray.processes import MARK, ProcessIdentity, kill, processes_of

Record = dict[str, Any]  # JSON: "temp_dir" and "address" or None, "processes" with pid and start_time, "boot"

AUTO = "auto"  # the cluster that runs on this machine
_PREFIX = "mosaic-ray-"
_NODE, _NODE_ADDRESS = "raylet", "--gcs-address="
# Ray adds "/r/session_2026-11-15_13-33-26_161794_4194304/sockets/plasma_store"; a socket's path has at most 107 bytes
# on Linux and 103 on macOS.
_LONGEST_TEMP_DIR = (103 if sys.platform == "darwin" else 107) - 72
_SMALLEST_STORE = 80 * 2**20  # Ray refuses less than 75 MB
_LARGEST_STORE = (2 if sys.platform == "darwin" else 8) * 2**30  # Ray refuses more on macOS
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}  # no usage statistics, no warning
_START_TIMEOUT_S = 90  # Ray's own is 30 s, which a busy machine exceeds
_SHARED_MEMORY = Path("/dev/shm")
_REACH_TIMEOUT_S = 5.0
_ASK_EVERY_S = 0.1
_CLEAN_UP_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class RaySession:
    """Running Ray with the requested CPUs."""

    address: str  # of its control service, host:port
    cpus: int
    temp_dir: Path | None  # None on an existing cluster


def check_installed() -> None:
    if find_spec("ray") is None:
        raise MissingExtraError("Ray is not installed. Type: pip install 'mosaic-rl[rllib]'")


@contextmanager
def ray_session(
    cpus: int,
    address: str | None = None,
    record: Callable[[Record], None] | None = None,
    *,
    prints: bool = True,
    warn: Callable[[str], None] = print,
) -> Iterator[RaySession]:
    """Start Ray on this machine, or connect to the cluster at `address`, for the duration of the block.

    A start that takes too long is tried once more, after `warn` was called with what to do about it.

    The output of its processes is printed here too, unless `prints` is false; it is in their logs either way. `record`
    is called with what `clean_up` needs: once before anything is started, and once when everything is. Enter the block
    in a thread that lives to the end: the kernel kills Ray's processes when the thread that started them ends.
    """
    check_installed()
    if cpus < 1:
        raise InputError(f"A Ray session needs at least 1 CPU, not {cpus}.")
    import ray

    if ray.is_initialized():
        raise MosaicError("Ray is already running in this process: leave that session first.")
    tell = record if record is not None else _keep_to_yourself
    if address is not None:
        with _connected(cpus, address, tell, prints) as handle:
            yield handle
        return
    _check_cpus(cpus)
    with ExitStack() as stack:
        try:
            handle = stack.enter_context(_embedded(cpus, tell, prints))
        except RayStartError as error:
            warn(f"Ray did not start: {error} It is tried once more. {_ADVICE}")
            try:
                handle = stack.enter_context(_embedded(cpus, tell, prints))
            except RayStartError as again:
                raise MosaicError(f"Ray did not start, even at a second attempt: {again} {_ADVICE}") from again
        yield handle


class RayStartError(MosaicError):
    """Ray that could not be started on this machine."""


_ADVICE = (
    "Perhaps the machine is busy or short of memory: stop other work or wait, or start Ray yourself "
    "(ray start --head) and join it: --ray-address auto."
)


def clean_up(record: Mapping[str, Any]) -> None:
    """Kill every process of a recorded session and remove its directory; do nothing if nothing is left.

    The driver itself is left alone: its parent must end it first.
    """
    if record.get("temp_dir") is None:
        return
    directory = Path(record["temp_dir"])
    if not directory.is_absolute() or not directory.name.startswith(_PREFIX) or directory.is_symlink():
        raise MosaicError(f"'{directory}' is not a directory that Mosaic made for Ray. Nothing was removed.")
    recorded = record.get("processes", ()) if is_current(record.get("boot", "")) else ()
    known = [ProcessIdentity(int(row["pid"]), float(row["start_time"])) for row in recorded]
    rounds = 0
    while left := processes_of(directory, known):  # a killed process may just have started another
        rounds += 1
        if rounds > 20:
            numbers = ", ".join(str(process.pid) for process in sorted(left))
            raise MosaicError(f"Processes of the Ray session in {directory} would not end: {numbers}.")
        kill(left, _CLEAN_UP_TIMEOUT_S)
    if directory.exists():
        shutil.rmtree(directory)


def object_store_bytes(available: int) -> int:
    """Return a tenth of the free memory: the objects are tables and weights, and the rest is for the learner."""
    return max(_SMALLEST_STORE, min(available // 10, _LARGEST_STORE))


def short_temp_dir(preferred: Path) -> Path:
    """Create a directory, in the preferred place if socket paths below it are short enough for the kernel."""
    longest = len(os.fsencode(preferred)) + len(f"/{_PREFIX}12345678")
    parent = preferred if longest <= _LONGEST_TEMP_DIR else Path("/tmp")
    return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))


def _check_cpus(cpus: int) -> None:
    there = available_cores()
    if cpus > there:
        raise InputError(
            f"The run asks Ray for {cpus} CPUs and this machine gives it {there}. "
            f"Ask for at most {there}, or name a larger cluster: ray_address=HOST:PORT."
        )


@contextmanager
def _embedded(cpus: int, tell: Callable[[Record], None], prints: bool) -> Iterator[RaySession]:
    import ray

    temp_dir = short_temp_dir(Path(tempfile.gettempdir()))
    record: Record = {"temp_dir": str(temp_dir), "address": None, "processes": []}
    try:
        tell(record)
        with _environment(**_QUIET, **_authentication()):
            try:
                address = _start(cpus, temp_dir, prints)
                started = [process._asdict() for process in sorted(processes_of(temp_dir))]
                record = {"temp_dir": str(temp_dir), "address": address, "processes": started, "boot": boot_id()}
                tell(record)
                yield RaySession(address, cpus, temp_dir)
            finally:
                ray.shutdown()
    finally:
        clean_up(record)


def _start(cpus: int, temp_dir: Path, prints: bool) -> str:
    """Start Ray and return its address.

    The mark is set only for processes that Ray starts now, not for those that the driver starts later. Ray opens its
    directory to every user of the machine, so it lies inside ours, which is closed to them.
    """
    limits = {"RAY_gcs_server_port_wait_time_s": str(_START_TIMEOUT_S)}
    with _environment(**{MARK: str(temp_dir)}, **limits), _patient():
        try:
            context = _init(
                num_cpus=cpus,
                include_dashboard=False,
                log_to_driver=prints,
                _temp_dir=str(temp_dir / "r"),
                **_store(temp_dir),
            )
        except Exception as error:  # Ray raises whatever class it finds, Exception itself among them
            raise RayStartError(f"{str(error).rstrip('.')}.") from error
    return str(context.address_info["gcs_address"])


@contextmanager
def _patient() -> Iterator[None]:
    """Give the first node more time to register: Ray asks repeatedly for up to 30 s, which no setting changes."""
    from ray._private import services

    ask: Callable[[str, str], dict[str, Any]] = services.get_node
    ends_s = monotonic() + _START_TIMEOUT_S

    def ask_longer(gcs_address: str, node_id: str) -> dict[str, Any]:
        while True:
            try:
                return ask(gcs_address, node_id)
            except RuntimeError:  # not registered yet
                if monotonic() >= ends_s:
                    raise
            threading.Event().wait(_ASK_EVERY_S)

    services.get_node = ask_longer
    try:
        yield
    finally:
        services.get_node = ask


@contextmanager
def _connected(cpus: int, address: str, tell: Callable[[Record], None], prints: bool) -> Iterator[RaySession]:
    import ray

    is_ours = address == AUTO and not os.environ.get("RAY_ADDRESS")
    address = find_cluster(address)
    tell({"temp_dir": None, "address": address, "processes": []})
    with _environment(**_QUIET), restored("RAY_AUTH_MODE"):
        if is_ours:
            _offer_token()
        try:
            try:
                _init(address=address, log_to_driver=prints)
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise MosaicError(
                    f"Ray at {address} cannot be joined: {error}. A cluster that asks for a token lets in only those "
                    "who have RAY_AUTH_MODE=token and its RAY_AUTH_TOKEN in their environment."
                ) from error
            total, free = ray.cluster_resources(), ray.available_resources()  # type: ignore[no-untyped-call]
            _check_cluster(cpus, address, total, free)
            yield RaySession(address, cpus, None)
        finally:
            ray.shutdown()


def find_cluster(address: str) -> str:
    """Return HOST:PORT of a reachable cluster, or raise at once."""
    address = local_cluster() if address == AUTO else address
    _check_reachable(address)
    return address


def local_cluster() -> str:
    """Return the address that `auto` stands for: RAY_ADDRESS, as for Ray itself, else the only running cluster."""
    given = os.environ.get("RAY_ADDRESS")
    if given:
        return given
    found = sorted(set(_running_clusters()))
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(
            "ray_address=auto joins the Ray cluster that runs on this machine, and there is none. "
            "Start one with `ray start --head`, or leave ray_address out to run on this machine."
        )
    raise InputError(
        f"ray_address=auto joins the Ray cluster that runs on this machine, and there are {len(found)}. "
        f"Say which: {' or '.join(f'ray_address={address}' for address in found)}."
    )


def _offer_token() -> None:
    """Enable token authentication if there is a token on this machine, as Ray does when it finds a cluster itself.

    Ray's own search may pick any cluster, even one that Mosaic embedded in another run; and for an explicit address it
    does not send a token unless told to.
    """
    from ray._private.authentication import authentication_token_setup

    authentication_token_setup.maybe_enable_token_auth_if_token_available(warn_if_disabled=False)


def _running_clusters() -> Iterator[str]:
    """Yield addresses from nodes' command lines.

    Clusters of other users and those that Mosaic embedded in other runs are skipped.
    """
    for process in psutil.process_iter():
        try:
            if process.name() != _NODE or process.uids().real != os.getuid():
                continue
            arguments = process.cmdline()
        except psutil.Error:  # gone meanwhile, or another user's
            continue
        if not any(_PREFIX in argument for argument in arguments):
            yield from (word.partition("=")[2] for word in arguments if word.startswith(_NODE_ADDRESS))


def _check_reachable(address: str) -> None:
    """Check an address before Ray tries it: Ray itself would retry for a minute."""
    host, colon, port = address.rpartition(":")
    if not colon or "/" in host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise InputError(
            f"'{address}' is not the address of a Ray cluster. Write HOST:PORT, as `ray start --head` shows it, "
            "or auto for the cluster that runs on this machine."
        )
    try:
        socket.create_connection((host, int(port)), _REACH_TIMEOUT_S).close()
    except OSError as error:
        raise InputError(
            f"No Ray cluster answers at {address} ({error}). "
            f"Start one with `ray start --head --port={port}`, or leave ray_address out to run on this machine."
        ) from error


def _check_cluster(cpus: int, address: str, total: Mapping[str, float], free: Mapping[str, float]) -> None:
    """Check for free CPUs: Ray itself would silently wait for them forever."""
    there, left = int(total.get("CPU", 0)), int(free.get("CPU", 0))
    if cpus > left:
        raise InputError(
            f"The run asks for {cpus} CPUs and the Ray cluster at {address} has {there}, {left} of them free. "
            f"Ask for at most {left}, or wait until other work has ended."
        )


def _init(**options: Any) -> Any:
    """Call `ray.init` without letting it take over SIGTERM and `breakpoint()`: the worker handles stopping."""
    import ray

    with restored("PYTHONBREAKPOINT"):
        if threading.current_thread() is not threading.main_thread():
            return ray.init(logging_level=logging.WARNING, **options)
        ours = signal.getsignal(signal.SIGTERM)
        try:
            return ray.init(logging_level=logging.WARNING, **options)
        finally:
            signal.signal(signal.SIGTERM, ours)


def _store(temp_dir: Path) -> dict[str, int | str]:
    """Return the options of the object store.

    It lives in shared memory, or in a file if that is too small (containers often give 64 MB).
    """
    size = object_store_bytes(free_memory())
    roomy = _SHARED_MEMORY.is_dir() and shutil.disk_usage(_SHARED_MEMORY).free >= size
    return {"object_store_memory": size} | ({} if roomy else {"_plasma_directory": str(temp_dir)})


def _authentication() -> dict[str, str]:
    """Require a token: Ray listens on every interface and runs whatever it is sent."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": _token()}


@cache
def _token() -> str:
    """Return the user's token, else one per process, since Ray reads it once. It is never written to disk."""
    return os.environ.get("RAY_AUTH_TOKEN") or secrets.token_hex(32)


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set environment variables and make Ray read them: it read its environment on import, perhaps long ago."""
    from ray._raylet import Config  # type: ignore[attr-defined]

    with restored(*variables):
        os.environ.update(variables)
        Config.initialize("")
        yield
    Config.initialize("")


def _keep_to_yourself(record: Record) -> None:
    del record
