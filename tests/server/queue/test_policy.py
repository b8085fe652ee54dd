"""The queue keeps its limits, is fair, and lets nobody wait for ever."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from mosaic.config.loading import parse_run_config
from mosaic.server.queue.policy import Demand, QueueLimits, choose, demand_of, fits, in_order, too_much, why_waiting

LIMITS = st.builds(
    QueueLimits,
    runs=st.integers(1, 6),
    cores=st.integers(1, 8),
    memory_mb=st.integers(512, 4096),
    gpus=st.integers(0, 3),
)
DEMANDS = st.lists(
    st.builds(
        Demand,
        run_id=st.integers(0, 10**6).map(str),
        cores=st.integers(1, 12),
        memory_mb=st.integers(1, 5000),
        gpus=st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0]),
        queued_at=st.floats(0, 100),
        owner=st.sampled_from(["", "ann", "bob", "eve"]),
    ),
    max_size=12,
    unique_by=lambda demand: demand.run_id,
)
WIDE = QueueLimits(runs=10, cores=100, memory_mb=100_000, gpus=10)


@given(DEMANDS, DEMANDS, LIMITS)
def test_limits_are_never_exceeded(queued: list[Demand], running: list[Demand], limits: QueueLimits) -> None:
    chosen = choose(queued, running, limits)
    assert len(set(chosen)) == len(chosen)
    by_id = {demand.run_id: demand for demand in queued}
    started = [by_id[run_id] for run_id in chosen]
    assert not started or fits([*running, *started], limits)


@given(DEMANDS, LIMITS)
def test_everybody_gets_a_turn(queued: list[Demand], limits: QueueLimits) -> None:
    """One run at a time ends, and whenever something is possible at all, something starts: all are served."""
    waiting = {demand.run_id: demand for demand in queued if too_much(demand, limits) is None}
    running: list[Demand] = []
    for _ in range(2 * len(queued) + 1):
        for run_id in choose(waiting.values(), running, limits):
            running.append(waiting.pop(run_id))
        if running:
            running.pop(0)
    assert not waiting


@given(DEMANDS, LIMITS, st.sampled_from(["", "ann", "bob", "eve"]))
def test_a_stream_of_later_runs_keeps_nobody_waiting(queued: list[Demand], limits: QueueLimits, pest: str) -> None:
    """While somebody submits a small run in every round, those that came before are served within bounded rounds."""
    waiting = {demand.run_id: demand for demand in queued if too_much(demand, limits) is None}
    mine = set(waiting)
    running: list[Demand] = []
    for turn in range(20 * (len(queued) + 1)):
        late = Demand(f"late-{turn}", memory_mb=1, queued_at=1000.0 + turn, owner=pest)
        waiting[late.run_id] = late
        for run_id in choose(waiting.values(), running, limits):
            running.append(waiting.pop(run_id))
        running = running[1:]
    assert not mine & waiting.keys()


def test_first_come_first_served() -> None:
    queued = [Demand("b", queued_at=2.0), Demand("a", queued_at=1.0), Demand("c", queued_at=3.0)]
    assert choose(queued, [], replace(WIDE, runs=2)) == ["a", "b"]


def test_owners_take_turns() -> None:
    many = [Demand(f"seed-{n}", queued_at=float(n), owner="group") for n in range(5)]
    one = Demand("mine", queued_at=99.0, owner="me")
    assert choose([*many, one], [], replace(WIDE, runs=3)) == ["seed-0", "mine", "seed-1"]


def test_nobody_overtakes_a_run_that_does_not_fit_yet() -> None:
    large, small = Demand("large", memory_mb=900, queued_at=1.0), Demand("small", memory_mb=10, queued_at=2.0)
    busy = Demand("busy", memory_mb=500)
    limits = replace(WIDE, memory_mb=1000)
    assert choose([large, small], [busy], limits) == []
    assert choose([large, small], [], limits) == ["large", "small"]


def test_a_run_that_never_fits_blocks_nobody() -> None:
    impossible = Demand("impossible", gpus=4, queued_at=1.0)
    limits = replace(WIDE, gpus=1)
    assert choose([impossible, Demand("possible", queued_at=2.0)], [], limits) == ["possible"]
    assert too_much(impossible, limits) == "it requests 4 GPUs, and this server may use 1"


def test_a_run_that_wants_more_cores_than_there_are_runs_alone() -> None:
    limits = replace(WIDE, cores=2)
    assert choose([Demand("wide", cores=64, queued_at=1.0), Demand("other", queued_at=2.0)], [], limits) == ["wide"]


def test_demand_of_a_configuration() -> None:
    resources = {"num_env_runners": 3, "num_cpus": 2, "num_gpus": 0.5, "max_memory_mb": 100}
    document = {"environment": {"env_id": "gym/CartPole-v1"}, "tags": ["ann", "x"], "resources": resources}
    config = parse_run_config(document)
    assert demand_of(config, "r", 7.0) == Demand("r", 6, 100, 0.5, 7.0, "ann")
    assert demand_of(config, "r", group="seeds").owner == "seeds"


@given(DEMANDS, DEMANDS, LIMITS)
def test_the_order_told_is_the_order_of_starts(
    queued: list[Demand], running: list[Demand], limits: QueueLimits
) -> None:
    possible = [demand for demand in queued if too_much(demand, limits) is None]
    chosen = choose(queued, running, limits)
    assert [demand.run_id for demand in in_order(possible, running)][: len(chosen)] == chosen


def test_each_reason_to_wait_is_said() -> None:
    limits = QueueLimits(runs=2, cores=4, memory_mb=2000, gpus=1)
    some = Demand("a", cores=3, memory_mb=1500, gpus=1.0)
    for demand, before, running, words in (
        (Demand("x"), 1, [], "1 run will start first."),
        (Demand("x"), 0, [], "It starts in a moment."),
        (Demand("x"), 0, [Demand("b"), Demand("c")], "2 runs are alive, and this server runs 2 at a time."),
        (Demand("x", cores=2), 0, [some], "It needs 2 of 4 cores, and 3 are in use."),
        (Demand("x", gpus=0.5), 0, [some], "It needs 0.5 of 1 GPUs, and others use them."),
        (Demand("x", memory_mb=700), 0, [some], "It needs 700 MB of memory, and others use it."),
        (Demand("x", gpus=2), 0, [], "It can never start here: it requests 2 GPUs, and this server may use 1."),
    ):
        assert why_waiting(demand, before, running, limits) == words
    one = QueueLimits(runs=1, cores=4, memory_mb=2000, gpus=1)
    assert why_waiting(Demand("x"), 0, [Demand("b")], one) == "1 run is alive, and this server runs 1 at a time."
