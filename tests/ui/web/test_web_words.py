"""Numbers, times, names and curves as the pages say them."""

from __future__ import annotations

from collections.abc import Coroutine
from pathlib import Path
from typing import Any, cast

import pytest

from mosaic.core.errors import UnknownNameError, unknown
from mosaic.store.state import State
from mosaic.store.views import RunDetails
from mosaic.ui.web.components.theme import ago, count, duration, env_picture, env_title, number, spark
from mosaic.ui.web.data.chart_groups import families, policies_of
from mosaic.ui.web.data.progress import time_shares
from mosaic.ui.web.pages.run.page import update_parts, verbs


def test_numbers_are_short_and_have_a_true_minus() -> None:
    assert (number(-18.7), number(None), number(1234.5, 0)) == ("\u221218.70", "—", "1,234")
    assert (count(999), count(3_420_000), count(48_210), count(None)) == ("999", "3.42\u202fM", "48.2\u202fk", "—")


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0 s"), (59, "59 s"), (125, "2 min 05 s"), (3_660, "1 h 01 min"), (180_000, "2 d 2 h")]
)
def test_a_duration_has_two_units_at_most(seconds: float, said: str) -> None:
    assert duration(seconds) == said


def test_how_long_ago() -> None:
    assert [ago(100.0 - past, 100.0) for past in (3, 90, 7200, 200_000)] == [
        "3 s ago",
        "1 min ago",
        "2 h ago",
        "2 d ago",
    ]


def test_an_environment_is_called_by_its_name() -> None:
    assert (env_title("gym/CartPole-v1"), env_title("classic/connect_four_v3")) == ("CartPole", "Connect Four")
    assert (env_title("python:/home/me/mazes.py:Maze"), env_title("python:mazes:make_maze")) == ("Maze", "make_maze")
    assert env_picture("classic/connect_four_v3") == "connect_four"
    assert env_picture("python:maze:Maze") is None


def test_a_sparkline_of_one_point_is_a_dash() -> None:
    assert "—" in spark([1.0])
    assert spark([1.0, None, 3.0]).count("<path") == 2


def test_a_measure_of_several_policies_is_one_chart() -> None:
    names = ["env_steps", "episode_reward_mean", "policies/left/reward_mean", "policies/right/reward_mean"]
    found = families([*names, "policies/left/learner/value_loss", "ended/train_s"])
    assert [family.title for family in found] == ["Return", "Value loss"]
    assert found[0].curves == {
        "all": "episode_reward_mean",
        "left": "policies/left/reward_mean",
        "right": "policies/right/reward_mean",
    }
    assert policies_of(found) == ["all", "left", "right"]


def test_metrics_of_users_come_before_those_of_the_learner_and_of_mosaic() -> None:
    learner = ["policies/left/learner/approx_kl", "policies/left/learner/value_loss"]
    mosaics = ["env_steps_per_s", "custom_metrics/interval/episodes", "custom_metrics/num_healthy_workers"]
    own = ["custom_metrics/zeal", "policies/left/custom_metrics/coins"]
    found = [family.title for family in families([*learner, *mosaics, *own, "episode_reward_mean"])]
    assert found == [
        "Return",
        "Coins",
        "Zeal",
        "Approx kl",
        "Env steps per second",
        "Value loss",
        "Interval · episodes",
        "Num healthy workers",
    ]


def test_names_of_metrics_may_have_any_characters() -> None:
    names = [f"custom_metrics/{name}" for name in ("x5²", "x10", "x9", "名前", "win % (all)")]
    assert [family.title for family in families(names)] == ["Win % (all)", "X5²", "X9", "X10", "名前"]


def test_the_only_policy_is_not_drawn_twice() -> None:
    found = families(["episode_reward_mean", "policies/table/reward_mean", "policies/table/rating"])
    assert [(family.title, family.curves) for family in found] == [
        ("Return", {"all": "episode_reward_mean"}),
        ("Rating", {"table": "policies/table/rating"}),
    ]


def test_shares_of_time_add_up() -> None:
    assert time_shares({"time_split": {"env": 1.0, "inference": 1.0, "learning": 2.0}}) == {
        "env": 25.0,
        "inference": 25.0,
        "learning": 50.0,
    }
    assert time_shares({"time_split": {"env": 3.0, "learning": 1.0}}) == {"env": 75.0, "learning": 25.0}
    assert time_shares({}) == {}


def test_what_can_be_done_depends_on_the_state() -> None:
    assert verbs(State.RUNNING) == ("checkpoint", "pause", "stop")
    assert verbs(State.PAUSED) == ("resume", "stop")
    assert verbs(State.QUEUED) == ("cancel",)
    assert verbs(State.FAILED) == ("resume",)
    assert verbs(State.FINISHED) == ()


class _Gone:
    async def update(self, details: RunDetails) -> None:
        raise unknown("run", "mine", [])


def _result(coroutine: Coroutine[Any, Any, bool]) -> bool:
    """Return what a coroutine returns that waits for nothing: other tests of this process may leave a running loop."""
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    return bool(ended.value.value)


def test_a_run_may_be_deleted_while_its_page_is_updated(tmp_path: Path) -> None:
    details = cast(RunDetails, None)  # no part reads it
    assert _result(update_parts([], details, tmp_path))
    assert not _result(update_parts([_Gone()], details, tmp_path / "deleted"))
    with pytest.raises(UnknownNameError):
        update_parts([_Gone()], details, tmp_path).send(None)
