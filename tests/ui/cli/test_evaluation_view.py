"""The last evaluation of a run, as `mosaic runs show` and the run page show it."""

import json

from mosaic.store.index.summary import last_evaluation
from mosaic.ui.cli.evaluation_view import evaluation_rows, evaluation_title, own_metrics
from mosaic.ui.web.data.chart_groups import families

RESULTS = {"episodes": 3, "reward_mean": 0.25, "wins": 2, "draws": 0, "losses": 1}
EVENT = {
    "kind": "evaluation",
    "env_steps": 2000,
    "opponent": "league",
    "agents": {
        "red": {"policy": "learner", "others": {"blue": "league", "green": "league"}, **RESULTS},
        "blue": {"policy": "league", "others": {"red": "learner"}, "episodes": 0, "reward_mean": None},
    },
    "snapshots": [{"snapshot": "learner@500", **RESULTS}],
}
OLD = {"kind": "evaluation", "env_steps": 10, "episodes": 5, "episode_reward_mean": 21.5, "opponent": "random"}


def test_every_agent_and_snapshot_has_a_row():
    assert evaluation_title(EVENT) == "Evaluation at 2,000 env steps, against league"
    assert evaluation_rows(EVENT) == [
        ["red", "learner", "league (blue, green)", "3", "0.25", "2/0/1"],
        ["blue", "league", "learner (red)", "0", "–", "–"],
        ["", "", "learner@500", "3", "0.25", "2/0/1"],
    ]


def test_events_of_earlier_versions_are_shown_too():
    assert evaluation_rows(OLD) == [["–", "–", "random", "5", "21.5", "–"]]
    assert evaluation_title({"env_steps": None}) == "Evaluation at 0 env steps"


def test_the_last_evaluation_is_read_with_all_its_opponents(tmp_path):
    def written(*events):
        path = tmp_path / "metrics.jsonl"
        path.write_bytes(b"".join(json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in events))
        return last_evaluation(path)

    minimax = {**OLD, "opponent": "minimax"}
    iteration = {"kind": "iteration", "env_steps": 20, "note": "evaluation"}
    assert last_evaluation(tmp_path / "missing") == ()
    assert written(iteration) == ()
    assert written({**OLD, "env_steps": 5}, OLD, minimax, iteration) == (OLD, minimax)
    resumed = {"kind": "resumed", "from_env_steps": 7}
    assert written({**OLD, "env_steps": 5}, OLD, resumed, iteration) == ({**OLD, "env_steps": 5},)


def test_charts_of_evaluations_have_a_curve_for_each_agent_policy_and_opponent():
    prefix = "evaluation/"
    names = [
        "evaluation/episode_reward_mean",
        *(f"{prefix}policies/{name}/{what}" for name in ("learner", "league") for what in ("reward_mean", "wins")),
        *(f"{prefix}agents/{name}/reward_mean" for name in ("red", "blue")),
        "evaluation/against/run:x/learner/win_rate",
    ]
    found = {family.title: set(family.curves) for family in families(names)}
    assert found == {
        "Return in evaluations": {"all", "learner", "league"},
        "Return of agents in evaluations": {"red", "blue"},
        "Win rate in evaluations by opponent": {"run:x/learner"},
    }


def test_several_opponents_have_curves_by_opponent_only():
    """Their events are at the same steps, so a curve without an opponent's name would jump between them."""
    names = [
        "episode_reward_mean",
        "evaluation/episode_reward_mean",
        "evaluation/win_rate",
        "evaluation/policies/learner/reward_mean",
        "evaluation/agents/red/reward_mean",
        *(f"evaluation/against/{name}/reward_mean" for name in ("random", "run:x/learner")),
    ]
    found = [(family.title, set(family.curves)) for family in families(names)]
    assert found == [("Return", {"all"}), ("Return in evaluations by opponent", {"random", "run:x/learner"})]


def test_own_metrics_are_listed_by_policy():
    event = {"custom_metrics": {"shoes": 42}, "policies": {"dog": {"custom_metrics": {"bites": 0.25}}, "cat": {}}}
    assert own_metrics(event) == [["–", "shoes", "42"], ["dog", "bites", "0.25"]]
    assert own_metrics({}) == []
