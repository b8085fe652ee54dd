"""Training and its runs on the command line: of its processes where they matter, else in this one."""

import json
import os
import shlex
import signal
import subprocess
import sys

import pytest

from mosaic.runs.trainer import Trainer
from mosaic.telemetry.events.reader import follow

TOY = ("train", "gym/CartPole-v1", "--worker", "toy")
SLOWLY = ("--set", "training.params.iteration_s=0.02")


def wait_for_iteration(home, number=3):
    run = Trainer(home).run("latest")
    for event in follow(run.folder.metrics):
        if event.get("training_iteration", 0) >= number:
            return run


def test_train_prints_the_promised_result(mosaic):
    answer = mosaic(
        *TOY, "--steps", "3000", "--stop-reward", "4", "--seed", "0", "--name", "walk", "--tag", "t", "--json"
    )
    assert answer.code == 0
    assert answer.err == ""
    result = json.loads(answer.out)
    promised = {
        "run_id", "state", "env_steps", "agent_steps", "episodes_total", "startup_s", "train_s", "time_to_stop_s",
        "wall_time_s", "env_steps_per_s", "episode_reward_mean", "checkpoint", "policies",
    }  # fmt: skip
    assert promised <= result.keys()
    assert result["state"] == "finished"
    assert result["episode_reward_mean"] >= 4
    assert 0 < result["time_to_stop_s"] <= result["train_s"]
    assert "1 run " in mosaic("runs", "list").out
    listed = json.loads(mosaic("runs", "list", "--json").out)
    assert [(row["run_id"], row["name"], row["tags"]) for row in listed] == [(result["run_id"], "walk", ["t"])]
    shown = json.loads(mosaic("runs", "show", "walk", "--json").out)
    assert shown["checkpoints"][-1]["env_steps"] == result["env_steps"]
    assert shown["last_metric"]["episode_reward_mean"] == result["episode_reward_mean"]
    assert "episode_reward_mean over env_steps" in mosaic("watch", "latest").out


def test_a_dry_run_starts_nothing(mosaic):
    answer = mosaic(*TOY, "--steps", "500", "--set", "training.params.noise=0.5", "--dry-run", "--json")
    document = json.loads(answer.out)
    assert document["training"]["algorithm"] == "walk"
    assert document["training"]["params"] == {"noise": 0.5, "iteration_s": 0.0, "steps_per_iteration": 100}
    assert json.loads(mosaic("runs", "list", "--json").out) == []


@pytest.mark.parametrize("words", [("--worker", "native", "--init", "run:nope"), ("--agent", "player_2=run:nope")])
def test_a_dry_run_refuses_what_a_run_would(mosaic, words):
    answer = mosaic("train", "classic/tictactoe_v3", *words, "--dry-run")
    assert answer.code == 2
    assert "There is no run 'nope'" in answer.err or "named 'nope'" in answer.err


def test_a_configuration_file_and_what_counts_more(mosaic, tmp_path):
    (tmp_path / "run.toml").write_text(
        'seed = 4\n[environment]\nenv_id = "gym/Taxi-v3"\n[training]\nworker = "toy"\ntotal_timesteps = 900\n'
    )
    words = ["train", "--config", "run.toml", "--dry-run", "--json"]
    assert json.loads(mosaic(*words).out)["environment"]["env_id"] == "Taxi-v3"
    changed = json.loads(mosaic(*words, "--steps", "200", "--set", "seed=9").out)
    assert (changed["training"]["total_timesteps"], changed["seed"]) == (200, 9)
    other = json.loads(mosaic("train", "classic/tictactoe_v3", *words[1:]).out)
    assert other["environment"]["family"] == "classic"


def test_a_detached_run_is_paused_resumed_saved_and_stopped(mosaic, tmp_path):
    started = json.loads(mosaic(*TOY, *SLOWLY, "--detach", "--json").out)
    wait_for_iteration(tmp_path / "home")
    run = started["run_id"]
    assert json.loads(mosaic("runs", "pause", run, "--json").out)["state"] == "paused"
    assert json.loads(mosaic("runs", "resume", run, "--json").out)["state"] == "running"
    assert mosaic("runs", "checkpoint", run).code == 0
    assert json.loads(mosaic("runs", "stop", run, "--json").out)["state"] == "stopped"
    refused = mosaic("runs", "pause", run)
    assert refused.code == 2
    assert "stopped" in refused.err
    assert mosaic("runs", "resume", run, "--num-env-runners", "0").code == 2
    assert mosaic("runs", "resume", run, "--num-env-runners", "3").code == 0
    assert json.loads(mosaic("runs", "show", run, "--json").out)["config"]["resources"]["num_env_runners"] == 3
    refused = mosaic("runs", "resume", run, "--num-env-runners", "4")
    assert refused.code == 2
    assert "keeps its resources for as long as it lives" in " ".join(refused.err.split())
    mosaic("runs", "stop", run)


def test_a_stop_that_had_to_kill_says_so_and_fails(mosaic, tmp_path):
    run = json.loads(mosaic(*TOY, "--set", "training.params.iteration_s=600", "--detach", "--json").out)["run_id"]
    next(iter(follow(Trainer(tmp_path / "home").run(run).folder.metrics)))
    killed = mosaic("runs", "stop", run, "--patience", "0.5")
    assert (killed.code, killed.out) == (1, "")
    said = " ".join(killed.err.split())
    assert f"The run {run} did not stop by itself: asked to stop (it did not stop within 0.5 s and was killed)." in said
    assert "It has no checkpoint: everything it did is lost." in said
    assert mosaic("runs", "stop", run).code == 0  # it has ended: there is nothing left to stop
    details = json.loads(mosaic("runs", "show", run, "--json").out)
    assert (details["state"], details["attempts"][-1]["forced"]) == ("stopped", True)


TALKS = """
import sys, time
from pathlib import Path

for number in range(3):
    print(f"line {number}", flush=True)
    print(f"warning {number}", file=sys.stderr, flush=True)
while not Path("enough").exists():
    time.sleep(0.02)
print("the end", flush=True)
"""


def test_the_log_is_shown_by_stream_by_its_end_and_as_it_comes(mosaic, tmp_path):
    (tmp_path / "talks.py").write_text(TALKS)
    command = f'training.params.command=["{sys.executable}", "talks.py"]'
    train = ("train", "gym/CartPole-v1", "--worker", "script", "--set", command, "--detach", "--json")
    run = json.loads(mosaic(*train).out)["run_id"]
    words = [sys.executable, "-m", "mosaic", "runs", "log", run, "--follow"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as follower:
        seen = [follower.stdout.readline() for _ in range(6)]
        (tmp_path / "enough").touch()
        rest = follower.stdout.read()
    assert (follower.returncode, rest) == (0, "the end\n")
    assert set(seen) == {f"{word} {number}\n" for word in ("line", "warning") for number in range(3)}
    assert mosaic("runs", "log", run, "--stderr").out == "warning 0\nwarning 1\nwarning 2\n"
    assert mosaic("runs", "log", run, "--stdout", "--tail", "2").out == "line 2\nthe end\n"
    assert mosaic("runs", "log", run, "--tail", "1").out == "the end\nwarning 2\n"
    assert mosaic("runs", "log", run, "--tail", "0").out == ""
    Trainer(tmp_path / "home").run(run).wait(60)


def test_going_on_with_a_strangers_pickles_needs_trust(mosaic, tmp_path, monkeypatch):
    monkeypatch.setattr("mosaic.workers.toy.ToyWorker.resumes_from_pickles", True, raising=False)
    monkeypatch.setenv("MOSAIC_TRUST", "0")  # and afterwards what it was, whatever --trust made of it
    run = json.loads(mosaic(*TOY, *SLOWLY, "--detach", "--json").out)["run_id"]
    wait_for_iteration(tmp_path / "home")
    mosaic("runs", "stop", run)
    mosaic("runs", "archive", run, "--out", "gift.tar.gz")
    gift = json.loads(mosaic("runs", "import", "gift.tar.gz", "--json").out)["run_id"]
    refused = mosaic("runs", "resume", gift)
    assert refused.code == 2
    assert f"it was imported. If you trust its origin, type: mosaic runs resume {gift} --trust." in " ".join(
        refused.err.split()
    )
    assert json.loads(mosaic("runs", "show", gift, "--json").out)["state"] == "stopped"
    elsewhere = mosaic("runs", "resume", gift, "--trust", "--server", "http://127.0.0.1:1")
    assert elsewhere.code == 2
    assert "Type it there, without --server." in " ".join(elsewhere.err.split())
    assert mosaic("runs", "resume", gift, "--trust").code == 0
    mosaic("runs", "stop", gift)


@pytest.mark.slow
@pytest.mark.chosen
def test_ctrl_c_stops_and_saves(tmp_path):
    home = tmp_path / "home"
    process = subprocess.Popen(
        [sys.executable, "-m", "mosaic", *TOY, *SLOWLY],
        env={**os.environ, "MOSAIC_HOME": str(home)},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    while not (home / "runs").exists() or not Trainer(home).runs():
        assert process.poll() is None
    wait_for_iteration(home)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    run = Trainer(home).run("latest")
    assert f"mosaic runs resume {run.id}" in errors
    assert run.state == "stopped"
    assert run.checkpoints()


def test_a_group_of_seeds_is_put_together(mosaic, runs_here):
    answer = mosaic(*TOY, "--steps", "1000", "--seeds", "3")
    assert answer.code == 0
    assert "interquartile mean" in answer.out
    assert "mean over 3 runs:" in answer.out
    assert "1.0 k" in answer.out
    rows = json.loads(mosaic("runs", "list", "--json").out)
    assert len({row["seed"] for row in rows}) == 3
    (group,) = {row["group"] for row in rows}
    together = json.loads(mosaic("runs", "compare", group, "--json").out)
    assert len(together["runs"]) == 3
    assert set(together["differences"]) == {"seed"}
    (row,) = together["groups"]
    assert (row["group"], row["env"], len(row["scores"])) == (group, "gym/CartPole-v1", 3)
    assert min(row["scores"]) <= row["iqm_ci95"][0] <= row["iqm"] <= row["iqm_ci95"][1] <= max(row["scores"])
    curve = row["curve"]
    assert curve["low"][-1] < curve["mean"][-1] < curve["high"][-1]
    assert together["comparisons"] == []


def test_a_seed_group_is_found_by_the_name_it_was_trained_with(mosaic, runs_here, monkeypatch):
    toy = ["train", "gym/CartPole-v1", "--worker", "toy", "--steps", "100", "--json", "--seeds", "2"]
    mosaic(*toy, "--name", "first")
    found = json.loads(mosaic("runs", "compare", "first", "--json").out)
    assert [len(row["runs"]) for row in found["groups"]] == [2]
    assert len(json.loads(mosaic("runs", "compare", "first-1", "--json").out)["runs"]) == 1
    mosaic(*toy, "--name", "second", "--set", "telemetry.report_every_s=0.5")
    monkeypatch.setenv("COLUMNS", "80")
    shown = mosaic("runs", "compare", "first", "second").out
    assert shown.count("finished") == 4  # no word is broken
    assert "first − second" in shown
    lines = [line.split() for line in shown.splitlines()]
    assert ["setting", "first", "second"] in lines
    assert ["telemetry.report_every_s", "2.0", "0.5"] in lines
    assert not any(line[:1] == ["seed"] for line in lines)
    mosaic(*toy, "--name", "first")
    refused = mosaic("runs", "compare", "first")
    assert refused.code == 2
    assert "2 seed groups are named 'first'. Give the id of one: " in refused.err


@pytest.mark.slow
@pytest.mark.chosen
def test_groups_and_envs_are_compared_and_not_pooled(mosaic, runs_here):
    """Two settings of one env have a difference; another env has numbers of its own."""
    toy = ["train", "--worker", "toy", "--steps", "300", "--json"]
    asked = ["gym/CartPole-v1"], ["gym/CartPole-v1", "--set", "telemetry.report_every_s=0.5"], ["gym/Acrobot-v1"]
    made = [json.loads(mosaic(*toy, *more, "--seeds", "3").out)[0]["run_id"] for more in asked]
    group_of = {row["run_id"]: row["group"] for row in json.loads(mosaic("runs", "list", "--json").out)}
    groups = [group_of[run] for run in made]
    alone = json.loads(mosaic(*toy, "gym/CartPole-v1").out)["run_id"]
    found = json.loads(mosaic("runs", "compare", *groups, alone, alone, "--json").out)
    assert [(row["group"], row["env"], len(row["runs"])) for row in found["groups"]] == [
        (groups[0], "gym/CartPole-v1", 3),
        (groups[1], "gym/CartPole-v1", 3),
        (groups[2], "gym/Acrobot-v1", 3),
        (alone, "gym/CartPole-v1", 1),
    ]
    assert found["group"] is None
    assert found["groups"][3]["iqm_ci95"] == [None, None]
    assert [(pair["first"], pair["second"]) for pair in found["comparisons"]] == [
        (groups[0], groups[1]),
        (groups[0], alone),
        (groups[1], alone),
    ]
    (pair, *_) = found["comparisons"]
    first, second = (row["scores"] for row in found["groups"][:2])
    low, high = pair["difference_ci95"]
    assert min(first) - max(second) <= low <= pair["difference"] <= high <= max(first) - min(second)
    low, high = pair["probability_of_improvement_ci95"]
    assert 0 <= low <= pair["probability_of_improvement"] <= high <= 1
    shown = mosaic("runs", "compare", *groups)
    assert "interquartile mean" in shown.out
    assert "gym/Acrobot-v1: last episode_reward_mean" in shown.out
    assert "2 different envs" in shown.err


def test_self_play_is_compared_by_its_rating(mosaic, runs_here):
    """The return of both sides together tells nothing about how strong they are."""
    train = ["train", "classic/tictactoe_v3", "--worker", "native", "--steps", "20000", "--json", "--seeds", "2"]
    for name, rate in (("slow", "0.0001"), ("quick", "0.003")):
        assert mosaic(*train, "--name", name, "--set", f"training.params.learning_rate={rate}").code == 0
    found = json.loads(mosaic("runs", "compare", "slow", "quick", "--json").out)
    assert {row["measure"] for row in found["runs"]} == {"policies/learner/rating"}
    assert [row["scores"] for row in found["groups"]] == [
        [row["score"] for row in found["runs"][:2]],
        [row["score"] for row in found["runs"][2:]],
    ]
    assert all(score > 1000 for row in found["groups"] for score in row["scores"])
    assert [(pair["first"], pair["second"]) for pair in found["comparisons"]] == [
        (found["groups"][0]["group"], found["groups"][1]["group"])
    ]
    shown = mosaic("runs", "compare", "slow", "quick")
    assert "classic/tictactoe_v3: last rating" in shown.out
    assert "mosaic tournament" in shown.err


def test_archive_delete_import_and_reindex(mosaic, tmp_path, runs_here):
    run = json.loads(mosaic(*TOY, "--steps", "300", "--json").out)["run_id"]
    assert mosaic("runs", "archive", run, "--out", str(tmp_path / "one.tar.gz")).code == 0
    assert mosaic("runs", "delete", run).code == 0
    assert json.loads(mosaic("runs", "list", "--json").out) == []
    assert json.loads(mosaic("runs", "import", str(tmp_path / "one.tar.gz"), "--json").out)["run_id"] == run
    assert json.loads(mosaic("runs", "reindex", "--json").out) == {"runs": 1}
    played = mosaic("evaluate", "gym/CartPole-v1", "--agent", f"*=run:{run}", "--episodes", "1", "--json")
    assert played.code == 0


def test_a_trained_policy_takes_an_agents_place(mosaic, runs_here):
    mosaic("train", "classic/tictactoe_v3", "--worker", "toy", "--steps", "300", "--name", "mine")
    answer = mosaic(
        "evaluate", "classic/tictactoe_v3", "--agent", "player_1=run:mine@best", "--agent", "player_2=minimax",
        "--episodes", "3", "--json",
    )  # fmt: skip
    assert json.loads(answer.out)["agents"]["player_2"]["losses"] == 0


def test_a_grid_worlds_values_are_shown_and_drawn(mosaic, tmp_path, runs_here):
    words = (
        "train",
        "mosaic/gridworld",
        "--worker",
        "tabular",
        "--steps",
        "50000",
        "--set",
        "training.params.epsilon=1",
    )
    assert mosaic(*words, "--json").code == 0
    shown = mosaic("runs", "values", "latest")
    assert shown.code == 0
    assert shown.out.splitlines()[1].split()[0] == "S↓"
    drawn = mosaic("runs", "values", "latest", "--out", "values.png", "--json")
    document = json.loads(drawn.out)
    assert document["map"][0] == "S...."
    assert document["arrows"][4] == ["", "→", "→", "→", ""]
    assert document["path"] == "values.png"
    assert (tmp_path / "values.png").read_bytes().startswith(b"\x89PNG")
    refused = mosaic("runs", "values", "latest", "--out", "values.jpg")
    assert refused.code == 2
    assert "its name should end with .png" in refused.err
    lost = mosaic("runs", "values", "latest", "--out", "nowhere/values.png")
    assert lost.code == 2
    assert "nowhere/values.png cannot be written: No such file or directory" in lost.err


def test_values_of_what_is_no_grid_are_refused(mosaic, runs_here):
    assert mosaic("train", "gym/Taxi-v3", "--worker", "tabular", "--steps", "1000", "--json").code == 0
    refused = mosaic("runs", "values", "latest")
    assert refused.code == 2
    assert "gym/Taxi-v3 is not a grid whose cells are states. Grids: gym/CliffWalking" in refused.err
    assert mosaic(*TOY, "--steps", "200", "--json").code == 0
    refused = mosaic("runs", "values", "latest")
    assert refused.code == 2
    assert "was trained by the worker 'toy', which keeps no table of values" in refused.err


def advised(text: str) -> list[str]:
    """The words of the command that a message ends with."""
    return shlex.split(" ".join(text.split()).rpartition("mosaic ")[2])


def test_the_advice_for_a_finished_run_works(mosaic, tmp_path, runs_here):
    """What is printed can be typed, also for an env with options."""
    lake = ["train", "gym/FrozenLake-v1", "--set", "environment.options.is_slippery=false", "--steps", "2000", "--json"]
    run = json.loads(mosaic(*lake, "--worker", "tabular").out)["run_id"]
    refused = mosaic("runs", "resume", run)
    assert refused.code == 2
    words = advised(refused.err)
    assert words == ["runs", "resume", run, "--steps", "4000"]
    assert mosaic(*words).code == 0
    assert Trainer(tmp_path / "home").run(run).wait(120) == "finished"
    filmed = mosaic("watch", run, "--picture", "now.png")
    words = advised(filmed.err)
    assert words[:2] == ["evaluate", "gym/FrozenLake-v1"]
    assert mosaic(*words[: words.index("--video")], "--episodes", "1", "--json").code == 0
