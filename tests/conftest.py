"""Signals as a terminal gives them, distribution of the tests over worker processes, and the end of runs they left."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer

from tests.distribution import GroupScheduling, rank
from tests.leftovers import stop_runs_below

# A shell that runs the tests in the background lets them ignore Ctrl-C, and what they start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Hundreds of modules and thousands of tests are there to stay: searching them for garbage, again and again, took a
# quarter of the time. `pytest_collection_finish` switches the search on for what the tests make.
gc.disable()

# A busy machine takes longer for an example: that is not a failure.
settings.register_profile("any speed", deadline=None)
settings.load_profile("any speed")
HERE = Path(__file__).parent
# Tests that use these fixtures, or are in these places and take many seconds of CPU, run in `make test` and not in
# `make check`.
SLOW_FIXTURES = {"chromium", "ray"}
SLOW_PLACES = [
    "core/test_numba_cache.py",
    "envs/test_contract_catalog.py",
    "envs/vector/test_multi_process.py",
    "exports/hub/test_bundles.py",
    "exports/test_export.py",
    "exports/test_exports_of_a_server.py",
    "exports/test_foreign_export.py",
    "exports/test_jobs.py",
    "exports/test_networks.py",
    "learners/dqn/test_torch_engine.py",
    "learners/engines/test_torch.py",
    "learners/engines/test_torch_tasks.py",
    "learners/ppo/test_picture_rollouts.py",
    "learners/tabular/test_tabular_engines.py",
    "learners/test_probes.py",
    "policies/minimax/test_minimax_connect_four.py",
    "runs/test_disk_full.py",
    "runs/test_python_face.py",
    "runs/test_resume_settings.py",
    "runs/test_resume_trust.py",
    "runs/test_run.py",
    "runs/test_supervisor_guard.py",
    "runs/tuning/test_search_trial.py",
    "runtimes/mpi/test_mpi_ranks.py",
    "runtimes/test_stepping_processes.py",
    "server/queue/test_dispatcher.py",
    "server/streams/test_streams.py",
    "server/test_hostile_requests.py",
    "server/test_serving.py",
    "simulation/test_simulation.py",
    "store/test_index_damage.py",
    "ui/cli/test_cli_runs.py",
    "ui/cli/test_env_constructions.py",
    "workers/rllib/checkpoint/test_rllib_play.py",
    "workers/rllib/checkpoint/test_rllib_user_play.py",
    "workers/rllib/config/test_rllib_user_classes.py",
    "workers/rllib/env/test_rllib_twin.py",
    "workers/rllib/reporting/test_rllib_callbacks.py",
    "workers/rllib/test_rllib_loop.py",
    "workers/rllib/test_rllib_policies.py",
    "workers/sb3/test_sb3_controllers.py",
    "workers/sb3/test_sb3_export.py",
    "workers/sb3/test_sb3_sampling.py",
    "workers/sb3/test_sb3_worker.py",
    "workers/sb3/test_sb3_writer.py",
    "workers/script/test_policies.py",
    "workers/script/test_script_runs.py",
    "workers/script/test_worker.py",
    "workers/tabular/test_tabular_own_envs.py",
    "workers/test_host.py",
    "workers/test_mapping_contract.py",
    "workers/test_same_on_any_machine.py",
    "workers/test_settings_contract.py",
    "workers/test_slow_env.py",
]
NO_BYTECODE = sys.dont_write_bytecode


@pytest.fixture
def runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run that the test starts train to its end in the test's own process."""
    from tests.in_process import attempt_here

    monkeypatch.setattr("mosaic.runs.run.start_attempt", attempt_here)


@pytest.fixture
def short_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every run of a few steps train in the test's own process; longer ones have processes, as ever."""
    from tests.in_process import short_attempt_here

    monkeypatch.setattr("mosaic.runs.run.start_attempt", short_attempt_here)


def pytest_collectstart() -> None:
    """Keep what pytest makes of the test files for the next time: PettingZoo's knights_archers_zombies forbids it."""
    sys.dont_write_bytecode = NO_BYTECODE


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    slow = {HERE / place for place in SLOW_PLACES}
    for item in items:
        heavy = item.path in slow or SLOW_FIXTURES & set(item.fixturenames)
        if heavy and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.chosen)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: rank(item.nodeid, slow=item.get_closest_marker("slow") is not None))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Stop the runs that a failed test has started: it did not come to the line that ends them."""
    report = yield
    if report.failed and (folder := getattr(item, "funcargs", {}).get("tmp_path")):
        stop_runs_below(folder)
    return report


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling | None:
    if config.getoption("dist") != "loadscope":
        return None
    config.option.loadscopereorder = False  # the order is ours
    return GroupScheduling(config, log)
