"""Ratings of an env: tournaments, evaluations and recorded matches count together."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mosaic.core.episode import Episode
from mosaic.runners.record import save_episode
from mosaic.server.evaluations.job import ExaminationRow
from mosaic.server.evaluations.jobs import EvaluationJobs
from mosaic.server.evaluations.ratings import read_ratings
from mosaic.ui.web.pages.ladder import ladder_table

ENV = "classic/tictactoe_v3"


class _Jobs:
    """Evaluations that are over."""

    def __init__(self, *rows: ExaminationRow) -> None:
        self._rows = {row.examination_id: row for row in rows}

    def rows(self) -> list[ExaminationRow]:
        return [row.model_copy(update={"result": None}) for row in self._rows.values()]

    def row(self, examination_id: str) -> ExaminationRow:
        return self._rows[examination_id]


def over(name: str, kind: Any, result: dict[str, Any], env: str = ENV) -> ExaminationRow:
    request = {"environment": {"env_id": env}}
    return ExaminationRow(
        examination_id=name,
        kind=kind,
        state="finished",
        started=0,
        ended=1,
        done=1,
        total=1,
        request=request,
        result=result,
    )


def pair(first: str, second: str, wins: int, draws: int, losses: int, distinct: int) -> dict[str, Any]:
    return {
        "first": first, "second": second, "wins": wins, "draws": draws, "losses": losses, "distinct_games": distinct,
    }  # fmt: skip


def test_everyone_who_played_is_on_the_ladder(tmp_path: Path) -> None:
    tournament = over("t", "tournament", {"pairs": [pair("minimax", "random", 9, 1, 0, 10)]})
    agents = {"player_1": {"policy": "run:a", "wins": 3, "draws": 1, "losses": 0}, "player_2": {"policy": "random"}}
    evaluation = over("e", "evaluate", {"agents": agents, "distinct_games": 4})
    elsewhere = over("x", "tournament", {"pairs": [pair("other", "random", 9, 0, 0, 9)]}, env="classic/chess_v6")
    game = Episode(environment={"env_id": ENV}, seed=0, policies={"player_1": "human", "player_2": "random"})
    game.actions.append({"player_1": 0})
    game.rewards.append({"player_1": -1.0, "player_2": 1.0})
    game.ends.update({"player_1": (0, "terminated"), "player_2": (0, "terminated")})
    path = tmp_path / "match.episode.json"
    save_episode(path, game)
    damaged = tmp_path / "damaged.episode.json"
    damaged.write_text(json.dumps({"version": 99}))
    found = read_ratings(ENV, _Jobs(tournament, evaluation, elsewhere), [path, damaged])  # type: ignore[arg-type]
    assert found.games == 15
    assert {row.policy: (row.kind, row.wins, row.draws, row.losses) for row in found.rows} == {
        "minimax": ("policy", 9, 1, 0),
        "random": ("policy", 1, 2, 12),
        "run:a": ("run", 3, 1, 0),
        "human": ("person", 0, 0, 1),
    }
    assert found.rows[0].policy == "minimax"
    table = ladder_table(found, {"a": "<walk>"})
    assert "people" in table
    assert "&lt;walk&gt;" in table


def test_results_of_another_version_do_not_count_and_end_nothing() -> None:
    fine = over("t", "tournament", {"pairs": [pair("a", "b", 1, 0, 0, 1)]})
    older = [
        over("env", "tournament", {"pairs": [pair("a", "b", 1, 0, 0, 1)]}),
        over("request", "tournament", {"pairs": [pair("a", "b", 1, 0, 0, 1)]}).model_copy(update={"request": {}}),
        over("pair", "tournament", {"pairs": [{"first": "a", "second": "b"}]}),
        over("pairs", "tournament", {"pairs": 3}),
        over("agents", "evaluate", {"agents": {"x": {}, "y": {}}}),
        over("distinct", "evaluate", {"agents": {"x": {"policy": "a", "wins": 1}, "y": {}}}),
    ]
    older[0].request["environment"]["no_such_setting"] = 1
    assert read_ratings(ENV, _Jobs(fine, *older), []).games == 1  # type: ignore[arg-type]


def test_a_stored_evaluation_that_is_damaged_is_left_out_of_the_list(tmp_path: Path) -> None:
    for name, text in (("20260101-000000-00000a", "{"), ("20260101-000000-00000b", "")):
        folder = tmp_path / "examinations" / name
        folder.mkdir(parents=True)
        row = over(name, "tournament", {"pairs": []}).model_dump_json()
        (folder / "result.json").write_text(text or row)
    assert [row.examination_id for row in EvaluationJobs(tmp_path).rows()] == ["20260101-000000-00000b"]


def test_a_game_that_was_repeated_counts_once() -> None:
    same = over("t", "tournament", {"pairs": [pair("a", "b", 40, 0, 0, 1)]})
    assert read_ratings(ENV, _Jobs(same), []).games == 1  # type: ignore[arg-type]
    assert read_ratings(ENV, _Jobs(), []).rows == []  # type: ignore[arg-type]
