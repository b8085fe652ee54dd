"""Waiting costs little, and what was waited for is noticed soon."""

from __future__ import annotations

import pytest

from mosaic.runtimes.mpi.messaging import LONGEST_REST_S, REST_SHARE, wait_until


@pytest.mark.parametrize("due_s", [0.0, 0.001, 0.1, 3600.0])
def test_the_longer_the_wait_the_rarer_the_look(due_s: float) -> None:
    now, looks = 0.0, 0
    cost_s = 1e-6  # of a look

    def ready() -> bool:
        nonlocal now, looks
        now, looks = now + cost_s, looks + 1
        return now >= due_s

    def rest(seconds: float) -> None:
        nonlocal now
        now += seconds

    wait_until(ready, lambda: now, rest)
    late_s = now - due_s
    assert late_s <= min(LONGEST_REST_S, REST_SHARE * due_s) + 2 * cost_s
    assert looks <= 200 + due_s / LONGEST_REST_S
