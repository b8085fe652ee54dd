"""Trial of an environment that a request describes: created once in a process with limited memory and time.

An env's own options decide how large it is. One that takes too much is refused before the server creates it itself.
"""

from __future__ import annotations

import subprocess
import sys
from functools import lru_cache
from threading import BoundedSemaphore

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.child_process import module_command
from mosaic.core.errors import InputError
from mosaic.core.system import limit_address_space

MOST_MEMORY = 2 << 30  # bytes, beyond what an idle process takes
MOST_TIME_S = 30.0
_TOO_LARGE = 3  # exit code
_turns = BoundedSemaphore(2)  # concurrent trials


class TooLargeError(InputError):
    """Error for an environment that takes more memory or time than a request may."""


def check_environment(environment: EnvironmentConfig) -> None:
    """Raise TooLargeError for an env that is too large; the code that creates it raises other errors."""
    if environment.options or environment.wrappers:
        _try(environment.id, environment.model_dump_json(), MOST_MEMORY, MOST_TIME_S)


@lru_cache(maxsize=256)  # an error is not cached: the machine may have been busy
def _try(env_id: str, environment: str, most_memory: int, most_time_s: float) -> None:
    with _turns:
        problem = _problem(environment, most_memory, most_time_s)
    if problem:
        raise TooLargeError(f"{env_id} with these options {problem}. Use a smaller one.")


def _problem(environment: str, most_memory: int, most_time_s: float) -> str:
    argv = module_command("mosaic.server.env_trial", str(most_memory))
    try:
        ended = subprocess.run(
            argv, input=environment, text=True, capture_output=True, timeout=most_time_s, check=False
        )
    except subprocess.TimeoutExpired:
        return f"took more than {most_time_s:g} s to create"
    if ended.returncode == _TOO_LARGE or ended.returncode < 0:
        return f"took more than {most_memory / 2**30:g} GiB of memory to create"
    return ""


def main() -> int:
    from contextlib import closing

    from mosaic.envs.catalog import make_env

    environment = EnvironmentConfig.model_validate_json(sys.stdin.read())
    limit_address_space(_size() + int(sys.argv[1]))  # where it is not accepted, the time is the only limit
    try:
        with closing(make_env(environment)) as env:
            env.reset(0)
    except Exception as error:  # noqa: BLE001 - creating it for real raises the same error, and explains it
        return _TOO_LARGE if _is_memory_error(error) else 1
    return 0


def _is_memory_error(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, MemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _size() -> int:
    """Return the current address space of this process."""
    import psutil

    return int(psutil.Process().memory_info().vms)


if __name__ == "__main__":
    sys.exit(main())
