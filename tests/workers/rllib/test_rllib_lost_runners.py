"""How long a run waits for env runners that are lost."""

import pytest

from mosaic.core.errors import MosaicError
from mosaic.workers.rllib import lost_runners
from mosaic.workers.rllib.lost_runners import PATIENCE_S, PROBE_EVERY_S, patient


class Stubborn:
    """In the place of an algorithm: answers as RLlib would, and counts how often it is asked."""

    asked = 0

    def restore_env_runners(self, env_runner_group):
        self.asked += 1
        return [3]


class Group:
    def __init__(self, healthy, wanted=2):
        self.healthy, self.wanted = healthy, wanted

    def num_healthy_remote_workers(self):
        return self.healthy

    def num_remote_workers(self):
        return self.wanted


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(lost_runners, "monotonic", lambda: now[0])
    return now


@pytest.mark.parametrize("group", [Group(2), Group(0, wanted=0)])
def test_nobody_is_asked_while_nobody_is_missing(clock, group):
    algorithm = patient(Stubborn)()
    assert algorithm.restore_env_runners(group) == []
    assert algorithm.asked == 0


def test_the_others_sample_on_and_the_lost_one_is_asked_now_and_then(clock):
    algorithm, group = patient(Stubborn)(), Group(1)
    assert algorithm.restore_env_runners(group) == [3]
    clock[0] += PROBE_EVERY_S - 1
    assert algorithm.restore_env_runners(group) == []
    clock[0] += 1
    assert algorithm.restore_env_runners(group) == [3]
    assert algorithm.asked == 2


def test_a_run_without_any_runner_waits_and_then_says_what_to_do(clock):
    algorithm, group = patient(Stubborn)(), Group(0)
    for _ in range(3):
        algorithm.restore_env_runners(group)
    assert algorithm.asked == 3
    clock[0] += PATIENCE_S + 1
    with pytest.raises(MosaicError, match=r"No env runner is left: all 2 were lost, and none came back within 60 s\."):
        algorithm.restore_env_runners(group)


def test_one_that_comes_back_begins_the_patience_anew(clock):
    algorithm, group = patient(Stubborn)(), Group(0)
    algorithm.restore_env_runners(group)
    clock[0] += PATIENCE_S + 1
    group.healthy = 1
    algorithm.restore_env_runners(group)
    group.healthy = 0
    assert algorithm.restore_env_runners(group) == [3]
