"""The worker's process does what its two pipes and its signals ask, and says how it ended."""

import signal

import pytest

from mosaic.store.checkpoints import find_checkpoint, list_checkpoints
from mosaic.telemetry.events.reader import visible
from tests.workers.hosting import Hosted, new_folder, run_config

SLOWLY = {"iteration_s": 0.005}


def toy(home, params=None, **settings):
    return new_folder(home, run_config("toy", params, **settings))


def is_iteration(number):
    return lambda event: event.get("training_iteration", 0) >= number


def test_a_run_finishes_and_is_saved(tmp_path):
    folder = toy(tmp_path, training={"total_timesteps": 2500})
    with Hosted(folder) as host:
        assert host.hear("finished") == {"progress": "finished"}
        assert host.wait() == 0
    assert [e["training_iteration"] for e in host.events("iteration")] == list(range(1, 26))
    assert [e["seq"] for e in host.stored()] == list(range(1, len(host.stored()) + 1))
    assert [host.stored()[place]["kind"] for place in (0, -1)] == ["started", "ended"]
    assert host.stored()[-1]["train_s"] > 0
    assert [c.env_steps for c in list_checkpoints(folder)] == [1000, 2000, 2500]


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda host: host.say("stop", reason="asked to stop"), "asked to stop"),
        (lambda host: host.hang_up(), "its supervisor died"),
        (lambda host: host.process.send_signal(signal.SIGINT), "SIGINT"),
        (lambda host: host.process.send_signal(signal.SIGTERM), "SIGTERM"),
    ],
    ids=["command", "dead supervisor", "SIGINT", "SIGTERM"],
)
def test_a_stop_is_honoured_and_saves(tmp_path, ask, reason):
    folder = toy(tmp_path, SLOWLY)
    with Hosted(folder) as host:
        host.event(is_iteration(3))
        ask(host)
        assert host.hear("stopped") == {"progress": "stopped", "reason": reason}
        assert host.wait() == 3
    last = host.events("iteration")[-1]
    assert find_checkpoint(folder, "latest").env_steps == last["env_steps"]


def test_a_failure_is_told_with_its_message(tmp_path):
    folder = toy(tmp_path, {"noise": "loud"})
    with Hosted(folder) as host:
        message = host.hear("failed")["message"]
        assert host.wait() == 1
    assert "training.params of toy walk: noise" in message
    assert "Traceback" in host.log()


def test_a_pause_is_kept_and_checkpoints_can_be_had_meanwhile(tmp_path):
    folder = toy(tmp_path, SLOWLY, checkpoint={"every_steps": 10**9})
    with Hosted(folder) as host:
        host.event(is_iteration(3))
        host.say("pause")
        host.hear("paused")
        steps = host.events("iteration")[-1]["env_steps"]
        host.say("checkpoint")
        assert host.event(lambda event: event["kind"] == "checkpoint")["env_steps"] == steps
        assert host.events("iteration")[-1]["env_steps"] == steps
        host.say("resume")
        host.hear("resumed")
        host.event(lambda event: event.get("env_steps", 0) > steps)
        host.say("pause")
        host.hear("paused")
        host.say("stop")
        host.hear("stopped")
        assert host.wait() == 3


def test_a_second_attempt_goes_on_from_the_last_checkpoint(tmp_path):
    whole = toy(tmp_path / "whole", training={"total_timesteps": 6000}, seed=5)
    with Hosted(whole) as host:
        assert host.wait() == 0
    expected = host.events("iteration")
    folder = toy(tmp_path / "torn", SLOWLY, training={"total_timesteps": 6000}, seed=5)
    with Hosted(folder) as host:
        host.event(is_iteration(25))
        host.process.kill()
        host.wait()
    before = len(host.stored())
    with Hosted(folder, attempt=2) as host:
        assert host.wait() == 0
    saved = host.events("resumed")
    assert [event["from_env_steps"] % 1000 for event in saved] == [0]
    assert saved[0]["from_env_steps"] >= 2000
    assert saved[0]["seq"] == before + 1
    told = [e for e in visible(host.events()) if e["kind"] == "iteration"]
    assert [(e["env_steps"], e["episode_reward_mean"]) for e in told] == [
        (e["env_steps"], e["episode_reward_mean"]) for e in expected
    ]


def test_a_step_is_saved_once_over_pauses_requests_and_attempts(tmp_path):
    folder = toy(tmp_path, SLOWLY, checkpoint={"every_steps": 10**9})
    with Hosted(folder) as host:
        host.event(is_iteration(3))
        host.say("pause")
        host.hear("paused")
        host.say("checkpoint")
        saved = host.event(lambda event: event["kind"] == "checkpoint")
        host.say("checkpoint")
        again = host.event(lambda event: event["kind"] == "checkpoint_exists")
        assert (again["env_steps"], again["path"]) == (saved["env_steps"], saved["path"])
        host.say("stop")
        assert host.wait() == 3
    with Hosted(folder, attempt=2) as host:  # stopped at the same step, as it is resumed
        host.say("stop")
        assert host.wait() == 3
    steps = [event["env_steps"] for event in host.events("checkpoint")]
    assert len(steps) == len(set(steps))


def test_a_worker_that_saves_its_last_step_twice_tells_of_it_once(tmp_path, installed_liars):
    folder = new_folder(tmp_path, run_config("honest", training={"total_timesteps": 100}))
    with Hosted(folder) as host:
        assert host.wait() == 0
    assert [event["env_steps"] for event in host.events("checkpoint")] == [50, 100]
    assert [event["path"] for event in host.events("checkpoint_exists")] == ["100"]


def test_a_damaged_checkpoint_is_passed_over_and_said(tmp_path):
    folder = toy(tmp_path, training={"total_timesteps": 2000})
    with Hosted(folder) as host:
        assert host.wait() == 0
    (folder.checkpoints / "2000" / "walk.json").write_text("{}")
    with Hosted(folder, attempt=2) as host:
        assert host.wait() == 0
    assert host.events("resumed")[0]["from_env_steps"] == 1000
    assert "at 2000 env steps is damaged" in host.events("alert")[0]["message"]


@pytest.mark.parametrize("stage_s", [0.1, 600.0], ids=["the start looks", "the start waits for a library"])
def test_a_stop_during_the_start_ends_it_and_saves_nothing(tmp_path, installed_liars, stage_s):
    folder = new_folder(tmp_path, run_config("starting", {"iteration_s": stage_s}))
    with Hosted(folder) as host:
        assert host.event(lambda event: event["kind"] == "stage")["message"] == "unpacking"
        host.say("stop")
        assert host.hear("stopped")["reason"] == "asked to"
        assert host.wait() == 3
    first, *stages, last = [event["kind"] for event in host.stored()]
    assert (first, set(stages), last) == ("started", {"stage"}, "ended")
    assert (host.events("ended")[0]["reason"], host.events("checkpoint")) == ("asked to", [])


def test_an_orphan_that_does_not_listen_ends_itself(tmp_path, installed_liars):
    folder = new_folder(tmp_path, run_config("stubborn", training={"total_timesteps": 10**9}))
    with Hosted(folder, MOSAIC_ORPHAN_GRACE_S="0.2") as host:
        host.hear("started")
        host.hang_up()
        assert host.wait() == 1
    assert "did not stop within 0.2 s after its supervisor's death" in host.log()
