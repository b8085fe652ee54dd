from __future__ import annotations

import fcntl
import json
from pathlib import Path
from typing import Any

import pytest

import mosaic
from mosaic.core.errors import FormatError, InputError, UnknownNameError
from mosaic.evaluation import tournament as module
from mosaic.evaluation.schedule import MatchResult, schedule
from mosaic.evaluation.standings import MatchTally, Tournament
from mosaic.evaluation.tournament import tournament

TICTACTOE = "classic/tictactoe_v3"
FIRST, LAST = (
    "python:tests.evaluation.evaluation_toys:first_legal",
    "python:tests.evaluation.evaluation_toys:last_legal",
)
POLICIES = ["random", FIRST, LAST]


def play(**changes: Any) -> Tournament:
    settings: dict[str, Any] = {"policies": ["random", FIRST], "games": 3, "seed": 5, **changes}
    return tournament(TICTACTOE, settings.pop("policies"), **settings)


def test_the_root_has_it() -> None:
    assert mosaic.tournament is tournament


def test_every_ordered_pair_plays_exactly_its_games() -> None:
    told: list[MatchResult] = []
    found = play(policies=POLICIES, games=4, on_game=told.append)
    document = found.to_json()
    assert json.loads(json.dumps(document, allow_nan=False)) == document
    pairs = {(pair["first"], pair["second"]): pair for pair in document["pairs"]}
    assert set(pairs) == {(a, b) for a in POLICIES for b in POLICIES if a != b}
    assert all(pair["games"] == 4 == pair["wins"] + pair["draws"] + pair["losses"] for pair in pairs.values())
    assert (document["games"], document["games_total"], len(told)) == (4, 24, 24)
    assert pairs[FIRST, LAST]["distinct_games"] == 1  # neither draws lots
    assert pairs["random", FIRST]["distinct_games"] == 4
    assert document["reproducible"]


def test_scores_are_counted_from_both_sides() -> None:
    found = play(policies=POLICIES, games=5)
    for policy in POLICIES:
        others = [other for other in POLICIES if other != policy]
        own, reply = [found.pair(policy, other) for other in others], [found.pair(other, policy) for other in others]
        assert found.policy(policy) == MatchTally(
            wins=sum(tally.wins for tally in own) + sum(tally.losses for tally in reply),
            draws=sum(tally.draws for tally in own + reply),
            losses=sum(tally.losses for tally in own) + sum(tally.wins for tally in reply),
            distinct_games=sum(tally.distinct_games for tally in own + reply),
        )
    rows = found.to_json()["policies"]
    assert [row["rating"] for row in rows] == sorted((row["rating"] for row in rows), reverse=True)
    assert sum(row["score_mean"] for row in rows) == pytest.approx(len(POLICIES) / 2)
    assert all(row["score_ci95"][0] < row["score_mean"] < row["score_ci95"][1] for row in rows)
    assert all(row["rating_sd"] > 0 for row in rows)


def test_games_played_again_narrow_neither_scores_nor_ratings() -> None:
    once, again = (play(policies=[FIRST, LAST], games=games).to_json() for games in (1, 25))
    for before, after in zip(once["policies"], again["policies"], strict=True):
        assert (after["games"], after["distinct_games"]) == (50, 2)
        assert after["score_ci95"] == before["score_ci95"]
        assert after["rating_sd"] == before["rating_sd"]
    assert [pair["score_ci95"] for pair in again["pairs"]] == [pair["score_ci95"] for pair in once["pairs"]]


def test_the_first_of_a_pair_has_the_first_seat() -> None:
    """Without chance, whoever begins has its three cells in a row before the other."""
    assert [(result.match.first, result.score) for result in play(policies=[FIRST, LAST], games=1).results] == [
        (FIRST, 1.0),
        (LAST, 1.0),
    ]
    alone = mosaic.evaluate(TICTACTOE, {"player_1": FIRST, "player_2": LAST}, episodes=1)
    assert alone.episode_results[0].winner == "player_1"


def test_a_pair_plays_the_same_games_whoever_else_takes_part() -> None:
    small, large = play(policies=["random", FIRST]), play(policies=[LAST, FIRST, "random"])
    games = {result.match: result for result in large.results}
    assert all(games[result.match] == result for result in small.results)


def test_processes_change_nothing() -> None:
    assert play(num_env_runners=2).to_json() == play().to_json()


def test_a_stopped_tournament_goes_on_wherever_it_was_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The store is cut at every byte of its last two lines, and at every line before."""
    store, played = tmp_path / "store.jsonl", list[int]()
    whole = play(store=store)
    data = store.read_bytes()
    lines = data.splitlines(keepends=True)
    assert len(lines) == 1 + 6

    real = module.play_games

    def counted(plan: Any, games: Any, num_env_runners: Any, env: Any, **more: Any) -> Any:
        played.append(len(games))
        return real(plan, games, num_env_runners, env, **more)

    monkeypatch.setattr(module, "play_games", counted)
    line_ends = [sum(map(len, lines[:count])) for count in range(len(lines))]
    for cut in [*line_ends, *range(line_ends[-2], len(data) + 1)]:
        store.write_bytes(data[:cut])
        told: list[MatchResult] = []
        assert play(store=store, on_game=told.append) == whole
        kept = max(sum(cut >= end + len(line) - 1 for end, line in zip(line_ends, lines, strict=True)) - 1, 0)
        assert played.pop() == 6 - kept, cut  # a game whose line is whole is never played again
        assert len({result.match for result in told}) == len(told) == 6
        assert sorted(store.read_bytes().splitlines(keepends=True)) == sorted(lines)


@pytest.mark.parametrize("cut", [0, 1, 40])
def test_a_store_torn_within_its_first_line_begins_anew(tmp_path: Path, cut: int) -> None:
    store = tmp_path / "deep" / "store.jsonl"
    whole = play(games=1, store=store)
    data = store.read_bytes()
    store.write_bytes(data[:cut])
    assert play(games=1, store=store) == whole
    assert store.read_bytes() == data


def test_the_order_of_policies_may_change_between_sittings(tmp_path: Path) -> None:
    store = tmp_path / "store.jsonl"
    one = play(policies=["random", FIRST], store=store).to_json()
    other = play(policies=[FIRST, "random"], store=store).to_json()
    assert one["policies"] == other["policies"]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"games": 4}, r"holds another tournament: its games is 3, this one's is 4\. Choose another file"),
        ({"seed": 6}, r"its seed is 5, this one's is 6"),
        ({"max_steps": 7}, r"its max_steps is 10000, this one's is 7"),
        ({"policies": ["random", LAST]}, rf'its policies is \["{FIRST}", "random"\], this one\'s is \["{LAST}"'),
    ],
)
def test_another_tournaments_store_is_refused(tmp_path: Path, changes: dict[str, Any], text: str) -> None:
    store = tmp_path / "store.jsonl"
    play(store=store)
    before = store.read_bytes()
    with pytest.raises(InputError, match=text):
        play(store=store, **changes)
    assert store.read_bytes() == before


def test_a_store_of_another_env_is_refused(tmp_path: Path) -> None:
    store = tmp_path / "store.jsonl"
    play(games=1, store=store)
    with pytest.raises(InputError, match="holds another tournament: its environment is"):
        tournament("classic/connect_four_v3", ["random", FIRST], games=1, seed=5, store=store)


@pytest.mark.parametrize("content", [b"dear diary", b"dear diary\n", b'{"format": "other"}\n', b"[1]\n", b"\xff\n"])
def test_a_foreign_file_is_left_alone(tmp_path: Path, content: bytes) -> None:
    store = tmp_path / "diary.txt"
    store.write_bytes(content)
    with pytest.raises(FormatError, match="is not the store of a tournament; it was left unchanged"):
        play(store=store)
    assert store.read_bytes() == content


@pytest.mark.parametrize(
    "line",
    [
        b"torn\n",
        b"{}\n",
        b'{"first": 1}\n',
        b"null\n",
        b"7\n",
        b'{"score": 1, "first": "a", "second": "b", "number": Infinity}\n',
    ],
)
def test_a_damaged_line_is_named(tmp_path: Path, line: bytes) -> None:
    store = tmp_path / "store.jsonl"
    play(store=store)
    lines = store.read_bytes().splitlines(keepends=True)
    store.write_bytes(b"".join([*lines[:3], line, *lines[4:]]))
    with pytest.raises(FormatError, match=r"Line 4 of '.*store\.jsonl' is damaged"):
        play(store=store)


def test_a_repeated_game_is_named(tmp_path: Path) -> None:
    store = tmp_path / "store.jsonl"
    play(store=store)
    lines = store.read_bytes().splitlines(keepends=True)
    store.write_bytes(b"".join([*lines, lines[2]]))
    with pytest.raises(FormatError, match=r"Line 8 of '.*store\.jsonl' repeats a game"):
        play(store=store)


def test_two_processes_do_not_share_a_store(tmp_path: Path) -> None:
    store = tmp_path / "store.jsonl"
    with store.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(InputError, match=r"Another process is playing the tournament in '.*store.jsonl'\."):
            play(store=store)


def test_a_store_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"store '.*' cannot be opened: Is a directory\."):
        play(store=tmp_path)


@pytest.mark.parametrize(
    ("env", "reason"),
    [
        ("gym/CartPole-v1", "it has 1 agent, but a tournament pairs two"),
        ("mpe/simple_spread_v3", "it has 3 agents, but a tournament pairs two"),
        ("classic/hanabi_v5", "it has no winner"),
    ],
)
def test_other_envs_are_refused(env: str, reason: str) -> None:
    with pytest.raises(InputError, match=f"^{env} cannot hold a tournament: {reason}") as caught:
        tournament(env, ["random", FIRST])
    assert "classic/connect_four_v3" in str(caught.value)
    assert f"type: mosaic evaluate {env} --agent" in str(caught.value)


def test_policies_must_be_two_or_more_and_different() -> None:
    with pytest.raises(InputError, match="A tournament needs at least two policies"):
        play(policies=["random"])
    with pytest.raises(InputError, match=r"'random' is duplicated in the tournament\."):
        play(policies=["random", FIRST, "random"])
    with pytest.raises(UnknownNameError, match="There is no policy named 'randon'"):
        play(policies=["random", "randon"])
    with pytest.raises(InputError, match="games is 0; it must be at least 1"):
        play(games=0)


def test_games_of_a_pair_have_seeds_of_their_own() -> None:
    seeds = schedule(POLICIES, 50, 0)
    assert len(seeds) == len(set(seeds.values())) == 6 * 50
    assert {match: seed for match, seed in seeds.items() if match.number < 10} == schedule(POLICIES, 10, 0)
