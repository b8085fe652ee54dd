"""`mosaic demos`, `play --demo` and `evaluate --demo`, as text and as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.server.policy.policy_kit import TOKEN, serving_any

pytest.importorskip("minari", reason="the extra 'demos' is not installed")

POLE = ("gym/CartPole-v1", "--agent", "*=random")
GAME = ("classic/tictactoe_v3", "--agent", "player_1=minimax", "--agent", "player_2=random")


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)


def document(mosaic: Any, *words: str) -> Any:
    answer = mosaic("demos", *words, "--json")
    assert answer.code == 0, answer.err
    return json.loads(answer.out)


def test_play_is_recorded_shown_edited_and_deleted(mosaic: Any) -> None:
    assert "Record one: mosaic play ENV" in mosaic("demos").err
    for seed in ("1", "2", "3"):
        answer = mosaic("play", *POLE, "--seed", seed, "--demo", "pole")
        assert "Added to the demonstration pole" in answer.err
    (row,) = document(mosaic, "list")
    assert (row["name"], row["env"], row["episodes"], row["agents"]) == ("pole", "gym/CartPole-v1", 3, ["agent_0"])
    shown = document(mosaic, "show", "pole")
    assert [each["seed"] for each in shown["episode_rows"]] == [1, 2, 3]
    assert shown["datasets"][0]["controllers"] == {"random": row["agent_steps"]}
    text = mosaic("demos", "show", "pole")
    assert "agent_0: random" in text.out
    assert "for learners: demo:pole/agent_0" in text.err
    assert document(mosaic, "replay", "pole", "--episode", "1")["same"]
    assert document(mosaic, "drop", "pole") == {"name": "pole", "episodes": 2}
    assert document(mosaic, "trim", "pole", "--from", "1", "--to", "5") == {"name": "pole", "agent_steps": 4}
    assert document(mosaic, "filter", "pole", "--min-return", "5")["episodes"] == 1
    assert document(mosaic, "delete", "pole") == {"deleted": "pole"}
    assert document(mosaic, "list") == []


def test_evaluations_are_recorded(mosaic: Any) -> None:
    answer = mosaic("evaluate", *GAME, "--episodes", "3", "--demo", "games", "--json")
    assert json.loads(answer.out)["episodes"] == 3
    assert "The episodes are in the demonstration games" in answer.err
    assert document(mosaic, "show", "games")["episodes"] == 3
    again = mosaic("evaluate", *POLE, "--episodes", "1", "--demo", "games")
    assert again.code == 2
    assert "was recorded in classic/tictactoe_v3, not in gym/CartPole-v1" in again.err
    both = mosaic("demos", "import", "demo:games", "--name", "copy")
    assert both.code == 2
    assert "Name one of them: demo:games/player_1, demo:games/player_2" in " ".join(both.err.split())
    assert document(mosaic, "import", "demo:games/player_1", "--name", "copy")["episodes"] == 3


def test_imports_and_exports(mosaic: Any, tmp_path: Path) -> None:
    mosaic("play", *POLE, "--record", "--out", "own.episode.json")
    assert document(mosaic, "import", "own.episode.json", "--name", "pole") == {"name": "pole", "episodes": 1}
    assert document(mosaic, "export", "pole")["file"] == "pole.zip"
    assert document(mosaic, "import", "pole.zip")["episodes"] == 2  # added to what there is
    assert document(mosaic, "import", "pole.zip", "--name", "copy")["episodes"] == 1
    folder = str(tmp_path / "home" / "demos" / "pole" / "agent_0-v0")
    assert document(mosaic, "import", folder, "--name", "bare", "--env", "gym/CartPole-v1")["episodes"] == 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("show", "poel"), "There is no demonstration named 'poel'. Did you mean 'pole'?"),
        (("show", "../x"), "'../x' cannot name a demonstration: use 2 to 80 letters"),
        (("replay", "pole", "--episode", "7"), "'pole' has no episode 7; it has 0 to 0."),
        (("drop", "pole"), "nothing was changed. To delete it, type: mosaic demos delete pole"),
        (("import", "nothing"), "'nothing' is not a dataset. Name demo:NAME"),
        (("import", "minari:nothing-v0"), "There is no Minari dataset named 'nothing-v0' on this machine."),
        (("import", "x.zip", "--env", "gym/CartPole-v1"), "already names the env in which it was recorded"),
        (("import", "nothing.zip"), "There is no file 'nothing.zip'."),
        (("drop", "pole", "--episode", "0", "--last", "1"), "leave out one of them"),
        (("delete", "../x"), "'../x' cannot name a demonstration: use 2 to 80 letters"),
        (("filter", "pole"), "--min-return R, --max-return R"),
    ],
)
def test_what_cannot_be_done_is_explained(
    mosaic: Any, words: tuple[str, ...], told: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    mosaic("play", *POLE, "--demo", "pole")
    answer = mosaic("demos", *words)
    assert answer.code == 2
    assert told in " ".join(answer.err.split())


def test_the_demonstrations_of_a_server(mosaic: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mosaic("evaluate", *POLE, "--episodes", "2", "--demo", "pole")
    mosaic("demos", "export", "pole")
    monkeypatch.setenv("MOSAIC_TOKEN", TOKEN)
    with serving_any(tmp_path / "there") as server:
        there = ("--server", server.url)
        assert document(mosaic, "list", *there) == []
        assert document(mosaic, "import", "pole.zip", *there) == {"name": "pole", "episodes": 2}
        (row,) = document(mosaic, "list", *there)
        assert (row["name"], row["episodes"]) == ("pole", 2)
        assert document(mosaic, "drop", "pole", "--episode", "0", *there) == {"name": "pole", "episodes": 1}
        assert document(mosaic, "trim", "pole", "--from", "1", "--to", "5", *there) == {
            "name": "pole",
            "agent_steps": 4,
        }
        assert document(mosaic, "filter", "pole", "--max-return", "4", *there) == {"name": "pole", "episodes": 1}
        assert (
            document(mosaic, "export", "pole", "--out", "back.zip", *there)["bytes"] == Path("back.zip").stat().st_size
        )
        assert "A server takes episode files and .zip files" in mosaic("demos", "import", "minari:x", *there).err
        assert document(mosaic, "delete", "pole", *there) == {"deleted": "pole"}
        assert "There is no demonstration named 'pole'" in mosaic("demos", "show", "pole", *there).err
    assert document(mosaic, "show", "pole")["episodes"] == 2  # those of this machine are others
    assert document(mosaic, "import", "back.zip", "--name", "back")["episodes"] == 1
