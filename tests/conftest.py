"""Signals as a terminal gives them, distribution of the tests over worker processes, and the end of runs they left."""

from __future__ import annotations

import gc
import os
import signal
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.remote import Producer

from tests.distribution import GroupScheduling, is_slow_test, only_in_test_all, rank
from tests.extras import pytest_pycollect_makemodule as pytest_pycollect_makemodule
from tests.extras import pytest_runtest_call as pytest_runtest_call
from tests.extras import pytest_runtest_setup as pytest_runtest_setup
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
# Tests that use these fixtures, or are in these files and folders, which take many seconds of CPU, run in `make test`
# and not in `make check`; so do the single tests of `slow_tests.txt`.
SLOW_FIXTURES = {"chromium", "ray"}
SLOW_PLACES = [
    "core/test_numba_cache.py",
    "envs/adapters/test_to_pettingzoo.py",
    "envs/compiled",
    "envs/godot",
    "envs/tensors",
    "envs/test_contract_catalog.py",
    "envs/test_wrappers.py",
    "envs/vector/test_multi_process.py",
    "evaluation/test_evaluate.py",
    "exports",
    "godot",
    "learners/actor_critic",
    "learners/alphazero",
    "learners/dqn",
    "learners/engines/test_imitation_gradients.py",
    "learners/engines/test_torch.py",
    "learners/engines/test_torch_tasks.py",
    "learners/ppo/test_picture_rollouts.py",
    "learners/tabular/test_tabular_engines.py",
    "learners/tabular/training",
    "learners/test_probes.py",
    "models/test_fused_acting.py",
    "policies/minimax/test_minimax_connect_four.py",
    "runs/test_disk_full.py",
    "runs/test_python_face.py",
    "runs/test_resume_settings.py",
    "runs/test_resume_trust.py",
    "runs/test_run.py",
    "runs/test_supervisor_guard.py",
    "runs/tuning/test_search_trial.py",
    "runtimes/mpi/test_mpi_ranks.py",
    "runtimes/test_merging.py",
    "runtimes/test_stepping_processes.py",
    "server/auth/test_guard.py",
    "server/play",
    "server/queue/test_dispatcher.py",
    "server/streams",
    "server/test_api.py",
    "server/test_foreign_code.py",
    "server/test_hostile_requests.py",
    "server/test_mcp.py",
    "server/test_openapi.py",
    "server/test_relay.py",
    "server/test_serving.py",
    "server/test_ssh.py",
    "simulation/test_simulation.py",
    "store/demos/test_demo_store.py",
    "store/test_checkpoint_writers.py",
    "store/test_index_damage.py",
    "telemetry/curves/test_curves.py",
    "ui/cli/test_cli_foundation.py",
    "ui/cli/test_cli_runs.py",
    "ui/cli/test_env_constructions.py",
    "ui/cli/test_projects_command.py",
    "ui/cli/test_raw_exceptions.py",
    "ui/cli/test_tune_command.py",
    "ui/tui",
    "workers/rllib",
    "workers/sb3",
    "workers/script/test_policies.py",
    "workers/script/test_script_runs.py",
    "workers/script/test_worker.py",
    "workers/tabular",
    "workers/test_host.py",
    "workers/test_mapping_contract.py",
    "workers/test_same_on_any_machine.py",
    "workers/test_settings_contract.py",
    "workers/test_slow_env.py",
]
_SLOW = {HERE / place for place in SLOW_PLACES}
NO_BYTECODE = sys.dont_write_bytecode


def in_slow_place(path: Path) -> bool:
    return any(place in _SLOW for place in (path, *path.parents))


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


@pytest.fixture(autouse=True, scope="module")
def own_modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget, after the tests of a file, what they imported from their folders: others have modules of these names."""
    known = len(sys.modules)
    yield
    folder = f"{tmp_path_factory.getbasetemp()}{os.sep}"
    sys.path[:] = [place for place in sys.path if not place.startswith(folder)]
    if len(sys.modules) != known:
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__dict__", {}).get("__file__")).startswith(folder):
                del sys.modules[name]


def pytest_configure(config: pytest.Config) -> None:
    """Keep the user's own files apart: homes and a folder for temporary files, all of which end with the tests."""
    if not hasattr(config, "workerinput"):  # worker processes inherit them
        # What is compiled is kept for the next time, and so are the folders of failed tests.
        os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
        folder = tempfile.TemporaryDirectory(prefix="m-", ignore_cleanup_errors=True)  # short: Ray's sockets lie in it
        config.add_cleanup(folder.cleanup)
        os.environ |= {"HOME": tempfile.mkdtemp(prefix="home-", dir=folder.name), "TMPDIR": folder.name}
        for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
            os.environ.pop(name, None)
        tempfile.tempdir = None  # read TMPDIR again
    os.environ["MOSAIC_HOME"] = tempfile.mkdtemp(prefix="mosaic-home-")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file of which `make check` runs nothing."""
    return True if config.option.markexpr == "not slow" and in_slow_place(collection_path) else None


def pytest_collectstart() -> None:
    """Keep what pytest makes of the test files for the next time: PettingZoo's knights_archers_zombies forbids it."""
    sys.dont_write_bytecode = NO_BYTECODE


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Function]) -> None:
    for item in items:
        heavy = in_slow_place(item.path) or is_slow_test(item.nodeid) or SLOW_FIXTURES & set(item.fixturenames)
        if only_in_test_all(item.nodeid):
            item.own_markers[:] = [mark for mark in item.own_markers if mark.name != "chosen"]
            item.add_marker(pytest.mark.slow)
        elif heavy and item.get_closest_marker("slow") is None:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.chosen)
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: rank(item.nodeid, slow=item.get_closest_marker("slow") is not None))


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(2000, 10, 50)  # libraries that tests import are there to stay too
    gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Function) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Stop the runs that a failed test has started: it did not come to the line that ends them."""
    report = yield
    if report.failed and (folder := getattr(item, "funcargs", {}).get("tmp_path")):
        stop_runs_below(folder)
    return report


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """Stop the runs of tests that were interrupted, in this process and in its worker processes."""
    if exitstatus == pytest.ExitCode.INTERRUPTED and not hasattr(session.config, "workerinput"):
        stop_runs_below(session.config._tmp_path_factory.getbasetemp())


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> GroupScheduling | None:
    if config.getoption("dist") != "loadscope":
        return None
    config.option.loadscopereorder = False  # the order is ours
    return GroupScheduling(config, log)
