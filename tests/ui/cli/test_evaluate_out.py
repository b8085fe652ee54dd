"""`mosaic evaluate --out`: a row per episode as CSV, everything as JSON; refusals come before the first episode."""

import csv
import errno
import json
import math

import pytest

import mosaic as mosaic_package
from mosaic.core import files
from mosaic.evaluation import evaluate as evaluation
from mosaic.server.evaluations import process
from mosaic.server.evaluations.request import EvaluationRequest

GAME = ("evaluate", "classic/tictactoe_v3", "--agent", "player_1=minimax:depth=1", "--agent", "player_2=random")
FEW = (*GAME, "--episodes", "3", "--seed", "5")


def rows_of(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_csv_file_has_a_row_per_episode(mosaic, tmp_path):
    answer = mosaic(*FEW, "--json", "--out", "results.csv")
    assert answer.code == 0, answer.err
    assert "The results of 3 episodes are in results.csv" in answer.err
    printed, rows = json.loads(answer.out)["episode_results"], rows_of(tmp_path / "results.csv")
    assert len(rows) == 3
    for number, (row, told) in enumerate(zip(rows, printed, strict=True)):
        assert (int(row["episode"]), int(row["seed"]), int(row["length"])) == (number, told["seed"], told["length"])
        assert int(row["agent_steps"]) == told["agent_steps"] == told["length"]
        assert float(row["duration_s"]) == told["duration_s"] > 0
        assert (row["winner"] or None, row["cut"]) == (told["winner"], "False")
        for agent, policy in (("player_1", "minimax:depth=1"), ("player_2", "random")):
            assert float(row[f"returns.{agent}"]) == told["returns"][agent]
            assert row[f"policies.{agent}"] == told["policies"][agent] == policy


def test_a_json_file_holds_what_json_prints(mosaic, tmp_path):
    answer = mosaic(*FEW, "--json", "--out", "Results.JSON")
    assert json.loads((tmp_path / "Results.JSON").read_text()) == json.loads(answer.out)
    assert mosaic(*FEW, "--out", "again.json").code == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("results.txt", "--out results.txt: results are written as .csv or .json. Type: --out results.csv"),
        ("results", "Type: --out results.csv"),
        ("none/results.csv", "--out none/results.csv: there is no folder 'none'."),
        ("there.csv", "'there.csv' already exists. Choose another file."),
    ],
)
def test_what_could_not_be_written_is_refused_before_anything_is_played(mosaic, tmp_path, monkeypatch, name, text):
    monkeypatch.setattr(evaluation, "evaluate", lambda *_, **__: pytest.fail("an episode was played"))
    (tmp_path / "there.csv").write_text("mine")
    answer = mosaic(*FEW, "--out", name)
    assert answer.code == 2
    assert text in answer.err.replace("\n", " ")
    assert (tmp_path / "there.csv").read_text() == "mine"


def test_a_full_disk_is_told_and_the_results_are_shown(mosaic, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files, "write_new", full)
    answer = mosaic(*FEW, "--out", "results.csv")
    assert answer.code == 1
    assert "'results.csv' could not be written: No space left on device." in answer.err.replace("\n", " ")
    assert "3 episodes, seed 5" in answer.out
    assert list(tmp_path.glob("*results*")) == []


def test_python_has_the_durations_too():
    found = mosaic_package.evaluate("gym/CartPole-v1", {"*": "random"}, episodes=2)
    durations = [result.duration_s for result in found.episode_results]
    assert all(duration > 0 for duration in durations)
    assert math.isclose(found.duration_mean_s, sum(durations) / 2)
    assert found.to_csv().splitlines()[0] == (
        "episode,seed,length,agent_steps,duration_s,winner,cut,returns.agent_0,policies.agent_0"
    )


def test_the_server_returns_the_durations(tmp_path):
    asked = EvaluationRequest.model_validate({"environment": {"env_id": "gym/CartPole-v1"}, "agents": {"*": "random"},
                                              "episodes": 2, "record": False})  # fmt: skip
    result = process._evaluate(asked, tmp_path, lambda _: None, None)
    assert all(episode["duration_s"] > 0 for episode in result["episode_results"])
    assert result["duration_mean_s"] > 0


def test_agents_that_were_not_there_have_empty_cells(tmp_path):
    born = "python:pettingzoo.test.example_envs.generated_agents_parallel_v0:parallel_env"
    found = mosaic_package.evaluate(born, {"*": "random"}, episodes=4, max_steps=60)
    (tmp_path / "born.csv").write_text(found.to_csv())
    rows = rows_of(tmp_path / "born.csv")
    for row, result in zip(rows, found.episode_results, strict=True):
        there = {name.removeprefix("returns.") for name in row if name.startswith("returns.") and row[name]}
        assert there == result.returns.keys()
    assert any("" in row.values() for row in rows)
