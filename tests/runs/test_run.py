"""A run from its submission to its end, with real processes."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import mosaic
from mosaic.core.errors import InputError, MosaicError, UnknownNameError
from mosaic.core.proc import command_line
from mosaic.runs.control import RunNotAliveError, send
from mosaic.runs.daemonize import HELD
from mosaic.runs.launch import RunAliveError, StartError, start_attempt
from mosaic.runs.processes import below, is_alive, look, marked
from mosaic.runs.run import WaitedTooLongError
from mosaic.runs.train import RunFailedError
from mosaic.runs.trainer import Trainer
from mosaic.store.lock import RunLock, held
from mosaic.store.run_folder import RunFolder
from mosaic.store.run_manifest import RunManifest
from mosaic.store.state import State
from tests.in_process import attempt_here
from tests.leftovers import stop_runs_below
from tests.runs.run_cases import LONG, asked_of, assert_no_gap, curve, eventually, first_event, toy


def test_a_run_finishes_and_leaves_everything_in_its_folder(trainer: Trainer) -> None:
    run = trainer.submit(toy(2000, iteration_s=0.0, name="first"))
    assert run.wait(60) is State.FINISHED
    assert_no_gap(run)
    assert [steps for steps, _ in curve(run)] == list(range(100, 2001, 100))
    assert run.checkpoints()[-1].env_steps == 2000
    (attempt,) = run.record().attempts
    assert (attempt.number, attempt.exit, attempt.reason) == (1, 0, "")
    assert attempt.ended is not None
    manifest = RunManifest.model_validate_json(run.folder.manifest.read_bytes())
    assert (manifest.state, manifest.final_metrics["env_steps"]) == (State.FINISHED, 2000)
    assert {"config.json", "metrics.jsonl", "worker.log"} <= {artefact.path for artefact in manifest.artefacts}
    assert not run.folder.control.exists()
    assert not held(run.folder)
    assert [summary.run_id for summary in trainer.summaries(states={State.FINISHED})] == [run.id]
    assert trainer.run("first").id == trainer.run("latest").id == run.id
    frame = pd.DataFrame(run.metrics())
    assert frame["env_steps"].tolist() == [float(steps) for steps, _ in curve(run)]
    assert np.isfinite(frame["episode_reward_mean"]).all()
    assert "<td" in run._repr_html_()
    assert f"{run!r}" == f"<Run {run.id} finished>"
    with pytest.raises(InputError, match=f"finished and cannot be resumed.* mosaic runs resume {run.id} --steps 4000"):
        run.resume()
    run.delete()
    assert not run.folder.path.exists()
    assert trainer.runs() == []


def test_a_run_belongs_to_nobody_and_hears_only_its_owner(trainer: Trainer) -> None:
    run = trainer.submit(toy())
    first_event(run)
    attempt = run.record().attempts[0]
    assert attempt.supervisor is not None
    assert attempt.worker is not None
    supervisor, worker = attempt.supervisor.pid, attempt.worker.pid
    assert supervisor not in {row.pid for row in below(os.getpid())}
    assert len({os.getsid(pid) for pid in (os.getpid(), supervisor, worker)}) == 3
    assert run.id in command_line(worker)
    mode = run.folder.control.stat().st_mode
    assert stat.S_ISFIFO(mode)
    assert stat.S_IMODE(mode) == 0o600
    assert {row.pid for row in marked(run.id)} == {worker}
    run.stop()
    assert (run.state, run.reason, run.record().attempts[0].exit) == (State.STOPPED, "asked to stop", 3)
    assert run.checkpoints()[-1].env_steps == curve(run)[-1][0]
    run.stop()  # stopping what has stopped is nothing to complain about


def test_pause_resume_and_checkpoint_now(trainer: Trainer) -> None:
    run = trainer.submit(toy(checkpoint={"every_steps": LONG}))
    first_event(run)
    run.pause()
    assert run.state is State.PAUSED
    paused_at = len(list(run.events()))
    saved = run.checkpoint()
    assert saved.env_steps in [steps for steps, _ in curve(run)]
    assert eventually(lambda: run.state is State.PAUSED)
    run.resume()
    assert run.state is State.RUNNING
    assert eventually(lambda: len(list(run.events())) > paused_at + 4)
    with pytest.raises(InputError, match=rf"is running and cannot be resumed. Look at it: mosaic watch {run.id}"):
        run.resume()
    run.stop()
    assert_no_gap(run)


def test_a_stopped_run_goes_on_as_if_nothing_had_been(trainer: Trainer) -> None:
    undisturbed = trainer.submit(toy(3000, iteration_s=0.0))
    disturbed = trainer.submit(toy(3000, iteration_s=0.02))
    first_event(disturbed)
    disturbed.stop(reason="lunch")
    assert (disturbed.state, disturbed.reason) == (State.STOPPED, "lunch")
    disturbed.resume()
    assert disturbed.wait(60) is State.FINISHED
    assert undisturbed.wait(60) is State.FINISHED
    assert curve(disturbed) == curve(undisturbed)
    assert_no_gap(disturbed)
    assert [attempt.exit for attempt in disturbed.record().attempts] == [3, 0]


def test_a_queued_run_waits_can_be_started_once_and_can_be_taken_back(trainer: Trainer) -> None:
    run, other = (trainer.submit(toy(500), start=False) for _ in range(2))
    assert run.state is State.QUEUED
    with pytest.raises(InputError, match=f"is queued: it cannot pause. Start it first, or take it back: .* {run.id}"):
        run.pause()
    with pytest.raises(WaitedTooLongError, match=r"did not end within 0.1 s; it is queued"):
        run.wait(0.1)
    run.start()
    with pytest.raises(InputError, match=r"not queued"):
        run.start()
    assert run.wait(60) is State.FINISHED
    other.stop(reason="not needed")
    assert (other.state, other.record().attempts) == (State.STOPPED, ())
    with pytest.raises(InputError, match=r"is stopped: it cannot checkpoint"):
        other.checkpoint()


def test_of_many_starters_one_starts(trainer: Trainer) -> None:
    run = trainer.submit(toy(), start=False)
    together = threading.Barrier(4)

    def start() -> bool:
        together.wait()
        try:
            start_attempt(run.folder, 1)
        except RunAliveError:
            return False
        return True

    with ThreadPoolExecutor(4) as starters:
        assert sum(starters.map(lambda _: start(), range(4))) == 1
    first_event(run)
    assert len(run.record().attempts) == 1
    assert len(marked(run.id)) == 1
    run.stop()
    with pytest.raises(RunAliveError, match="was started by another process in the meantime"):
        start_attempt(run.folder, 1)  # a starter that slept through the whole first attempt
    assert len(run.record().attempts) == 1


def test_ctrl_c_in_the_terminal_does_not_reach_a_supervisor_that_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = "import os, sys; sys.exit(os.getpgrp() != os.getpid())"  # the terminal signals its group
    monkeypatch.setattr("mosaic.runs.launch.module_command", lambda *_: [sys.executable, "-c", program])
    start_attempt(RunFolder(tmp_path), 1)


def test_the_supervisor_says_that_somebody_has_the_run(trainer: Trainer) -> None:
    run = trainer.submit(toy(500), start=False)
    command = [sys.executable, "-m", "mosaic.runs.supervisor"]
    with RunLock(run.folder) as lock:
        assert lock.try_acquire()
        answer = subprocess.run([*command, str(run.folder.path)], capture_output=True, text=True, check=False)
    assert (answer.returncode, answer.stdout) == (HELD, "")
    assert answer.stderr == f"The run {run.id} is already alive: another process holds its lock.\n"
    assert run.state is State.QUEUED
    nowhere = subprocess.run([*command, str(run.folder.path / "no")], capture_output=True, text=True, check=False)
    assert (nowhere.returncode, nowhere.stderr) == (2, f"There is no run in '{run.folder.path}/no'.\n")


def test_sigterm_to_the_supervisor_is_a_stop(trainer: Trainer) -> None:
    run = trainer.submit(toy())
    first_event(run)
    supervisor = run.record().attempts[0].supervisor
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGTERM)
    assert run.wait(60) is State.STOPPED
    assert run.reason == "its supervisor was asked to end (SIGTERM)"
    assert run.checkpoints()


def test_nonsense_in_the_fifo_is_logged_and_harms_nothing(trainer: Trainer) -> None:
    run = trainer.submit(toy())
    first_event(run)
    with run.folder.control.open("wb") as control:
        control.write(b'hello\n{"command": "dance"}\n[]\n{"command": "stop", "patience_s": "soon"}\n')
        control.write(b'{"command": "stop", "patience_s": [1]}\n')
    send(run.folder, "checkpoint")
    run.checkpoint()
    log = (run.folder.path / "supervisor.log").read_text()
    assert "'dance' is not a command: stop, pause, resume, checkpoint" in log
    assert log.count("a command was not understood") == 5
    run.stop()
    with pytest.raises(RunNotAliveError, match=f"cannot pause: it is not alive. Type: mosaic runs show {run.id}"):
        send(run.folder, "pause")
    with pytest.raises(InputError, match=r"The command 'stop' takes 5,034 bytes.* Give a shorter reason"):
        send(run.folder, "stop", reason="x" * 5000)


def test_a_failure_says_why(trainer: Trainer, rogue: str) -> None:
    broken = trainer.submit(asked_of(rogue, "broken"))
    assert broken.wait(60) is State.FAILED
    assert broken.reason == "RuntimeError: the reward is not a number"
    assert "Traceback" in broken.log()
    quitter = trainer.submit(asked_of(rogue, "quitter"))
    assert quitter.wait(60) is State.FAILED
    assert quitter.reason == "the worker ended with exit code 7"
    for code in (0, 3):  # what the exit codes of a finished and of a stopped worker look like
        quitter = trainer.submit(asked_of(rogue, "quitter", {"code": code}))
        assert quitter.wait(60) is State.FAILED
        assert quitter.reason.startswith(f"the worker ended with exit code {code}")
    with pytest.raises(
        RunFailedError, match=r"failed: RuntimeError: the reward is not a number\. Its log: mosaic runs log "
    ):
        mosaic.train("gym/CartPole-v1", worker=rogue, algorithm="broken", home=trainer.store.home)
    with pytest.raises(InputError, match="The worker rogue cannot pause"):
        broken.pause()


def test_nothing_survives_a_stop(trainer: Trainer, rogue: str) -> None:
    """Neither a worker that ignores SIGINT and SIGTERM nor its child that left group, session and parent."""
    run = trainer.submit(asked_of(rogue, "deaf"))
    child_file, own_file = run.folder.path / "child.pid", run.folder.path / "me.pid"
    assert eventually(lambda: child_file.exists() and child_file.read_text() != "" and own_file.exists())
    processes = [look(int(file.read_text())) for file in (child_file, own_file)]
    child, worker = processes
    assert child is not None
    assert worker is not None
    assert os.getsid(child.pid) != os.getsid(worker.pid)
    run.stop(patience_s=1.0, wait=False)
    assert eventually(lambda: not is_alive(child) and not is_alive(worker), within_s=60)
    assert run.wait(60) is State.STOPPED
    assert run.reason == "asked to stop (it did not stop within 1 s and was killed)"
    assert run.forced
    assert run.record().attempts[0].exit == -signal.SIGKILL


def test_the_leftovers_of_a_lost_run_are_ended_before_it_goes_on(trainer: Trainer, rogue: str) -> None:
    run = trainer.submit(asked_of(rogue, "deaf"))
    child_file = run.folder.path / "child.pid"
    assert eventually(lambda: child_file.exists() and child_file.read_text() != "")
    first_event(run)
    old = marked(run.id)
    assert len(old) == 2
    supervisor = run.record().attempts[0].supervisor
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    assert run.wait(60) is State.LOST
    run.resume()
    assert not [process for process in old if is_alive(process)]
    assert run.record().attempts[0].reason == "its supervisor died"
    supervisor = run.record().attempts[1].supervisor
    assert supervisor is not None
    os.kill(supervisor.pid, signal.SIGKILL)
    assert run.wait(60) is State.LOST
    run.stop()
    assert not marked(run.id)
    run.delete()


def test_the_wall_time_limit_stops_and_saves(trainer: Trainer) -> None:
    run = trainer.submit(toy(resources={"max_wall_s": 1.5}))
    assert run.wait(60) is State.STOPPED
    assert run.reason == "its time limit of 1.5 s (resources.max_wall_s) is over"
    assert run.checkpoints()[-1].env_steps == (curve(run) or [(0,)])[-1][0]  # a busy machine may not have begun


def test_the_memory_limit_counts_and_fails(trainer: Trainer, rogue: str) -> None:
    limit = {"max_memory_mb": 400}
    run = trainer.submit(asked_of(rogue, "hungry", {"megabytes": 500}, resources=limit))
    assert run.wait(60) is State.FAILED
    assert run.reason.endswith("MB, 400 MB are allowed (resources.max_memory_mb)")
    assert run.record().attempts[0].exit == 3


def test_a_group_differs_in_nothing_but_its_seeds(trainer: Trainer) -> None:
    runs = trainer.submit_group(toy(300, iteration_s=0.0, name="many"), seeds=3, start=False)
    assert [run.config.name for run in runs] == ["many-1", "many-2", "many-3"]
    assert len({run.config.seed for run in runs}) == 3
    (group,) = {run.record().group for run in runs}
    assert {summary.run_id for summary in trainer.summaries(group=group)} == {run.id for run in runs}
    again = trainer.submit_group(toy(300, iteration_s=0.0), seeds=2, start=False)
    assert [run.config.seed for run in again] == [run.config.seed for run in runs[:2]]
    with pytest.raises(InputError, match="A group has at least one run, not 0"):
        trainer.submit_group(toy(), seeds=0)


def test_train_waits_and_takes_settings_from_everywhere(trainer: Trainer, tmp_path: Path) -> None:
    file = tmp_path / "asked.json"
    file.write_text(json.dumps(toy(10_000, iteration_s=0.0)))
    run = mosaic.train(str(file), total_timesteps=700, name="from a file")
    assert (run.state, curve(run)[-1][0], run.config.seed) == (State.FINISHED, 700, 5)
    other = mosaic.train("gym/CartPole-v1", worker="toy", episodes=4, seed=9)
    assert (other.config.seed, len(curve(other))) == (9, 4)
    with pytest.raises(UnknownNameError, match=r"There is no worker named 'toi'. Did you mean 'toy'"):
        mosaic.train("gym/CartPole-v1", worker="toi")
    with pytest.raises(MosaicError, match=r"There is no run 'from b file'. Did you mean 'from a file'"):
        trainer.run("from b file")


def test_ctrl_c_stops_and_saves(trainer: Trainer) -> None:
    program = "import mosaic, sys; mosaic.train('gym/CartPole-v1', worker='toy', params={'iteration_s': 0.01})"
    caller = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, start_new_session=True)
    assert eventually(lambda: any(curve(run) for run in trainer.runs()))
    (run,) = trainer.runs()
    os.killpg(caller.pid, signal.SIGINT)
    _, complaint = caller.communicate(timeout=60)
    assert b"KeyboardInterrupt" in complaint
    assert (run.state, run.reason) == (State.STOPPED, "Ctrl-C")
    assert run.checkpoints()[-1].env_steps == curve(run)[-1][0]


def test_a_run_that_cannot_be_written_down_is_not_started(trainer: Trainer) -> None:
    run = trainer.submit(toy(), start=False)
    before = run.folder.state.read_bytes()
    (run.folder.path / ".reserve").mkdir()  # where room on the disk should be kept
    with pytest.raises(StartError, match=r"could not be started: .* has no room for a run: Is a directory.*log\)"):
        run.start()
    assert (run.state, run.folder.state.read_bytes()) == (State.QUEUED, before)
    assert not marked(run.id)


def test_a_run_that_cannot_hear_is_not_started(trainer: Trainer) -> None:
    run = trainer.submit(toy(), start=False)
    run.folder.control.mkdir()  # where the FIFO should be
    with pytest.raises(StartError, match=r"The run could not be started: .* \(see .*supervisor\.log\)"):
        run.start()
    assert run.state is State.QUEUED
    assert not marked(run.id)


def test_a_supervisor_that_fails_takes_its_worker_with_it(trainer: Trainer) -> None:
    run = trainer.submit(toy(), start=False)
    run.folder.config.write_text("{")
    run.start()
    assert run.wait(60) is State.FAILED
    assert run.reason
    assert not marked(run.id)


def test_a_stop_reaches_a_run_that_is_just_being_started(trainer: Trainer) -> None:
    run = trainer.submit(toy(), start=False)
    with ThreadPoolExecutor(1) as other:
        starting = other.submit(start_attempt, run.folder, 1)
        assert eventually(lambda: held(run.folder))
        run.stop()
        starting.result()
    assert (run.state, run.reason) == (State.STOPPED, "asked to stop")


def test_following_ends_with_the_run_and_misses_nothing(trainer: Trainer) -> None:
    run = trainer.submit(toy(1500, iteration_s=0.01))
    numbers = [event["seq"] for event in run.events(follow=True)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers == [event["seq"] for event in run.events()]
    assert [event["seq"] for event in run.events(after_seq=numbers[-3])] == numbers[-2:]


def test_runs_that_a_failed_test_left_are_stopped(trainer: Trainer, tmp_path: Path) -> None:
    run = trainer.submit(toy())
    first_event(run)
    stop_runs_below(tmp_path / "elsewhere")
    assert run.state in {State.STARTING, State.RUNNING}
    stop_runs_below(tmp_path)
    assert run.wait(60) is State.STOPPED


@pytest.mark.parametrize("seen", ["alive", "ended"])
def test_a_server_may_start_a_new_run_first(trainer, monkeypatch, seen):
    """Between its creation and its start it is queued, and every server of the store starts what is queued."""

    def started_elsewhere(folder, attempt):
        attempt_here(folder, attempt)
        if seen == "alive":
            raise RunAliveError("another process holds its lock")
        raise InputError("it is finished, not queued")

    monkeypatch.setattr("mosaic.runs.run.start_attempt", started_elsewhere)
    assert trainer.submit(toy(20, iteration_s=0.0)).state is State.FINISHED
    monkeypatch.setattr("mosaic.runs.run.start_attempt", refuses)
    with pytest.raises(InputError, match="the reason"):
        trainer.submit(toy(20, iteration_s=0.0))


def refuses(folder, attempt):
    raise InputError("the reason")
