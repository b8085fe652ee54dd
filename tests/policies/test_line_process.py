"""Processes that talk in lines: they end with us, whatever happens."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mosaic.core.errors import InputError
from mosaic.core.proc import read_stat, wait_gone
from mosaic.core.system import open_process
from mosaic.policies.controller import PolicyError, PolicyTimeoutError
from mosaic.policies.line_process import Deadline, LineProcess
from mosaic.policies.uci.options import INSTALL_STOCKFISH, find_program

CAT = Path("/bin/cat")
STOCKFISH = find_program("stockfish")
AMPLE_S = 30.0


def script(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def has_ended(handle: int) -> bool:
    """Waits for a process that is not our child."""
    try:
        return wait_gone(handle, AMPLE_S)
    finally:
        os.close(handle)


def exists(pid: int) -> bool:
    return read_stat(pid) is not None


def test_lines_go_there_and_back() -> None:
    process = LineProcess([CAT])
    process.send("one")
    process.send("two")
    assert [process.read_line(Deadline.after(AMPLE_S)) for _ in range(2)] == ["one", "two"]
    process.end()
    process.end()
    assert not exists(process.pid)


def test_a_long_line_to_a_process_that_writes_before_it_reads() -> None:
    chatter = "import sys; sys.stderr.write('e' * 200_000); sys.stdout.write('o' * 200_000 + chr(10)); "
    process = LineProcess([sys.executable, "-c", chatter + "print(len(input()), flush=True)"], errors_apart=True)
    process.send("x" * 300_000, Deadline.after(AMPLE_S))
    assert len(process.read_line(Deadline.after(AMPLE_S))) == 200_000
    assert process.read_line(Deadline.after(AMPLE_S)) == "300000"
    process.end()


def test_a_line_that_nobody_reads_is_limited_in_time() -> None:
    process = LineProcess(["sleep", "1000"])
    with pytest.raises(PolicyTimeoutError, match=r"^sleep did not respond to 'x{120}…' within 0.05 s"):
        process.send("x" * 300_000, Deadline.after(0.05))
    assert not exists(process.pid)


def test_errors_apart_are_no_output_but_part_of_the_message() -> None:
    failing = "import sys; print('noise', file=sys.stderr); print('answer', flush=True); input(); 1 / 0"
    process = LineProcess([sys.executable, "-c", failing], errors_apart=True)
    assert process.read_line(Deadline.after(AMPLE_S)) == "answer"
    process.send("more")
    with pytest.raises(PolicyError, match=r"exited \(status 1\) on the command 'more'\..*ZeroDivisionError"):
        process.read_line(Deadline.after(AMPLE_S))


def test_a_process_nobody_holds_any_more_is_ended() -> None:
    process = LineProcess([CAT])
    pid = process.pid
    assert exists(pid)
    del process
    gc.collect()
    assert not exists(pid)


def test_silence_ends_the_process_at_the_deadline() -> None:
    process = LineProcess([CAT])
    process.send("hello")
    assert process.read_line(Deadline.after(AMPLE_S)) == "hello"
    with pytest.raises(
        PolicyTimeoutError, match=r"^/bin/cat did not respond to 'hello' within 0\.05 s and was terminated\. .*hello$"
    ):
        process.read_line(Deadline.after(0.05))
    assert not exists(process.pid)


def test_a_deadline_counts_down_and_stops_at_zero() -> None:
    now = iter([100.0, 101.0, 105.0])
    deadline = Deadline.after(3.0, lambda: next(now))
    assert deadline.left_s() == 2.0
    assert deadline.left_s() == 0.0
    assert Deadline.after(None).left_s() is None


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    process = LineProcess([script(tmp_path / "endless", "#!/bin/sh\nexec tr '\\0' x < /dev/zero\n")])
    with pytest.raises(PolicyError, match="wrote a line without an end"):
        process.read_line(Deadline.after(AMPLE_S))
    process.end()


def test_death_is_told_with_status_and_last_words(tmp_path: Path) -> None:
    process = LineProcess([script(tmp_path / "dies", "#!/bin/sh\nread line\necho no network file >&2\nexit 3\n")])
    process.send("uci")
    assert process.read_line(Deadline.after(AMPLE_S)) == "no network file"
    with pytest.raises(PolicyError, match=r"\(status 3\) on the command 'uci'\. Its last output: no network file$"):
        process.read_line(Deadline.after(AMPLE_S))
    with pytest.raises(ValueError, match="closed file"):
        process.send("more")


def test_telling_the_dead_something_is_an_error_too(tmp_path: Path) -> None:
    process = LineProcess([script(tmp_path / "deaf", "#!/bin/sh\nexec <&-\necho deaf\nexec sleep 1000\n")])
    assert process.read_line(Deadline.after(AMPLE_S)) == "deaf"
    with pytest.raises(PolicyError, match=r"on the command 'uci'\. Its last output: deaf"):
        process.send("uci")
    assert not exists(process.pid)


def test_what_is_no_program_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be run as a program: Exec format error"):
        LineProcess([script(tmp_path / "text", "just text\n")])


def test_what_an_engine_started_ends_with_it(tmp_path: Path) -> None:
    process = LineProcess([script(tmp_path / "wrapper", "#!/bin/sh\nsleep 1000 </dev/null &\necho $!\nwait\n")])
    handle = open_process(int(process.read_line(Deadline.after(AMPLE_S))))
    process.end()
    assert has_ended(handle)


FORKED = """
import os
from pathlib import Path
from mosaic.policies.line_process import Deadline, LineProcess
process = LineProcess([Path("/bin/cat")])
child = os.fork()
if child == 0:
    process.end()
    os._exit(0)
os.waitpid(child, 0)
process.send("alive")
print(process.read_line(Deadline.after(30)))
process.end()
"""


def test_a_forked_copy_of_us_leaves_the_process_alone() -> None:
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, check=True)
    assert done.stdout == "alive\n"


THINKING = """
import sys
from pathlib import Path
from mosaic.policies.uci.controller import LineProcess
engine = LineProcess([Path(sys.argv[1])])
engine.send("position startpos")
engine.send("go infinite")
print(engine.pid, flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(STOCKFISH is None, reason=f"Stockfish is not installed: {INSTALL_STOCKFISH}")
def test_stockfish_ends_when_we_are_killed_while_it_thinks() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", THINKING, str(STOCKFISH)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        handle = open_process(int(holder.stdout.readline()))
        holder.send_signal(signal.SIGKILL)
        assert has_ended(handle)
