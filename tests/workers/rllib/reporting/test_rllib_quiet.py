"""A run's log holds what concerns the user, and only known remarks are left out of it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading

import pytest

from mosaic.workers.rllib.reporting.log_filter import REMARKS, compiled_remarks_dropped, keep_quiet


@pytest.fixture(autouse=True)
def _as_before():
    yield
    for name, remark in REMARKS.items():
        logging.getLogger(name).removeFilter(remark)


def test_a_remark_is_left_out_and_everything_else_is_kept():
    keep_quiet()
    keep_quiet()
    for name, remark in REMARKS.items():
        logger = logging.getLogger(name)
        assert logger.filters.count(remark) == 1
        said = logging.LogRecord(name, logging.WARNING, "", 0, f"about {remark.text} and so on", None, None)
        other = logging.LogRecord(name, logging.ERROR, "", 0, "an env runner %s is lost", (3,), None)
        assert not logger.filter(said)
        assert logger.filter(other)


def test_what_rays_compiled_part_says_of_rllib_is_dropped_and_the_rest_is_kept(capfd):
    others = set(threading.enumerate())
    with compiled_remarks_dropped():
        os.write(2, b"core_worker.cc: Actor has constructor arguments in the object store and max_restarts > 0. If\n")
        print("an error of the env", file=sys.stderr)
        child = subprocess.Popen(["sh", "-c", "read line; echo of a child >&2"], stdin=subprocess.PIPE)
    print("later", file=sys.stderr)
    child.communicate(b"\n")
    for thread in set(threading.enumerate()) - others:
        thread.join()  # it ends when the child has
    heard = capfd.readouterr().err
    assert sorted(heard.splitlines()) == ["an error of the env", "later", "of a child"]


def test_remarks_of_learner_processes_are_dropped_before_ray_prints_them(monkeypatch):
    from ray._private.ray_logging import global_worker_stdstream_dispatcher as printed

    seen = []
    monkeypatch.setattr(printed, "handlers", [("ray_print_logs", lambda batch: seen.extend(batch["lines"]))])
    keep_quiet()
    keep_quiet()
    remark = "DeprecationWarning: `RLModule(config=[RLModuleConfig object])` has been deprecated."
    of_torch = "[W1116 socket.cpp:207] [c10d] The hostname of the client socket cannot be retrieved. err=-3"
    printed.emit({"pid": 7, "is_err": True, "lines": [remark, of_torch, "an error of the env"]})
    assert seen == ["an error of the env"]


def test_both_deprecations_that_rllib_causes_itself_are_left_out():
    keep_quiet()
    logger = logging.getLogger("ray._common.deprecation")
    for said in ("`x.appo_torch_rl_module.APPOTorchRLModule` has been deprecated.", "`my.Module` has been deprecated."):
        record = logging.LogRecord(logger.name, logging.WARNING, "", 0, f"DeprecationWarning: {said}", None, None)
        assert bool(logger.filter(record)) is ("my.Module" in said)
