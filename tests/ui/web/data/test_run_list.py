"""The list of runs: filters, order, groups and its address."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mosaic.store.index.summary import RunSummary
from mosaic.store.state import State
from mosaic.ui.web.data.run_list import RunListView, grouped, progress_bar

ROW = RunSummary(
    run_id="r1", name="walk", tags=("a",), group="", project="", note="", hidden=False, state=State.FINISHED,
    env="gym/CartPole-v1", worker="native", algorithm="ppo", env_steps=100, episode_reward_mean=3.0, queued_at=1.0,
    started=2.0, ended=3.0, seed=0, imported=False, target_steps=200, measure="episode_reward_mean", score=3.0,
)  # fmt: skip


def test_the_address_holds_every_choice() -> None:
    query = {"q": "cart pole", "tag": "a,b", "state": "live", "group": "config", "sort": "-score", "compare": "r1,r2"}
    view = RunListView.of(query)
    assert view.address() == "/runs?state=live&q=cart+pole&tag=a,b&group=config&sort=-score&compare=r1,r2"
    assert (view.sort, view.descending, view.ticked) == ("score", True, ["r1", "r2"])
    assert RunListView.of({"state": "nonsense", "sort": "nonsense", "group": "nonsense"}).address() == "/runs"


def test_hidden_runs_are_behind_their_own_filter() -> None:
    hidden = replace(ROW, hidden=True)
    assert [row.hidden for row in (ROW, hidden) if RunListView().wants(row, frozenset())] == [False]
    assert [row.hidden for row in (ROW, hidden) if RunListView(state="hidden").wants(row, frozenset())] == [True]


def test_a_note_is_found() -> None:
    assert RunListView(text="too high").wants(replace(ROW, note="Learning rate too high"), frozenset())


def test_rows_without_a_value_are_last_in_both_directions() -> None:
    rows = [replace(ROW, run_id=name, score=score) for name, score in (("a", 1.0), ("b", None), ("c", 5.0))]
    view = RunListView()
    orders = []
    for _ in range(3):
        view.flip("score")
        orders.append([row.run_id for row in view.in_order(rows)])
    assert orders == [["c", "a", "b"], ["a", "c", "b"], ["a", "b", "c"]]


def test_numbers_in_names_are_sorted_by_value() -> None:
    rows = [replace(ROW, run_id=name, name=name) for name in ("walk-10", "walk-9", "Walk-2", "7")]
    assert [row.name for row in RunListView(sort="name").in_order(rows)] == ["Walk-2", "walk-9", "walk-10", "7"]


def test_configurations_are_named_by_what_differs() -> None:
    configs = {"r1": {"training": {"lr": 0.1}}, "r2": {"training": {"lr": 0.5}}, "r3": {"training": {"lr": 0.1}}}
    rows = [replace(ROW, run_id=name, score=score) for name, score in (("r1", 2.0), ("r2", 9.0), ("r3", 4.0))]
    found = grouped(rows, "config", lambda row: (str(configs[row.run_id]), configs[row.run_id]))
    assert [(group.title, group.facts) for group in found] == [
        ("CartPole · native ppo · lr 0.1", "2 runs · best 4.00 · mean 3.00"),
        ("CartPole · native ppo · lr 0.5", "1 run · best 9.00"),
    ]


def test_scores_of_different_envs_have_no_mean() -> None:
    rows = [ROW, replace(ROW, env="gym/Acrobot-v1")]
    [group] = grouped(rows, "project", lambda row: ("", {}))
    assert (group.title, group.facts) == ("In no project", "2 runs")


@pytest.mark.parametrize(
    ("state", "place", "kind", "words"),
    [
        (State.QUEUED, 1, "queued", "next in the queue"),
        (State.QUEUED, 3, "queued", "2 before it"),
        (State.PAUSED, None, "paused", "paused at 100"),
        (State.STOPPED, None, "stopped", "100 of 200"),
        (State.FAILED, None, "failed", "100 of 200"),
        (State.FINISHED, None, "finished", "100"),
    ],
)
def test_a_bar_tells_states_apart(state: State, place: int | None, kind: str, words: str) -> None:
    bar = progress_bar(replace(ROW, state=state), None, place)
    assert f'class="m-bar {kind}"' in bar
    assert f">{words}<" in bar
