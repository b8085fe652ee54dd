"""Distribution of the tests: groups stay together, the longest come first, and collected tests stay in memory."""

import gc
from types import SimpleNamespace

from tests.distribution import LONGEST, GroupScheduling, group_of, rank

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


def test_what_was_collected_is_not_searched_for_garbage_again():
    assert gc.isenabled()
    assert gc.get_freeze_count() > 10_000
