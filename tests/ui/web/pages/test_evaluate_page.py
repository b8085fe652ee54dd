"""The Evaluate page and its routes: asked, played in a process of its own, shown with intervals, replayed."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from axe_playwright_python.sync_playwright import Axe
from fastapi.testclient import TestClient
from playwright.sync_api import expect

from mosaic.evaluation.tournament import tournament
from mosaic.runners.record import episode_from_json
from mosaic.server.app import create_app
from mosaic.server.auth.hosts import allowed_hosts
from mosaic.server.auth.token import ensure_token
from mosaic.server.context import ServerSettings
from mosaic.server.evaluations.jobs import EvaluationJobs
from mosaic.server.evaluations.request import EvaluationRequest, TournamentRequest, check_request
from mosaic.ui.web.data.result_text import (
    agents_table,
    evaluation_verdict,
    examine_command,
    histogram,
    reports_table,
    tournament_csv,
    tournament_verdict,
)
from mosaic.ui.web.data.results import PairScore, chosen_episodes, first_agent_score, score_of
from tests.ui.web.web_kit import PATIENCE_MS, Tab, WebServer

TICTACTOE = {"env_id": "classic/tictactoe_v3"}
PAIRS = [
    {
        "first": "a",
        "second": "b",
        "games": 20,
        "wins": 15,
        "draws": 5,
        "losses": 0,
        "score_mean": 0.875,
        "distinct_games": 20,
    },
    {
        "first": "b",
        "second": "a",
        "games": 20,
        "wins": 2,
        "draws": 3,
        "losses": 15,
        "score_mean": 0.175,
        "distinct_games": 20,
    },
]
RESULT: dict[str, Any] = {
    "games_total": 40,
    "distinct_games": 40,
    "policies": [{"policy": "a"}, {"policy": "b"}],
    "pairs": [{**pair, "score_ci95": [0.1, 0.9]} for pair in PAIRS],
}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[TestClient]:
    app = create_app(tmp_path, ServerSettings(start_queued=False, hosts=allowed_hosts()))
    headers = {"Authorization": f"Bearer {ensure_token(tmp_path)}"}
    with TestClient(app, base_url="http://127.0.0.1:8642", headers=headers, raise_server_exceptions=False) as client:
        yield client


def finished(api: TestClient, path: str) -> dict[str, Any]:
    """Its thread ends when its process does; joining it is how we wait."""
    for thread in threading.enumerate():
        if thread.name.startswith("examination-"):
            thread.join(120)
    row: dict[str, Any] = api.get(path).json()
    assert row["state"] != "running"
    return row


def test_scores_are_put_together_from_both_seats() -> None:
    score = score_of(RESULT, "a", "b")
    assert (score.wins, score.draws, score.losses, score.mean) == (30, 8, 2, 0.85)
    assert score_of(RESULT, "b", "a") == PairScore(2, 8, 30, 40)
    assert first_agent_score(RESULT) == PairScore(17, 8, 15, 40)
    assert score.words == "85% over 40 games, 95% interval 72% to 92%"


def test_the_verdict_says_whether_it_is_sure() -> None:
    assert re.sub("<.*?>", "", tournament_verdict(RESULT, 41)) == (
        "40 games in 41 s. a beats b: 85% over 40 games, 95% interval 72% to 92%."
    )
    pair = {**RESULT["pairs"][0], "wins": 5, "draws": 0, "losses": 5, "distinct_games": 3}
    even = {**RESULT, "pairs": [pair], "distinct_games": 3}
    assert re.sub("<.*?>", "", tournament_verdict(even, 1)) == (
        "40 games in 1 s. a and b are not clearly apart: 50% over 10 games, 95% interval 13% to 87%. "
        "Only 3 of the games differ: a game played again says nothing new and narrows no interval."
    )


def test_a_return_that_is_not_clearly_higher_is_not_called_higher() -> None:
    def row(policy: str, mean: float, half: float) -> dict[str, Any]:
        return {"policy": policy, "return_mean": mean, "return_ci95": [mean - half, mean + half], "wins": None}

    base = {"episodes": 10, "cut": 0, "distinct_games": 10, "agents": {"x": row("a", 2, 1), "y": row("b", 1, 1)}}
    close = evaluation_verdict({**base, "policies": {"a": row("a", 2, 1), "b": row("b", 1, 1)}}, 1)
    assert "It is not clearly ahead of b" in close
    apart = evaluation_verdict({**base, "policies": {"a": row("a", 9, 1), "b": row("b", 1, 1)}}, 1)
    assert "The others return clearly less" in apart


def test_episodes_are_chosen_by_what_happened() -> None:
    episodes: list[tuple[int, dict[str, Any]]] = [
        (0, {"winner": "a", "returns": {"a": 1.0}, "length": 5}),
        (1, {"winner": None, "returns": {"a": 0.0}, "length": 9}),
        (2, {"winner": "b", "returns": {"a": -1.0}, "length": 7}),
    ]
    order = {which: [index for index, _ in chosen_episodes(episodes, "a", which)]
             for which in ("all", "won", "drawn", "lost", "best", "worst", "longest")}  # fmt: skip
    assert order == {
        "all": [0, 1, 2], "won": [0], "drawn": [1], "lost": [2],
        "best": [0, 1, 2], "worst": [2, 1, 0], "longest": [1, 2, 0],
    }  # fmt: skip


def test_a_histogram_counts_every_value_once() -> None:
    counts = [int(count) for count in re.findall(r": (\d+) episodes", histogram([0.0, 0.1, 1.0, 1.0], bins=4))]
    assert counts == [2, 0, 0, 2]
    assert re.findall(r": (\d+) episodes", histogram([3.0, 3.0])) == ["2"]


def test_what_policies_report_is_a_table_and_long_references_are_short() -> None:
    number = {"count": 8, "total": 2.0, "episode_mean": 0.5, "episode_ci95": [0.0, 1.0]}
    reports = {
        "illegal": {"share": True, "mean": 0.25, "ci95": [0.07, 0.59], **number},
        "<cost>": {"share": False, "mean": 0.001, "ci95": [None, None], **number},
    }
    table = reports_table({"random": {}, "llm:m<1>,url=http://127.0.0.1:1/v1": reports})
    words = re.sub(r"\s+", " ", re.sub("<.*?>", " ", table))
    assert words.strip() == (
        "Reported Mean Per episode Total llm:m&lt;1&gt; illegal 25 (7 to 59) % 0.5 2 of 8 &lt;cost&gt; 0.001 0.5 2"
    )
    assert 'title="llm:m&lt;1&gt;,url=http://127.0.0.1:1/v1"' in table
    assert reports_table({"random": {}}) == ""


def test_the_table_of_a_tournament_as_csv() -> None:
    lines = tournament_csv(RESULT).splitlines()
    assert lines[0] == "first,second,games,wins,draws,losses,score_mean,score_low,score_high"
    assert lines[1] == "a,b,20,15,5,0,0.875,0.1,0.9"


def test_the_same_question_in_a_terminal() -> None:
    asked = {"environment": {"family": "classic", "env_id": "chess_v6"}, "policies": ["random", "uci:/a b"], "games": 3}
    assert examine_command("tournament", asked).replace(" \\\n ", "") == (
        "mosaic tournament classic/chess_v6 random 'uci:/a b' --games 3"
    )
    asked = {"environment": {"env_id": "gym/CartPole-v1"}, "agents": {"*": "random"}, "episodes": 5, "seed": 2}
    assert examine_command("evaluate", asked).replace(" \\\n ", "") == (
        "mosaic evaluate gym/CartPole-v1 --agent '*=random' --episodes 5 --seed 2"
    )
    asked["environment"] = {"family": "python", "env_id": "my_envs:Corridor"}
    assert examine_command("evaluate", asked).startswith("mosaic evaluate python:my_envs:Corridor ")


def test_what_cannot_be_asked_is_said_at_once(api: TestClient) -> None:
    def refused(path: str, **body: Any) -> tuple[int, str]:
        answer = api.post(path, json={"environment": TICTACTOE, **body})
        return answer.status_code, answer.json()["error"]

    assert refused("/evaluate", agents={"*": "human"}) == (
        400,
        "'human' waits for a person, and evaluations are played by policies alone. Play with it instead: open /play.",
    )
    status, text = refused("/evaluate", agents={"*": "python:os:getcwd"})
    assert status == 403
    assert "mosaic serve --allow-programs" in text
    status, text = refused("/tournament", policies=["random", "minimaxx"])
    assert status in (400, 404)
    assert "Did you mean 'minimax'?" in text
    status, text = refused("/tournament", policies=["random", "minimax"], games=0)
    assert (status, text) == (400, "'games' cannot be 0: it should be at least 1.")
    status, text = refused("/tournament")
    assert (status, text.partition(".")[0]) == (
        400,
        "The setting 'policies' is missing: Two or more different policies",
    )
    status, text = refused("/evaluate", agents={"*": "random"}, episode=3)
    assert "Did you mean 'episodes'?" in text
    assert api.get("/evaluate/nothing").status_code == 404
    assert api.get("/evaluate").json() == []


def test_too_many_games_are_refused() -> None:
    many = TournamentRequest.model_validate(
        {"environment": TICTACTOE, "policies": [f"minimax:depth={depth}" for depth in range(1, 11)], "games": 1000}
    )
    with pytest.raises(Exception, match="These are 90,000 games, and at most 20,000 are played"):
        check_request(many)


def test_a_tournament_through_the_api(api: TestClient, tmp_path: Path) -> None:
    asked = {"environment": TICTACTOE, "policies": ["random", "minimax:depth=2"], "games": 3, "seed": 5}
    begun = api.post("/tournament", json=asked)
    assert begun.status_code == 201, begun.text
    path = f"/tournament/{begun.json()['examination_id']}"
    row = finished(api, path)
    assert (row["state"], row["error"], row["done"], row["total"]) == ("finished", "", 6, 6)
    direct = tournament("classic/tictactoe_v3", ["random", "minimax:depth=2"], games=3, seed=5).to_json()
    assert {key: row["result"][key] for key in direct} == direct
    games = row["result"]["episode_results"]
    assert [(game["first"], game["number"]) for game in games] == [
        (policy, number) for policy in ("random", "minimax:depth=2") for number in range(3)
    ]
    for index, game in enumerate(games):  # the record behind each number is that very game
        episode = episode_from_json(api.get(f"{path}/episodes/{index}").json())
        assert (episode.seed, episode.env_steps) == (game["seed"], game["length"])
        assert list(episode.policies.values()) == [game["first"], game["second"]]
    assert "was not recorded" in api.get(f"{path}/episodes/6").json()["error"]
    opened = api.post(f"{path}/episodes/0/replay")
    assert opened.status_code == 201
    assert api.get(f"/replays/{opened.json()['replay_id']}").json()["env_steps"] == games[0]["length"]
    assert EvaluationJobs(tmp_path).row(row["examination_id"]).result == row["result"]  # after a restart, too
    listed = api.get("/tournament").json()
    assert [(each["examination_id"], each["result"]) for each in listed] == [(row["examination_id"], None)]
    assert api.get("/evaluate").json() == []


def test_a_resumed_tournament_records_games_under_their_place_in_the_schedule(tmp_path: Path) -> None:
    store, policies = tmp_path / "games.jsonl", ["random", "minimax:depth=1"]
    whole = tournament("classic/tictactoe_v3", policies, games=2, store=store)
    store.write_text("".join(store.read_text().splitlines(keepends=True)[:3]))  # its header and two games
    again = tournament("classic/tictactoe_v3", policies, games=2, store=store, record_dir=tmp_path / "records")
    assert again.results == whole.results
    recorded = sorted(path.name for path in (tmp_path / "records").iterdir())
    assert recorded == ["000002.json", "000003.json"]


def test_a_failure_and_a_stop(api: TestClient) -> None:
    cannot = api.post(
        "/tournament", json={"environment": {"env_id": "gym/CartPole-v1"}, "policies": ["random", "minimax"]}
    )
    row = finished(api, f"/tournament/{cannot.json()['examination_id']}")
    assert row["state"] == "failed"
    assert row["error"].startswith("gym/CartPole-v1 cannot hold a tournament")
    asked = {"environment": TICTACTOE, "agents": {"*": "random"}, "episodes": 10_000}
    long = api.post("/evaluate", json=asked).json()
    stopped = api.post(f"/evaluate/{long['examination_id']}/stop").json()
    assert (stopped["state"], stopped["result"]) == ("stopped", None)
    left = [process for process in psutil.Process().children(recursive=True)
            if long["examination_id"] in " ".join(process.cmdline())]  # fmt: skip
    assert left == []


def test_patterns_and_steps_of_an_evaluation_are_what_was_asked() -> None:
    asked = EvaluationRequest.model_validate({"environment": TICTACTOE, "agents": {"player_*": "random"}})
    assert (asked.total, asked.references) == (100, {"player_*": "random"})


@pytest.mark.slow
def test_a_tournament_in_the_browser(tab: Tab) -> None:
    page = tab.open("/evaluate")
    expect(page.locator(".e-entrant")).to_have_count(2)
    page.get_by_role("button", name="Add a policy").click()
    expect(page.locator(".e-entrant")).to_have_count(3)
    page.get_by_label("Policy 3", exact=True).click()  # other tests may have left runs, which would be offered first
    page.get_by_role("option", name="random", exact=True).click()
    expect(page.locator(".e-entrant").last).to_contain_text("random")
    page.get_by_label("Games").fill("4")
    expect(page.get_by_text("8 games a pair, 24 in all")).to_be_visible()
    page.get_by_role("button", name="Run", exact=True).click()
    page.wait_for_url(re.compile("examination="))
    expect(page.locator(".e-verdict")).to_contain_text("24 games", timeout=PATIENCE_MS)
    expect(page.locator(".e-matrix .c")).to_have_count(6, timeout=PATIENCE_MS)
    expect(page.locator(".m-table").first.locator("tbody tr")).to_have_count(3)
    last = page.locator(".e-matrix .c").last  # of the weakest against the second
    said = last.get_attribute("aria-label") or ""
    last.click()
    expect(last).to_have_attribute("aria-pressed", "true")
    expect(page.locator(".e-note")).to_contain_text(said.rpartition(": ")[2].partition(",")[0])
    page.reload()
    expect(page.locator(".e-matrix .c")).to_have_count(6, timeout=PATIENCE_MS)
    page.get_by_label("Watch episode 0", exact=True).click()
    page.wait_for_url(re.compile(r"/replay\?replay="))
    tab.check()


@pytest.mark.slow
@pytest.mark.chosen
def test_long_names_leave_room_for_every_column(tab: Tab) -> None:
    row = {"return_mean": -0.55, "return_ci95": [-0.7, -0.39], "wins": 15, "draws": 15, "losses": 70}
    policy = "run:20260131-120000-tictactoe-abcd"
    result = {"policies": {policy: {**row, "agents": ["player_1"]}}, "agents": {"player_1": {**row, "policy": policy}}}
    page = tab.open("/evaluate")
    for what in ("agents", "policies"):
        overflow = page.evaluate(
            """(table) => {
              const box = Object.assign(document.createElement("div"), { innerHTML: table });
              box.style.width = "636px";
              document.querySelector(".m-page").append(box);
              return box.scrollWidth - box.clientWidth;
            }""",
            agents_table(result, what),
        )
        assert overflow <= 0
    tab.check()


@pytest.mark.slow
def test_a_trained_policy_is_evaluated(tab: Tab, server: WebServer) -> None:
    run_id = server.submit(
        {
            "environment": {"env_id": "mosaic/gridworld"},
            "training": {"worker": "tabular", "total_timesteps": 50_000},
            "name": "walker",
        }
    )
    page = tab.open(f"/runs/{run_id}")
    expect(page.locator(".m-crumb .m-pill")).to_have_text("finished", timeout=PATIENCE_MS)
    page.get_by_role("link", name="Evaluate").last.click()
    expect(page.locator(".e-entrant")).to_contain_text(f"walker · {run_id}")
    page.get_by_label("Games").fill("10")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".e-verdict")).to_contain_text("10 episodes", timeout=PATIENCE_MS)
    expect(page.locator(".x-hist")).to_be_visible()
    page.get_by_role("button", name="Worst").click()
    expect(page.locator("tbody tr", has_text="Watch")).to_have_count(10)
    tab.check()


@pytest.mark.slow
def test_the_evaluate_page_is_accessible_and_fits_a_phone(tab: Tab, phone: Tab, server: WebServer) -> None:
    asked = {"environment": TICTACTOE, "policies": ["random", "minimax", "minimax:depth=1"], "games": 2}
    name = server.api.post("/tournament", json=asked).json()["examination_id"]
    tab.page.emulate_media(reduced_motion="reduce")  # half-way through a change of colour nothing has its contrast
    for theme in ("dark", "light"):
        page = tab.open(f"/evaluate?examination={name}")
        expect(page.locator(".e-matrix .c")).to_have_count(6, timeout=PATIENCE_MS)
        if theme == "light":
            page.get_by_label("Light or dark").click()
        page.wait_for_selector(f"body.body--{theme}")
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
    page = phone.open(f"/evaluate?examination={name}")
    expect(page.locator(".e-matrix .c")).to_have_count(6, timeout=PATIENCE_MS)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    tab.check()
    phone.check()
