"""Distribution of games over processes."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import traceback
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from multiprocessing import Pipe, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, TypeAlias

from mosaic.core.child_process import ChildProcess
from mosaic.core.errors import InputError, MosaicError
from mosaic.core.seeding import child_seed
from mosaic.envs.env import Env
from mosaic.evaluation.results import EpisodeResult
from mosaic.evaluation.worker import EvaluationPlan, GameRunner, GameTask, PlayOptions

if TYPE_CHECKING:
    from mosaic.runners.screen import Screen
    from mosaic.runners.video import FilmCamera


class WorkerError(MosaicError):
    """Failure of a worker process whose exception cannot be sent to the parent."""


def portable(error: Exception) -> Exception:
    """Return the error, or a substitute where it cannot be pickled.

    Unexpected errors, and those that have a cause, carry the traceback of their own process as a note.
    """
    if not isinstance(error, MosaicError) or error.__cause__ is not None:
        lines = "".join(traceback.format_exception(error))
        error.add_note(f"In the process that played the episode:\n{lines}")
    if _survives(error):
        return error
    substitute = WorkerError(f"{type(error).__name__}: {error}")
    for note in getattr(error, "__notes__", ()):
        substitute.add_note(note)
    return substitute


def _survives(error: Exception) -> bool:
    try:
        copy = pickle.loads(pickle.dumps(error))
    except Exception:  # noqa: BLE001 - third-party classes may fail in any way here; only that they did matters
        return False
    return type(copy) is type(error) and str(copy) == str(error)


Share: TypeAlias = Sequence[GameTask]
_SHARES_PER_PROCESS = 8  # several per process, because games differ in length
_LARGEST_SHARE = 64
_END_WITHIN_S = 5.0


def play_in_processes(
    plan: EvaluationPlan, games: Sequence[GameTask], num_env_runners: int, screen: Screen | None = None
) -> Generator[EpisodeResult, None, None]:
    """Yield results as they arrive, in any order; the first error in any process stops all of them."""
    shares = _shares(games, num_env_runners)
    with _started(plan, min(num_env_runners, len(shares)), screen) as processes:
        owed = {connection: _hand_out(connection, shares) for connection in processes}
        while any(owed.values()):
            for ready in wait([connection for connection, count in owed.items() if count]):
                assert isinstance(ready, Connection)
                yield _receive(ready, processes[ready])
                owed[ready] -= 1
                if not owed[ready]:
                    owed[ready] = _hand_out(ready, shares)
        for connection in processes:
            _see_off(connection)


def _shares(games: Sequence[GameTask], num_env_runners: int) -> deque[Share]:
    size = min(_LARGEST_SHARE, -(-len(games) // (num_env_runners * _SHARES_PER_PROCESS)))
    return deque(games[start : start + size] for start in range(0, len(games), max(size, 1)))


def _hand_out(connection: Connection, shares: deque[Share]) -> int:
    """Send the next share to a process and return the number of games in it; an empty share tells it to exit."""
    share: Share = shares.popleft() if shares else ()
    with suppress(ConnectionError):  # the process is dead: _receive reports it with its exit code
        connection.send(share)
    return len(share)


def _receive(connection: Connection, process: BaseProcess) -> EpisodeResult:
    try:
        message: EpisodeResult | Exception = connection.recv()
    except (EOFError, ConnectionError):
        process.join(_END_WITHIN_S)
        raise WorkerError(
            f"A process that played episodes ended with exit code {process.exitcode} before it was "
            "done. See its output above; in a script, call Mosaic below `if __name__ == '__main__':`."
        ) from None
    if isinstance(message, Exception):
        raise message
    return message


def _see_off(connection: Connection) -> None:
    """Wait for a process that was told to exit; closing its env or controllers may still fail."""
    try:
        message: Exception = connection.recv()
    except (EOFError, ConnectionError):
        return
    raise message


@contextmanager
def _started(plan: EvaluationPlan, count: int, screen: Screen | None) -> Iterator[dict[Connection, ChildProcess]]:
    """Start processes and stop them on exit: they finish normally if all work is done, and are killed otherwise."""
    processes: dict[Connection, ChildProcess] = {}
    travelling = pickle.dumps((plan, screen))
    try:
        for number in range(count):
            ours, theirs = Pipe()
            shown = screen if number == 0 else None
            process = ChildProcess(target=_work, args=(plan, theirs, shown), name="mosaic-games")
            process.imports_script = b"__main__" in travelling
            process.start()
            theirs.close()
            processes[ours] = process
        yield processes
    except BaseException:
        for process in processes.values():
            process.terminate()
        raise
    finally:
        for connection, process in processes.items():
            connection.close()
            process.join(_END_WITHIN_S)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()


def _work(plan: EvaluationPlan, connection: Connection, screen: Screen | None) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    try:
        with nullcontext() if screen is None else closing(screen), GameRunner(plan, screen=screen) as runner:
            while share := _next_share(connection):
                for game in share:
                    _send(connection, runner.play(game))
    except Exception as error:  # noqa: BLE001 - any error must be raised by the parent
        _send(connection, portable(error))


def _send(connection: Connection, message: EpisodeResult | Exception) -> None:
    try:
        connection.send(message)
    except ConnectionError:  # the parent is gone; errors of the env's own connections are a different case
        os._exit(1)


def _next_share(connection: Connection) -> Share:
    try:
        share: Share = connection.recv()
    except EOFError:
        return ()
    return share


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    sentinel = parent.sentinel

    def watch() -> None:
        wait([sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True, name="parent-watch").start()


def most_steps(options: PlayOptions) -> int:
    """Return the number of steps after which an episode is cut."""
    asked = options.get("max_steps")
    return DEFAULT_MAX_STEPS if asked is None else asked


DEFAULT_MAX_STEPS = 10_000  # some envs never end on their own, such as random play in CliffWalking


def play_games(
    plan: EvaluationPlan,
    games: Sequence[GameTask],
    num_env_runners: int,
    env: Env,
    camera: FilmCamera | None = None,
    screen: Screen | None = None,
) -> Generator[EpisodeResult, None, None]:
    """Play games and yield results as they arrive.

    `env` is the one that was made to inspect its spec; it is used for playing or closed. Games that a camera films are
    played in this process, in order, before the rest goes to other processes. A screen is passed to the first of those:
    it shows one game at a time.
    """
    several = num_env_runners > 1 and len(games) > 1
    if several:
        _check_can_travel(plan, screen)
    filmed = {game.index for game in games if camera is not None and camera.wants(game.index)}
    here = [game for game in games if game.index in filmed or not several]
    with GameRunner(
        plan, env, screen
    ) as runner:  # closed before others start: some envs exist only once (a port, a window)
        for game in here:
            yield runner.play(game, camera if game.index in filmed else None)
    if several:
        if screen is not None:
            screen.close()  # in this process; another process writes from now on
        yield from play_in_processes(
            plan, [game for game in games if game.index not in filmed], num_env_runners, screen
        )


def distinct_seeds(count: int, seed: int, *names: str | int) -> list[int]:
    """Return distinct seeds of the named streams 0, 1, 2, …; a larger count only appends seeds."""
    seeds: dict[int, None] = {}
    for index in range(count):
        child, again = child_seed(seed, *names, index), 0
        while child in seeds:  # 1 % of the evaluations with 6,500 episodes would have a duplicate
            again += 1
            child = child_seed(seed, *names, index, again)
        seeds[child] = None
    return list(seeds)


def check_counts(**counts: int) -> None:
    for name, count in counts.items():
        if count < 1:
            raise InputError(f"{name} is {count}; it must be at least 1.")


def _check_can_travel(plan: EvaluationPlan, screen: Screen | None) -> None:
    try:
        pickle.dumps((plan, screen))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"This mapping cannot be sent to other processes: {error}. "
            "Use num_env_runners=1, or name policies and functions defined in a module: python:module:function."
        ) from error
