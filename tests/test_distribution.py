"""Surroundings and distribution of the tests: homes of their own, groups stay together, the longest come first."""

import gc
import os
import subprocess
import sys
import tempfile
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests import shuffle
from tests.conftest import HERE, SLOW_PLACES, in_slow_place
from tests.distribution import (
    LONGEST,
    ONLY_IN_TEST_ALL,
    SLOW_TESTS,
    GroupScheduling,
    group_of,
    is_slow_test,
    only_in_test_all,
    rank,
)

RAY = ["tests/runs/test_search_ray.py::test_one", "tests/runtimes/ray/test_tabular.py::test_two[a@b]"]
BROWSER = ["tests/ui/web/pages/test_play_page.py::test_three"]
SINGLE = [f"tests/core/test_errors.py::test_{number}" for number in range(4)]


class Node:
    """A worker process that notes what it is sent."""

    shutting_down = False
    gateway = SimpleNamespace(id="gw")

    def __init__(self):
        self.sent = []

    def send_runtest_some(self, indices):
        self.sent += indices

    def shutdown(self):
        self.shutting_down = True


def test_a_group_goes_to_one_process_and_other_tests_to_any():
    config = SimpleNamespace(getvalue=lambda name: ["2*popen"], option=SimpleNamespace(loadscopereorder=False))
    scheduler, nodes, tests = GroupScheduling(config), [Node(), Node()], RAY + BROWSER + SINGLE
    for node in nodes:
        scheduler.add_node(node)
        scheduler.add_node_collection(node, tests)
    scheduler.schedule()
    first, second = ([tests[index] for index in node.sent] for node in nodes)
    assert first[:2] == RAY
    assert second[:1] == BROWSER
    assert first[2:] + second[1:] == SINGLE[:2]  # no process gets more ahead than it needs


def test_a_group_is_named_by_a_file_or_a_folder():
    assert [group_of(nodeid) for nodeid in (*RAY, *BROWSER, SINGLE[0])] == ["ray", "ray", "browser", None]
    assert group_of("tests/workers/rllib/env/test_rllib_twin.py::test_x") == "rllib"
    assert group_of("tests/runs/test_search_ray_too.py::test_x") is None


def test_long_tests_come_first():
    longest = f"tests/{LONGEST[0]}"
    asked = [(SINGLE[0], False), (SINGLE[1], True), (longest, True), (BROWSER[0], True), (RAY[0], False)]
    ranked = sorted(asked, key=lambda each: rank(each[0], slow=each[1]))
    assert [nodeid for nodeid, _ in ranked] == [RAY[0], BROWSER[0], longest, SINGLE[1], SINGLE[0]]


def test_a_shuffled_order_keeps_files_together_and_depends_on_the_seed_alone():
    tests = [*BROWSER, *SINGLE, *(f"tests/core/test_ids.py::test_{number}" for number in range(4))]
    orders = [sorted(tests, key=lambda nodeid, seed=seed: shuffle.place(seed, nodeid)) for seed in (1, 2)]
    assert orders[0] != orders[1]
    some = [*tests[3:], *tests[:2]]
    assert sorted(some, key=lambda nodeid: shuffle.place(1, nodeid)) == [test for test in orders[0] if test in some]
    for order in orders:
        files = [nodeid.partition("::")[0] for nodeid in order]
        assert len(set(files)) == 1 + sum(one != other for one, other in pairwise(files))


def test_a_slow_place_is_a_file_or_a_folder_that_exists():
    assert not [place for place in SLOW_PLACES if not (HERE / place).exists()]
    assert not [place for place in SLOW_PLACES if in_slow_place((HERE / place).parent)], "its folder is there already"
    assert in_slow_place(HERE / "ui" / "tui" / "test_any.py")
    assert not in_slow_place(HERE / "ui" / "test_windows.py")


@pytest.mark.parametrize("start", ONLY_IN_TEST_ALL)
def test_what_only_test_all_runs_exists(start):
    file, _, name = start.partition("::")
    assert f"def {name.partition('[')[0]}" in (HERE / file).read_text(encoding="utf-8")
    assert only_in_test_all(f"tests/{start}")


def test_single_slow_tests_exist_in_files_that_are_not_slow():
    for test in SLOW_TESTS:
        file, _, name = test.partition("::")
        assert name.partition("[")[0].rpartition("::")[2] in (HERE / file).read_text(encoding="utf-8") + "runTest", test
        assert not in_slow_place(HERE / file), f"{file} is slow as a whole"
    assert sorted(set(SLOW_TESTS)) == SLOW_TESTS


def test_a_slow_test_is_named_with_or_without_its_parameters():
    named = SLOW_TESTS[0]
    assert [is_slow_test(f"tests/{named}{rest}") for rest in ("", "[1-a]", "_too")] == [True, True, False]


def test_what_was_collected_is_not_searched_for_garbage_again():
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10_000


def test_no_test_writes_to_the_users_own_folders():
    own = Path(tempfile.gettempdir())
    assert own.name.startswith("m-")
    assert Path.home().parent == own
    assert Path(os.environ["XDG_CACHE_HOME"]).parent != Path.home()  # compiled code is kept


FAILING = """
from pathlib import Path
import pytest

@pytest.mark.parametrize("name", {names})
def test_passes_the_second_time(name):
    mark = Path(__file__).with_name(name)
    if not mark.exists():
        mark.touch()
        raise RuntimeError("the first time")

def test_passes():
    pass

def test_is_wrong():
    assert {right}
"""


def run_pytest(folder, text, *words):
    (folder / "test_some.py").write_text(text, encoding="utf-8")
    surroundings = {"PYTHONPATH": HERE.parent, "PYTEST_PLUGINS": "xdist.plugin", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    command = [sys.executable, "-m", "pytest", "-c", os.devnull, f"--rootdir={folder}", *words]
    return subprocess.run(
        command, cwd=folder, env=os.environ | surroundings, capture_output=True, text=True, check=False
    )


def run_with_repetition(folder, *words, names=("a [b]::c",), right=True):
    return run_pytest(folder, FAILING.format(names=names, right=right), "-p", "tests.repetition", *words)


def test_a_failed_test_is_repeated_alone_and_named(tmp_path):
    ended = run_with_repetition(tmp_path, "-n", "1")
    assert ended.returncode == 0, ended.stdout
    assert "passed when repeated: test_some.py::test_passes_the_second_time[a [b]::c]" in ended.stdout
    assert "RuntimeError: the first time" in ended.stdout
    assert "2 passed, 1 repeated" in ended.stdout
    assert ended.stdout.count("1 passed") == 1  # none but the failed test was repeated


def test_a_test_that_fails_again_fails_the_run(tmp_path):
    ended = run_with_repetition(tmp_path, right=False)
    assert ended.returncode == 1
    assert "2 failed, 1 passed" in ended.stdout
    assert "passed when repeated" not in ended.stdout


def test_many_failures_are_not_repeated(tmp_path):
    ended = run_with_repetition(tmp_path, names=("a", "b", "c", "d"))
    assert ended.returncode == 1
    assert "4 failed, 2 passed" in ended.stdout
    assert "repeated" not in ended.stdout


CRASHING = """
import os
import pytest
from tests.distribution import GroupScheduling

def pytest_xdist_make_scheduler(config, log):
    config.option.loadscopereorder = False
    return GroupScheduling(config, log)

@pytest.mark.parametrize("number", range(20))
def test_any(number):
    if number == 9:
        os._exit(3)
"""


def test_a_process_that_crashes_fails_its_test_and_no_other(tmp_path):
    (tmp_path / "test_some.py").write_text(CRASHING, encoding="utf-8")
    ended = run_pytest(tmp_path, CRASHING, "-n", "2", "--dist=loadscope", "-p", "test_some")
    assert "crashed while running 'test_some.py::test_any[9]'" in ended.stdout, ended.stdout + ended.stderr
    assert "1 failed, 19 passed" in ended.stdout
