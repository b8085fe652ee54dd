"""How long a run waits for env runners that are lost."""

import logging
from types import SimpleNamespace

import pytest

from mosaic.core.errors import MosaicError
from mosaic.workers.rllib import lost_runners
from mosaic.workers.rllib import lost_runners as failures
from mosaic.workers.rllib.lost_runners import PATIENCE_S, PROBE_EVERY_S, after_restore, failures_named, patient, telling


class Stubborn:
    """In the place of an algorithm: answers as RLlib would, and counts how often it is asked."""

    asked = 0
    sampled = 0
    config = SimpleNamespace(env_config={"run": "/runs/broken"})

    @property
    def metrics(self):
        return SimpleNamespace(peek=lambda key, default: self.sampled)

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


def test_one_that_comes_back_is_told_its_opponents_before_it_samples(clock):
    algorithm, told = patient(Stubborn)(), []
    after_restore(algorithm, lambda: told.append(algorithm.asked))
    algorithm.restore_env_runners(Group(2))
    assert told == []
    algorithm.restore_env_runners(Group(1))
    assert told == [1]


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


@pytest.fixture
def names(monkeypatch):
    """In the place of Ray's table of names."""
    kept = {}
    monkeypatch.setattr(failures, "_internal_kv_initialized", lambda: True)
    monkeypatch.setattr(failures, "_internal_kv_get", lambda key, namespace: kept.get(key))
    monkeypatch.setattr(failures, "_internal_kv_del", lambda key, namespace: kept.pop(key))
    monkeypatch.setattr(
        failures, "_internal_kv_put", lambda key, value, overwrite, namespace: kept.__setitem__(key, value)
    )
    return kept


class Bomb:
    """In the place of an env runner."""

    config = Stubborn.config

    def make_env(self):
        pass

    def sample(self, **asked):
        try:
            raise ValueError("the env went off.")
        except ValueError as error:
            raise RuntimeError from error  # as RLlib does


def explode():
    runner = telling(Bomb)()
    runner.make_env()
    with pytest.raises(RuntimeError):
        runner.sample(num_timesteps=5)


def test_an_env_that_fails_before_anything_was_sampled_ends_the_run_with_its_words(clock, names):
    explode()
    said = r"^An env runner failed: ValueError: the env went off\. All that it said: mosaic runs log broken$"
    with pytest.raises(MosaicError, match=said):
        patient(Stubborn)().restore_env_runners(Group(0))


def test_runners_that_cannot_start_are_named_and_not_rllibs_error(names):
    explode()
    with (
        pytest.raises(MosaicError, match="An env runner failed: ValueError: the env went off"),
        failures_named(Stubborn.config),
    ):
        raise IndexError("list index out of range")
    with pytest.raises(IndexError), failures_named(Stubborn.config):
        raise IndexError("of RLlib's own")


def test_one_that_fails_now_and_then_is_started_anew_and_one_that_only_fails_is_not(clock, names, caplog):
    algorithm = patient(Stubborn)()
    algorithm.sampled = 100
    explode()
    with caplog.at_level(logging.WARNING):
        assert algorithm.restore_env_runners(Group(0)) == [3]
    assert "An env runner failed and is restarted: ValueError: the env went off." in caplog.text
    assert algorithm.restore_env_runners(Group(0)) == [3], "it was told once"
    explode()
    with pytest.raises(MosaicError, match="An env runner failed: ValueError"):
        algorithm.restore_env_runners(Group(0))


def test_the_process_of_a_runner_keeps_its_name():
    assert telling(Bomb).__name__ == "Bomb"
