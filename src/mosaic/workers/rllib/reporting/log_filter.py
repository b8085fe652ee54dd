"""Log filters for warnings of RLlib and Ray about interfaces that Mosaic does not use."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class _Without:
    """Filter that drops records with a text, or with another."""

    text: str
    other: str | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        said = record.getMessage()
        return self.text not in said and (self.other is None or self.other not in said)


REMARKS = {
    "ray.rllib.algorithms.algorithm_config": _Without("on the new API stack!"),
    "ray.rllib.algorithms.sac.sac": _Without("on the new API stack!"),
    "ray._common.deprecation": _Without(  # RLlib's own calls
        "`RLModule(config=[RLModuleConfig object])`", "appo_torch_rl_module.APPOTorchRLModule` has been deprecated"
    ),
    "ray.tune.utils.util": _Without("Install gputil"),
}


# Ray's compiled part complains about the way in which RLlib passes its configuration to env runners.
_COMPILED_REMARKS = (b"has constructor arguments in the object store and max_restarts > 0",)


@contextmanager
def compiled_remarks_dropped() -> Iterator[None]:
    """Filter messages that Ray's C++ core writes directly to stderr, bypassing Python's logging.

    A program that is started in the block keeps writing to the pipe, so the thread reads to the end of that.
    """
    real, (source, sink) = os.dup(2), os.pipe()
    sys.stderr.flush()
    os.dup2(sink, 2)
    os.close(sink)
    threading.Thread(target=_pass_on, args=(source, os.dup(real)), name="stderr", daemon=True).start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(real, 2)
        os.close(real)


def _pass_on(source: int, target: int) -> None:
    with os.fdopen(source, "rb") as lines, os.fdopen(target, "wb", buffering=0) as out:
        for line in lines:
            if not any(remark in line for remark in _COMPILED_REMARKS):
                out.write(line)


_OURS = "mosaic_remarks"
_OF_PROCESSES = (
    "Setting up process group for: env://",
    "[c10d] The hostname of the client socket cannot be retrieved",  # a learner on a machine without a name server
    *(text for remark in REMARKS.values() for text in (remark.text, remark.other) if text),
)


def _without_remarks(batch: dict[str, Any]) -> None:
    batch["lines"] = [line for line in batch["lines"] if not any(remark in line for remark in _OF_PROCESSES)]


def keep_quiet() -> None:
    """Install the filters in this process; safe to call repeatedly.

    Ray prints what its processes write here, learners among them, in which nothing of Mosaic may be imported.
    """
    from ray._private.ray_logging import global_worker_stdstream_dispatcher as printed

    if _OURS not in (name for name, _ in printed.handlers):
        printed.handlers.insert(0, (_OURS, _without_remarks))  # before the one that prints
    for name, remark in REMARKS.items():
        logging.getLogger(name).addFilter(remark)
