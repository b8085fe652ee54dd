"""Writers and readers of frame rings in processes of their own, and frames in which every byte can be checked.

python fastlane_programs.py write FOLDER           publishes at full speed until a line comes in, then ends well
python fastlane_programs.py read FOLDER            checks every byte until the end, then prints what it saw as JSON
python fastlane_programs.py children FOLDER COUNT  a writer for each line that comes in, until it is killed
"""

from __future__ import annotations

import json
import os
import select
import sys
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic.telemetry.frames.reader import Frame, FrameReader
from mosaic.telemetry.frames.writer import FrameWriter

SMALL, LARGE = (84, 84, 3), (480, 640, 3)
_PERIOD = 251
_BYTES = np.arange(LARGE[0] * LARGE[1] * 3 + _PERIOD, dtype=np.int64) % _PERIOD
_PATTERN: NDArray[np.uint8] = _BYTES.astype(np.uint8)


def picture(step: int, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    """Differs in every byte from that of any other step of the same period: a mixture of two is always noticed."""
    start = step % _PERIOD
    return _PATTERN[start : start + int(np.prod(shape))].reshape(shape)


def facts(step: int) -> dict[str, Any]:
    return {
        "step": step,
        "episode": step // 7,
        "env": step % 5,
        "agent": f"agent_{step % 3}",
        "reward": step / 2,
        "ret": -float(step),
    }


def fault(frame: Frame) -> str:
    """Empty where every byte and number belongs to the frame's step."""
    expected = facts(frame.step)
    found = {name: getattr(frame, name) for name in expected}
    if found != expected or frame.number != frame.step:
        return f"frame {frame.number} has {found}"
    if not np.array_equal(frame.pixels, picture(frame.step, frame.pixels.shape)):
        return f"frame {frame.number} is torn"
    return ""


def publish(writer: FrameWriter, step: int, shape: tuple[int, ...]) -> None:
    writer.publish(picture(step, shape), **facts(step))


def write(folder: Path) -> None:
    step = 0
    with FrameWriter(folder) as writer:
        while True:
            step += 1
            publish(writer, step, SMALL if step // 100 % 4 else (60, 80 + step % 5))
            if step == 1:
                print("writing", flush=True)
            if step % 100 == 0 and _told():
                break


def _told() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def read(folder: Path) -> None:
    seen, last, faults, ended = 0, 0, [], False
    with FrameReader(folder) as reader:
        while True:
            frame = reader.read()
            if frame is None and ended:
                break
            if frame is None:
                ended = reader.state() == "finished"
                os.sched_yield()
                continue
            seen += 1
            if problem := fault(frame):
                faults.append(problem)
            if frame.number <= last:
                faults.append(f"frame {frame.number} came after {last}")
            last = frame.number
            if seen % 200 == 0:
                print(json.dumps({"seen": seen, "faults": faults, "ended": False}), flush=True)
    print(json.dumps({"seen": seen, "faults": faults, "ended": True}), flush=True)


def children(folder: Path, count: int) -> None:
    """Forked from a process that has compiled everything: a hundred starts would take minutes."""
    FrameWriter(folder).close()
    for _ in range(count):
        sys.stdin.readline()
        pid = os.fork()
        if pid == 0:
            _write_until_killed(folder)
        print(pid, flush=True)
        os.waitpid(pid, 0)


def _write_until_killed(folder: Path) -> None:
    writer, step = FrameWriter(folder), 0
    while not _told():  # a test that is killed itself leaves nothing behind
        step += 1
        publish(writer, step, LARGE)
    os._exit(1)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["write", folder]:
            write(Path(folder))
        case ["read", folder]:
            read(Path(folder))
        case ["children", folder, count]:
            children(Path(folder), int(count))
        case other:
            sys.exit(f"Unknown: {other}")
