"""Distribution of the tests over worker processes: what is slow to start stays together, long tests come first."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

# What is slow to start (Ray, a browser, a server, compiled code) is started by one worker process only, and once.
# The longest groups come first.
GROUPS = {
    "rllib": ["workers/rllib"],
    "ray": ["runs/test_search_ray.py", "runtimes/ray"],  # a Ray of their own: two processes have work
    "browser": ["ui/web"],
    "exports": ["exports"],
    "kill": ["runs/test_kill.py"],
    "compiled": ["envs/compiled"],  # numba would compile the same functions in every process
    "tabular": ["learners/tabular"],
    "actor critic": ["learners/actor_critic"],  # 50 s of compiling; others would wait for it
    "alphazero": ["learners/alphazero"],
    "cloning": ["learners/bc"],
    "memory": ["learners/engines/test_fused_memory.py"],
    "guard": ["server/auth/test_guard.py"],
    "hostile": ["server/test_hostile_requests.py"],
    "openapi": ["server/test_openapi.py"],
    "damage": ["store/test_index_damage.py"],
}
# Single tests that take longest, some of them waiting: the end of the run should not be one process with one of these.
LONGEST = [
    "workers/native/test_native_worker.py::test_every_declared_capability_is_proven",
    "workers/test_worker_contract.py",
    "runs/test_supervisor_guard.py",
    "learners/test_learning_gates.py",
    "learners/dqn/test_torch_engine.py",
    "workers/test_same_on_any_machine.py",
]
# Tests that only `make test-all` runs, by the starts of their ids: each takes long, and `make test` has a quicker one
# of what it proves.
ONLY_IN_TEST_ALL = Path(__file__).with_name("only_in_test_all.txt").read_text(encoding="utf-8").splitlines()
_ONLY = tuple(f"tests/{start}" for start in ONLY_IN_TEST_ALL)
# Single tests of otherwise quick files that take half a second of CPU or more, by their ids or, with all parameters,
# their names: `make test` runs them, `make check` does not.
SLOW_TESTS = Path(__file__).with_name("slow_tests.txt").read_text(encoding="utf-8").splitlines()
_SLOW_TESTS = {f"tests/{test}" for test in SLOW_TESTS}
_PLACES = {PurePosixPath("tests", place): name for name, places in GROUPS.items() for place in places}


def group_of(nodeid: str) -> str | None:
    """Return the name of the test's group; None for a test that may run in any process."""
    file = PurePosixPath(nodeid.partition("::")[0])
    return next((_PLACES[place] for place in (file, *file.parents) if place in _PLACES), None)


def only_in_test_all(nodeid: str) -> bool:
    return nodeid.startswith(_ONLY)


def is_slow_test(nodeid: str) -> bool:
    return nodeid in _SLOW_TESTS or nodeid.partition("[")[0] in _SLOW_TESTS


def rank(nodeid: str, *, slow: bool) -> int:
    """Return the place of a test in the order of the run: groups, the longest, slow tests, all others."""
    if group := group_of(nodeid):
        return list(GROUPS).index(group)
    for index, start in enumerate(LONGEST, len(GROUPS)):
        if nodeid.startswith(f"tests/{start}"):
            return index
    return len(GROUPS) + len(LONGEST) + (not slow)


class GroupScheduling(LoadScopeScheduling):
    """Scheduler that gives a group to one process and every other test to the next that is free.

    The marks that pytest-xdist has for this change ids of tests, which pytest 9.2 does not let it do: they are ignored.
    """

    def _split_scope(self, nodeid: str) -> str:
        return group_of(nodeid) or nodeid

    def remove_node(self, node: WorkerController) -> str | None:
        """Give the tests that a crashed process has left to others, and return the one that it ran.

        pytest-xdist would also hand out those that have ended, of which a process reports nothing and for which it gets
        nothing more: the run would not end. The test that crashed has failed; it could crash every process in turn.
        """
        work = self.assigned_work.pop(node)
        crashed = next(((scope, test) for scope in work for test, ended in work[scope].items() if not ended), None)
        if crashed is None:
            return None
        work[crashed[0]][crashed[1]] = True
        self.workqueue.update({scope: tests for scope, tests in work.items() if not all(tests.values())})
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed[1]
