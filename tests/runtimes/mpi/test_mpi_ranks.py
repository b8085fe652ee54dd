"""Ranks start, speak, agree and fail as one. Every test with ranks starts real ones."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from mosaic.core.errors import InputError, MissingExtraError
from mosaic.runtimes.merging import merge
from mosaic.runtimes.mpi import launch as mpi
from mosaic.runtimes.mpi.launch import RankError, mpiexec_path, run_ranks

WORK = """
import os, signal, sys, time
import numpy as np
from mosaic.runtimes.merging import apply, delta
from mosaic.runtimes.mpi.messaging import allreduce_sparse, check_agreement, world
from mosaic.runtimes.mpi.messaging import Mail
from mosaic.runtimes.mpi.messaging import await_ring, ring

comm = world()
rank, task = comm.Get_rank(), sys.argv[1]
last = rank == comm.Get_size() - 1

if task == "speak":
    print("I am", rank, "of", comm.Get_size())
    print("to stderr", "in", "parts", file=sys.stderr)
    print("no end of line", end="")
elif task == "merge":
    trained = np.load(sys.argv[2])
    base, visits = trained["base"], trained["visits_base"]
    merged = allreduce_sparse(comm, delta(base, visits, trained[f"table_{rank}"], trained[f"visits_{rank}"]))
    values, counts = apply(base, visits, merged)
    np.savez(f"{sys.argv[3]}/merged_{rank}.npz", values=values, counts=counts)
elif task == "disagree":
    check_agreement(comm, {"algorithm": "q_learning", "states": 10 + rank})
elif task == "programs":
    import mosaic.runtimes.mpi.rank_training as agreement
    agreement.version = lambda name: "0.0.1" if last else "0.0.2"
    agreement.check_same_programs(comm)
elif task in ("shapes", "options", "rules"):
    from mosaic.config.sections import EnvironmentConfig
    from mosaic.envs.compiled.registry import find_twin
    from mosaic.learners.tabular.options import TabularOptions
    from mosaic.learners.tabular.training.twin import TwinTraining
    from mosaic.runtimes.mpi.rank_training import check_same_training
    twin = find_twin(EnvironmentConfig(env_id="gym/FrozenLake-v1"))
    if last and task == "shapes":
        twin = find_twin(EnvironmentConfig(env_id="gym/Taxi-v3"))
    if last and task == "rules":
        twin.reward[0, 0, 0] = 9
    options = TabularOptions(learning_rate=0.5 if last and task == "options" else 0.25)
    check_same_training(comm, TwinTraining(twin, "q_learning", options, rank), "q_learning", options)
elif task == "write":
    mail = Mail(comm)
    if rank:
        for number in range(3):
            mail.send(0, (number, np.full(10 ** (2 * number + 1), rank)))
        assert mail.wait()[1] == "thanks"
    else:
        letters = [mail.wait() for _ in range(3 * (comm.Get_size() - 1))]
        for sender in range(1, comm.Get_size()):
            parts = [part for rank, part in letters if rank == sender]
            print(sender, [number for number, _ in parts], all((part == sender).all() for _, part in parts))
            mail.send(sender, "thanks")
        assert mail.take() is None
    mail.finish()
elif task == "rest":
    busy, began = time.process_time(), time.monotonic()
    if rank:
        await_ring(comm)
        waited = time.monotonic() - began
        print(f"busy for {(time.process_time() - busy) / waited:.3f} of {waited:.3f} s")
    else:
        signal.sigtimedwait({signal.SIGUSR1}, 1.0)  # the time over which the other is watched
        ring(comm)
elif task == "types":
    values = np.zeros(4, np.float64 if last else np.float32)
    allreduce_sparse(comm, delta(values, np.zeros(4, np.int64), values, np.ones(4, np.int64)))
else:
    if last:
        if task == "raise":
            raise ValueError("the table is\\nfull")
        if task == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if task == "exit":
            sys.exit(7)
        if task == "finish":
            sys.exit(0)
    if task == "wait":
        print("pid", os.getpid())
    comm.Barrier()
    comm.Barrier() if task != "wait" else signal.pause()
"""


@pytest.fixture
def ranks(tmp_path: Path) -> Any:
    """Runs the work above on real ranks and answers what each of them said."""
    (tmp_path / "rank_work.py").write_text(WORK)

    def run(count: int, *args: str, on_line: Any = None) -> list[tuple[int | None, str]]:
        said: list[tuple[int | None, str]] = []
        hear = on_line or (lambda rank, text: said.append((rank, text)))
        run_ranks("rank_work", args, count, on_line=hear, environment={"PYTHONPATH": str(tmp_path)})
        return said

    return run


def test_the_starter_is_the_one_of_this_installation() -> None:
    shown = subprocess.run([mpiexec_path(), "--version"], capture_output=True, text=True, check=True).stdout
    assert "HYDRA" in shown


@pytest.mark.parametrize("count", [1, 2])
def test_every_line_comes_whole_and_with_its_rank(ranks: Any, count: int) -> None:
    said = ranks(count, "speak")
    for rank in range(count):
        mine = [text for speaker, text in said if speaker == rank]
        assert mine == [f"I am {rank} of {count}", "to stderr in parts", "no end of line"]
    assert {speaker for speaker, _ in said} == set(range(count))


@pytest.mark.parametrize("count", [1, 2])
def test_ranks_merge_what_they_learned(ranks: Any, tmp_path: Path, count: int) -> None:
    random = np.random.default_rng(0)
    base = random.normal(size=(50, 3)).astype(np.float32)
    visits_base = random.integers(0, 9, size=base.shape)
    visits = [visits_base + random.integers(0, 3, size=base.shape) for _ in range(count)]
    tables = [np.where(seen > visits_base, random.normal(size=base.shape), base).astype(np.float32) for seen in visits]
    named = {f"table_{i}": table for i, table in enumerate(tables)} | {f"visits_{i}": v for i, v in enumerate(visits)}
    np.savez(tmp_path / "trained.npz", base=base, visits_base=visits_base, **named)
    assert ranks(count, "merge", str(tmp_path / "trained.npz"), str(tmp_path)) == []
    values, counts = merge(base, tables, visits_base, visits)
    for rank in range(count):
        merged = np.load(tmp_path / f"merged_{rank}.npz")
        np.testing.assert_array_equal(merged["values"], values)
        np.testing.assert_array_equal(merged["counts"], counts)


@pytest.mark.parametrize(
    ("task", "reason"),
    [("raise", "ValueError: the table is full"), ("die", r"Killed \(signal 9\)"), ("exit", "exit code 7")],
)
def test_a_failing_rank_ends_all_and_is_named(ranks: Any, task: str, reason: str) -> None:
    with pytest.raises(RankError, match=rf"^Rank 1 of 2 failed: {reason}\. The other ranks were ended\.$") as caught:
        ranks(2, task)
    assert caught.value.rank == 1


def test_the_traceback_of_a_failing_rank_is_never_lost(ranks: Any) -> None:
    said: list[tuple[int | None, str]] = []
    with pytest.raises(RankError):
        ranks(2, "raise", on_line=lambda rank, text: said.append((rank, text)))
    assert said.count((1, "Traceback (most recent call last):")) == 1
    assert (1, "ValueError: the table is") in said


@pytest.mark.parametrize(
    ("task", "reason"), [("raise", "ValueError: the table is full"), ("die", "signal 9"), ("exit", "exit code 7")]
)
def test_one_rank_alone_fails_in_the_same_words(ranks: Any, task: str, reason: str) -> None:
    with pytest.raises(RankError, match=rf"^Rank 0 of 1 failed: {reason}\.$"):
        ranks(1, task)


def test_one_rank_needs_no_starter(ranks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi, "mpiexec_path", lambda: pytest.fail("mpiexec was asked for"))
    assert ranks(1, "finish") == []


@pytest.mark.parametrize(
    ("task", "difference"),
    [
        ("disagree", "states is 10 on rank 0 and 11 on rank 1"),
        ("types", "the table's type is '<f4' on rank 0 and '<f8' on rank 1"),
        ("programs", "the version of mosaic-rl is '0.0.2' on rank 0 and '0.0.1' on rank 1"),
        ("shapes", r"the table's shape is \(16, 4\) on rank 0 and \(500, 6\) on rank 1"),
        ("options", "learning_rate is 0.25 on rank 0 and 0.5 on rank 1"),
        ("rules", r"the digest of the env's rules is '\w+' on rank 0 and '\w+' on rank 1"),
    ],
)
def test_ranks_that_disagree_are_told_where(ranks: Any, task: str, difference: str) -> None:
    with pytest.raises(InputError, match=rf"^The ranks disagree: {difference}\. Start all ranks with the same"):
        ranks(2, task)


def test_notes_that_cannot_be_removed_do_not_hide_the_failure(ranks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that MPI is still killing may write into their folder while it is removed."""

    def refuse(folder: str, onerror: Any = None, onexc: Any = None, **_: Any) -> None:
        try:
            raise OSError(errno.ENOTEMPTY, "Directory not empty", folder)
        except OSError as error:
            onexc(os.rmdir, folder, error) if onexc else onerror(os.rmdir, folder, sys.exc_info())

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(InputError, match="The ranks disagree: states is 10"):
        ranks(2, "disagree")


def test_ranks_that_do_not_see_each_other_are_told_why(ranks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi, "mpiexec_path", lambda: Path("/usr/bin/env"))  # starts one, and it is no rank
    original = subprocess.Popen

    def without_count(command: list[str], **more: Any) -> Any:
        return original([part for part in command if part not in ("-n", "2")], **more)

    monkeypatch.setattr(mpi.subprocess, "Popen", without_count)
    with pytest.raises(InputError, match=r"^The ranks disagree: mpiexec started 2, but they see 1\. .*MPI4PY_LIBMPI"):
        ranks(2, "speak")


def test_a_library_that_cannot_be_loaded_is_said(ranks: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPI4PY_LIBMPI", "/nowhere/libmpi.so")
    with pytest.raises(InputError, match=r"^MPI is installed, but its library cannot be loaded: .*Type: pip install"):
        ranks(2, "speak")


def test_letters_come_whole_and_in_order(ranks: Any) -> None:
    assert ranks(3, "write") == [(0, f"{sender} [0, 1, 2] True") for sender in (1, 2)]


def test_a_rank_that_waits_for_an_order_leaves_its_core_to_others(ranks: Any) -> None:
    ((rank, said),) = ranks(2, "rest")
    assert rank == 1
    assert float(said.split()[2]) < 0.5, said


def test_giving_up_ends_every_rank(ranks: Any) -> None:
    pids: list[int] = []

    def give_up(rank: int | None, text: str) -> None:
        pids.append(int(text.removeprefix("pid ")))
        if len(pids) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ranks(2, "wait", on_line=give_up)
    assert len(pids) == 2
    _, left = psutil.wait_procs([psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)], timeout=60)
    assert left == []


@pytest.mark.parametrize("count", [1, 2])
def test_ranks_do_not_outlive_a_killed_starter(ranks: Any, tmp_path: Path, count: int) -> None:
    start = f"from mosaic.runtimes.mpi.launch import run_ranks; run_ranks('rank_work', ['wait'], {count})"
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "TMPDIR": str(tmp_path)}  # its notes stay behind
    command = [sys.executable, "-c", start]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout is not None
        pids = [int(starter.stdout.readline().rpartition(" ")[2]) for _ in range(count)]
        started = [psutil.Process(pid) for pid in pids] + psutil.Process(starter.pid).children(recursive=True)
        starter.kill()
    _, left = psutil.wait_procs(started, timeout=60)
    assert [process.pid for process in left if process.status() != psutil.STATUS_ZOMBIE] == []


def test_no_ranks_are_refused() -> None:
    with pytest.raises(InputError, match="MPI needs at least 1 rank, not 0"):
        run_ranks("rank_work", [], 0)


def test_a_missing_installation_is_said_with_the_line_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpi, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"no package 'mpi4py'\. Type: pip install 'mosaic-rl\[mpi\]'"):
        run_ranks("rank_work", [], 2)

    def missing(name: str) -> Any:
        raise mpi.PackageNotFoundError(name)

    monkeypatch.setattr(mpi, "distribution", missing)
    with pytest.raises(MissingExtraError, match=r"no package 'mpich'\. Type: pip install 'mosaic-rl\[mpi\]'"):
        mpiexec_path()
