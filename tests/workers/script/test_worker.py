"""Any program becomes a run: what it prints as metrics is stored, what else it says is logged."""

import json
import os
import sys
from pathlib import Path

import psutil
import pytest

from mosaic.core.errors import InputError
from mosaic.store.index.summary import last_metrics
from mosaic.workers.registry import parse_params
from mosaic.workers.resolution import resolve
from mosaic.workers.script.output import ScriptProgress
from mosaic.workers.script.worker import worker
from tests.runs.run_cases import eventually
from tests.workers.hosting import Hosted, new_folder, run_config

EXAMPLES = Path(__file__).parents[3] / "examples" / "scripts"
COUNTING = """
import itertools, time
for n in itertools.count(1):
    print('@METRIC', '{"timesteps_total": %d, "episode_reward_mean": %d}' % (n * 10, n))
    time.sleep(0.002)
"""


def python(code, *arguments):
    return [sys.executable, "-c", code, *arguments]


def script(home, command, params=None, **settings):
    return new_folder(home, run_config("script", {"command": command, **(params or {})}, **settings))


def run(folder, code=0):
    with Hosted(folder) as host:
        assert host.wait() == code, host.log()
    return host


def counted(number):
    return lambda event: event.get("env_steps", 0) >= number


def test_metric_lines_become_events_and_the_rest_is_logged(tmp_path):
    code = """
import sys
print("hello")
print('@METRIC {"training_iteration": 1, "timesteps_total": 100, "episode_reward_mean": 2.5, "loss": 0.5}')
print('@METRIC {"kind": "episode", "env_steps": 120, "reward": 3, "policies": {"red": {"reward_mean": 1, "elo": 9}}}')
print("careful", file=sys.stderr)
"""
    host = run(script(tmp_path, python(code)))
    first, second = host.events()
    assert (first["kind"], first["env_steps"], first["episode_reward_mean"]) == ("iteration", 100, 2.5)
    assert first["custom_metrics"] == {"loss": 0.5}
    assert (second["kind"], second["env_steps"], second["custom_metrics"]) == ("episode", 120, {"reward": 3})
    assert second["policies"] == {"red": {"reward_mean": 1, "custom_metrics": {"elo": 9}}}
    assert "hello\n" in host.log()
    assert "careful\n" in host.log()
    assert "@METRIC" not in host.log()


def test_malformed_lines_are_counted_and_logged(tmp_path):
    lines = [
        "@METRIC {",
        "@METRIC [1]",
        '@METRIC {"kind": "resumed", "from_env_steps": 0}',
        '@METRIC {"env_steps": "x"}',
    ]
    code = "import sys\nfor line in sys.argv[1:]: print(line)\nprint('@METRIC {\"env_steps\": 7}')"
    host = run(script(tmp_path, python(code, *lines)))
    metric, alert = host.events()
    assert metric["env_steps"] == 7
    assert alert["kind"] == "alert"
    assert alert["malformed_lines"] == 4
    assert alert["message"] == "4 @METRIC lines of the program were not understood; worker.log says why."
    assert host.log().count("mosaic: not understood: ") == 4
    assert all(line in host.log() for line in lines)


def test_a_flood_of_malformed_lines_is_explained_only_at_first(tmp_path):
    host = run(script(tmp_path, python("for i in range(500): print('@METRIC', i)")), code=1)
    assert host.events("alert")[0]["malformed_lines"] == 500
    assert host.log().count("not understood") == 10


def test_a_program_none_of_whose_lines_was_accepted_has_failed(tmp_path):
    lines = [f'@METRIC {{"timesteps_total": {steps}, "timestamp": "at noon"}}' for steps in (100, 200)]
    host = run(script(tmp_path, python("import sys\nfor line in sys.argv[1:]: print(line)", *lines)), code=1)
    assert "none of its @METRIC lines was accepted, so the run has no metrics" in host.log()
    assert "timestamp is 'at noon'; it should be seconds since 1970 or ISO 8601" in host.log()
    assert f"mosaic runs log {host.folder.run_id}" in host.log()


def test_iso_timestamps_of_a_program_are_accepted(tmp_path):
    """As the published RLlib script of the Godot controller prints them."""
    host = run(
        script(tmp_path, python("""print('@METRIC {"timestamp": "2026-01-01T00:00:00Z", "timesteps_total": 9}')"""))
    )
    (event,) = host.events()
    assert (event["env_steps"], event["timestamp"]) == (9, 1767225600.0)


def test_garbage_long_lines_and_a_missing_line_break_survive(tmp_path):
    code = """
import os
def say(data):
    while data:
        data = data[os.write(1, data):]
say(bytes(range(256)) * 50 + b"\\n")
say(b"x" * 3_000_000 + b"\\n")
say(b'@METRIC {"long": "' + b"y" * 3_000_000 + b'"}\\n')
say(b'@METRIC {"env_steps": 1}\\r\\n')
say(b'@METRIC {"env_steps": 2}')
"""
    host = run(script(tmp_path, python(code)))
    assert [event["env_steps"] for event in host.events("iteration")] == [1, 2]
    assert host.events("alert")[0]["malformed_lines"] == 1
    log = host.folder.log.read_bytes()
    assert bytes(range(256)) * 50 in log
    assert b"x" * 3_000_000 + b"\n" in log


def test_what_the_program_is_told(tmp_path):
    names = ["MOSAIC_METRICS", "CONTROLLER_METRICS", "MOSAIC_SEED", "MOSAIC_RUN_FOLDER", "MOSAIC_CHECKPOINT_DIR",
             "MOSAIC_RUN", "COLOUR"]  # fmt: skip
    code = "import json, os, sys; json.dump([os.getcwd(), {n: os.environ[n] for n in sys.argv[1:]}], open('told', 'w'))"
    place = tmp_path / "place"
    place.mkdir()
    params = {"cwd": str(place), "env": {"COLOUR": "red", "MOSAIC_SEED": "forged"}}
    folder = script(tmp_path, python(code, *names), params, seed=17)
    run(folder)
    cwd, told = json.loads((place / "told").read_text())
    assert cwd == str(place)
    assert told == {
        "MOSAIC_METRICS": "1",
        "CONTROLLER_METRICS": "1",
        "MOSAIC_SEED": "17",
        "MOSAIC_RUN_FOLDER": str(folder.path),
        "MOSAIC_CHECKPOINT_DIR": str(folder.path / "program"),
        "MOSAIC_RUN": folder.run_id,
        "COLOUR": "red",
    }
    assert (folder.path / "program").is_dir()


def test_a_name_means_what_it_means_in_the_shell(tmp_path, monkeypatch):
    other, told = tmp_path / "other", tmp_path / "told"
    other.mkdir()
    monkeypatch.setenv("PATH", f"{other}{os.pathsep}/usr/bin{os.pathsep}/bin")
    name, code = Path(sys.executable).name, f"open({str(told)!r}, 'w').write('ours')"
    folder = script(tmp_path, [name, "-c", code])
    (other / name).write_text(f"#!/bin/sh\necho theirs > {told}\n")
    (other / name).chmod(0o755)
    run(folder)
    assert told.read_text() == "theirs\n"
    assert f"{name} is {other / name}" in folder.log.read_text()


def test_where_the_shell_has_no_python_ours_is_taken(tmp_path, monkeypatch):
    told, empty = tmp_path / "told", tmp_path / "empty"
    empty.mkdir()
    monkeypatch.setenv("PATH", str(empty))
    code = f"import sys; open({str(told)!r}, 'w').write(sys.executable)"
    folder = script(tmp_path, [Path(sys.executable).name, "-c", code])
    run(folder)
    assert Path(told.read_text()).parent == Path(sys.executable).parent


@pytest.mark.parametrize(
    ("code", "how"),
    [
        ("import sys; print('so far'); print('broken', file=sys.stderr); sys.exit(7)", "exit code 7"),
        ("import os, sys; print('so far', flush=True); print('broken', file=sys.stderr); os.kill(os.getpid(), 11)",
         "the signal SIGSEGV"),
    ],
)  # fmt: skip
def test_a_program_that_fails_fails_the_run_with_its_last_lines(tmp_path, code, how):
    with Hosted(script(tmp_path, python(code))) as host:
        message = host.hear("failed")["message"]
        assert host.wait() == 1
    assert f"ended with {how}. Its last lines:\n" in message
    assert set(message.splitlines()[-2:]) == {"so far", "broken"}


def test_a_program_that_is_not_there(tmp_path):
    with Hosted(script(tmp_path, "no_such_program --fast")) as host:
        message = host.hear("failed")["message"]
        assert host.wait() == 1
    assert "The program 'no_such_program' cannot be started in " in message
    assert "No such file or directory. To fix it, say where it is in training.params.command" in message


def test_a_file_that_may_not_be_executed(tmp_path):
    (tmp_path / "train.sh").write_text("echo hi\n")
    with Hosted(script(tmp_path, [str(tmp_path / "train.sh")])) as host:
        message = host.hear("failed")["message"]
    assert "Permission denied. To fix it, make it executable (chmod +x" in message


def test_a_folder_that_is_not_there(tmp_path):
    with Hosted(script(tmp_path, ["true"], {"cwd": "/no/such/folder"})) as host:
        message = host.hear("failed")["message"]
    assert "there is no folder /no/such/folder: correct training.params.cwd" in message


@pytest.mark.parametrize(
    ("limit", "key", "reached"),
    [({"total_timesteps": 200}, "env_steps", 200), ({"stop_reward": 25}, "episode_reward_mean", 25)],
)
def test_a_limit_that_its_metrics_reach_stops_the_program(tmp_path, limit, key, reached):
    with Hosted(script(tmp_path, python(COUNTING), training=limit)) as host:
        host.hear("finished")
        assert host.wait() == 0
    assert host.events("iteration")[-1][key] >= reached
    assert f"mosaic: the program was stopped ({next(iter(limit))} {reached} reached)" in host.log()


def test_a_stop_reaches_the_program_as_sigint_and_its_last_words_count(tmp_path):
    code = """
import sys, time
try:
    while True:
        sys.stdout.write('@METRIC {"env_steps": 50}\\n')  # at once: a stop must not fall between it and its end
        time.sleep(0.01)
except KeyboardInterrupt:
    print('@METRIC {"env_steps": 777777}')
"""
    with Hosted(script(tmp_path, python(code))) as host:
        host.event(counted(50))
        host.say("stop")
        host.hear("stopped")
        assert host.wait() == 3
    assert host.events("iteration")[-1]["env_steps"] == 777777


def test_a_stop_reaches_what_the_program_started(tmp_path):
    """A shell waits for its foreground child before it looks at a signal of its own."""
    with Hosted(script(tmp_path, ["sh", "-c", "echo '@METRIC {\"env_steps\": 1}'; sleep 1000"])) as host:
        host.event(counted(1))
        host.say("stop")
        host.hear("stopped")
        assert host.wait() == 3
    assert "ended with the signal SIGINT" in host.log()


def test_a_program_that_ignores_signals_is_killed_when_patience_runs_out(tmp_path):
    code = "import signal\nfor s in (2, 15): signal.signal(s, signal.SIG_IGN)\n" + COUNTING
    folder = script(tmp_path, python(code), {"patience_s": 0.2}, training={"total_timesteps": 50})
    host = run(folder)
    assert "ended with the signal SIGKILL" in host.log()


def test_a_process_left_behind_does_not_hold_the_run_up(tmp_path):
    with Hosted(script(tmp_path, ["sh", "-c", "sleep 1000 & echo '@METRIC {\"env_steps\": 3}'"])) as host:
        host.hear("finished")
        assert host.wait() == 0
        left = [p for p in psutil.process_iter() if _mark(p) == host.folder.run_id]
        assert [p.name() for p in left] == ["sleep"]  # its supervisor would end it
        for process in left:
            process.kill()
    assert host.events()[0]["env_steps"] == 3


def _mark(process):
    try:
        return process.environ().get("MOSAIC_RUN")
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return None


def test_a_pause_freezes_the_program_and_all_it_started(tmp_path):
    """The shell's child is what prints."""
    command = ["sh", "-c", '"$0" -c "$1"; echo done', sys.executable, COUNTING]
    with Hosted(script(tmp_path, command)) as host:
        host.event(counted(50))
        host.say("pause")
        host.hear("paused")
        stored = host.events()
        children = psutil.Process(host.process.pid).children(recursive=True)
        below = [process for process in children if process.name() != "git"]  # which is asked for the commit
        assert len(below) == 2
        assert eventually(lambda: all(process.status() == "stopped" for process in below))  # the kernel stops each soon
        assert host.events() == stored
        host.say("resume")
        host.hear("resumed")
        host.event(counted(stored[-1]["env_steps"] + 100))
        host.say("pause")
        host.hear("paused")
        host.say("stop")
        host.hear("stopped")
        assert host.wait() == 3
    steps = [event["env_steps"] for event in host.events()]
    assert steps == list(range(10, 10 * len(steps) + 10, 10))


def test_the_shell_example_walks(tmp_path):
    with Hosted(script(tmp_path, f"sh {EXAMPLES / 'walk.sh'} 12", seed=4)) as host:
        assert host.wait() == 0
    events = host.events("iteration")
    assert [event["env_steps"] for event in events] == [100 * n for n in range(1, 13)]
    assert events[-1]["episode_reward_mean"] == 4 + 24
    assert events[-1]["custom_metrics"] == {"shoe_size": 42}
    assert "arrived at 28\n" in host.log()


def test_episodes_alone_are_counted_too():
    score = ScriptProgress()
    for reward in range(100):
        assert score.reward is None
        score.add({"kind": "episode", "env_steps": reward, "custom_metrics": {"reward": reward}})
    assert (score.env_steps, score.episodes, score.reward) == (99, 100, 49.5)
    score.add({"kind": "episode", "custom_metrics": {"reward": 100}})
    assert score.reward == 50.5
    score.add({"kind": "iteration", "episodes_total": 400, "episode_reward_mean": -1.0})
    assert (score.episodes, score.reward) == (400, -1.0)


def test_a_command_may_be_one_text():
    options = parse_params(worker, "program", {"command": "python train.py --name 'two words'"})
    assert options.command == ("python", "train.py", "--name", "two words")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "training.params of script program: the option 'command' is missing. Options: command, cwd, env"),
        ({"command": ""}, "training.params of script program: command: it should have at least 1 item (got [])"),
        ({"command": "'open"}, "training.params of script program: command: No closing quotation"),
        ({"command": "true", "comand": 1}, "there is no option 'comand'. Did you mean 'command'?"),
    ],
)
def test_wrong_parameters_are_explained(params, message):
    with pytest.raises(InputError) as caught:
        parse_params(worker, "program", params)
    assert message in str(caught.value)


def test_a_policy_configuration_is_the_programs_own_business():
    config = run_config("script", {"command": "true"}, policy_configuration="self_play")
    with pytest.raises(InputError, match="script has no policy configuration 'self_play'"):
        resolve(config)


def test_a_reward_without_env_steps_is_the_runs_result_with_an_alert(tmp_path):
    lines = ['@METRIC {"env_steps": 10, "episode_reward_mean": 1}', *['@METRIC {"episode_reward_mean": 7.5}'] * 3]
    host = run(script(tmp_path, python("import sys\nfor line in sys.argv[1:]: print(line)", *lines)))
    (alert,) = host.events("alert")
    assert "has episode_reward_mean and no env_steps: it counts at the last ones, 10. Print both" in alert["message"]
    found = last_metrics(host.folder.metrics)
    assert (found.env_steps, found.episode_reward_mean) == (10, 7.5)


def test_env_steps_that_fall_are_refused_with_an_alert(tmp_path):
    lines = [f'@METRIC {{"env_steps": {steps}, "episode_reward_mean": {steps}}}' for steps in (10, 5, 4, 12)]
    host = run(script(tmp_path, python("import sys\nfor line in sys.argv[1:]: print(line)", *lines)))
    assert [event["env_steps"] for event in host.events("iteration")] == [10, 12]
    first, last = host.events("alert")
    assert "env_steps fell from 10 to 5, and they count all steps of the run so far" in first["message"]
    assert last["malformed_lines"] == 2
    assert last_metrics(host.folder.metrics).env_steps == 12
