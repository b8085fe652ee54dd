"""What the Train page says before anything starts, and the fields around the one button."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from mosaic.config.loading import parse_run_config
from mosaic.config.run import RunConfig
from mosaic.runs.trainer import Trainer
from mosaic.server.app import create_app
from mosaic.store.state import State
from mosaic.store.views import AttemptRow, RunDetails
from mosaic.ui.web.data.facts import Facts
from mosaic.ui.web.data.run_plan import SpeedEstimate, find_pace, pace_of, plan_html, time_words
from tests.ui.web.web_kit import Tab, WebServer

FOCUSED = "document.activeElement"
_COMPILED_S = 240.0  # the first run of a machine compiles


def config(**training: object) -> RunConfig:
    return parse_run_config(
        {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "toy", "algorithm": "walk", **training}}
    )


def table(**training: object) -> RunConfig:
    how = {"worker": "tabular", "algorithm": "q_learning", "params": {"table_engine": "list"}}
    return parse_run_config({"environment": {"env_id": "gym/FrozenLake-v1"}, "training": {**how, **training}})


def run_of(*attempts: tuple[float, float | None], env_steps: int = 1000) -> RunDetails:
    rows = tuple(AttemptRow(number=n, started=start, ended=end) for n, (start, end) in enumerate(attempts, 1))
    return RunDetails(
        run_id="r", state=State.FINISHED, queued_at=0.0, attempts=rows, config={}, env_steps=env_steps,
        last_metric=None, last_seq=1, checkpoints=(), exit=0, reason="",
    )  # fmt: skip


def test_a_former_run_says_how_long_it_will_take() -> None:
    pace = pace_of("before", run_of((0.0, 8.0), (100.0, 104.0)), {"env_steps_per_s": 100.0}, now=200.0)
    assert pace == SpeedEstimate("before", 100.0, 2.0)  # 12 s in two attempts, 10 of them for the steps
    assert pace.takes_s(6000) == 62.0
    assert time_words(config(total_timesteps=6000), pace, 1) == "about 1 min 02 s at 100 env steps/s, as before"
    assert time_words(config(total_timesteps=6000), pace, 3).startswith("about 1 min 02 s each")
    assert time_words(config(episodes=10), pace, 1) == "100 env steps/s, as before"


def test_nothing_is_made_up_where_nobody_knows() -> None:
    assert pace_of("before", run_of((0.0, 8.0)), {}, now=9.0) is None
    assert pace_of("before", run_of((0.0, 8.0), env_steps=0), {"env_steps_per_s": 5.0}, now=9.0) is None
    assert "no comparable run has ended here yet" in time_words(config(total_timesteps=10), None, 1)


def test_only_a_run_of_the_same_kind_says_how_long_it_will_take(tmp_path: Path) -> None:
    context = create_app(tmp_path).state.context
    asked = table(total_timesteps=300)
    Trainer(tmp_path).submit(asked).wait(60)
    pace = find_pace(asked, Facts(context))
    assert pace is not None
    assert find_pace(table(total_timesteps=9_000, stop_reward=5.0), Facts(context)) == pace  # only how long differs
    for section, values in {
        "environment": {"wrappers": ["time_limit:max_steps=9"]},
        "resources": {"num_env_runners": 7},
        "agents": {"agent_0": "random"},
    }.items():
        document = asked.model_dump(mode="json")
        document[section] = {**document[section], **values}
        assert find_pace(RunConfig.model_validate(document), Facts(context)) is None, section


def test_a_preset_says_what_backs_it() -> None:
    tuned = parse_run_config(
        {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "native", "algorithm": "ppo"}}
    )
    assert "tuned for CartPole" in plan_html(tuned, None, 1)
    assert "seeds reach 475" in plan_html(tuned, None, 1)
    assert "tuned" not in plan_html(config(total_timesteps=10), None, 1)


@pytest.mark.parametrize(
    "changed",
    [
        {"policy_configuration": "independent"},
        {"agents": {"player_2": "minimax"}},
        {"training": {"worker": "native", "algorithm": "ppo", "total_timesteps": 1000}},
        {"training": {"worker": "native", "algorithm": "ppo", "params": {"learning_rate": 0.9}}},
        {"environment": {"env_id": "classic/tictactoe_v3", "wrappers": ["time_limit:max_steps=9"]}},
    ],
    ids=lambda changed: "-".join(changed),
)
def test_a_preset_backs_nothing_but_what_was_tried(changed: dict[str, Any]) -> None:
    asked = {
        "environment": {"env_id": "classic/tictactoe_v3"},
        "training": {"worker": "native", "algorithm": "ppo"},
        "policy_configuration": "self_play",
    }
    assert "8 of 8 seeds" in plan_html(parse_run_config(asked), None, 1)
    shown = plan_html(parse_run_config({**asked, **changed}), None, 1)
    assert "tuned for Tictactoe" in shown
    assert "8 of 8 seeds" not in shown


@pytest.mark.slow
def test_seed_tags_and_name_reach_the_run(tab: Tab, server: WebServer) -> None:
    page = tab.open("/train?env=gym/CartPole-v1")
    command = page.locator(".m-cmd code")
    expect(command).to_contain_text("--worker native")
    seed = page.get_by_label("Seed", exact=True)
    seed.fill("-3")
    expect(page.locator(".t-problem")).to_contain_text("Seed: It should be 0 to 2,147,483,647.")
    expect(page.get_by_role("button", name="Start training")).to_be_disabled()
    seed.fill("7")
    page.get_by_label("Tags of the run").fill("one, two words, one")
    page.get_by_label("Name of the run").fill("named here")
    page.get_by_label("Env steps", exact=True).fill("3000")
    expect(command).to_contain_text("--seed 7")
    expect(command).to_contain_text("--tag 'two words'")
    expect(command).to_contain_text("--steps 3000")
    page.get_by_role("button", name="Start training").click()
    page.wait_for_url(re.compile(r"/runs/.+"))
    asked = server.api.get("/runs/named here").json()["config"]
    assert (asked["seed"], asked["tags"], asked["name"]) == (7, ["one", "two words"], "named here")
    assert asked["training"]["total_timesteps"] == 3000
    Trainer(server.home).run("named here").wait(_COMPILED_S)
    page = tab.open("/runs")  # pages may be a second late
    expect(page.get_by_role("row", name="named here")).to_contain_text("finished")
    page = tab.open("/train?env=gym/CartPole-v1")
    expect(page.locator(".m-kv")).to_contain_text("env steps/s, as named here")
    tab.check()


@pytest.mark.slow
def test_a_run_is_started_with_the_keyboard_alone(tab: Tab, server: WebServer) -> None:
    page = tab.open("/")
    page.keyboard.press("Control+k")
    page.wait_for_function(f"{FOCUSED}.getAttribute('aria-label') === 'Search pages, runs and environments'")
    page.keyboard.type("train")
    page.keyboard.press("Enter")
    expect(page.locator(".t-agent")).to_have_count(2)
    tab_to(page, f"{FOCUSED}.classList.contains('t-env')")
    focused_env = f"{FOCUSED}.title.split(':')[0]"  # facts about the env follow once they are known
    assert page.evaluate(focused_env) == "classic/tictactoe_v3"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focused_env) == "gym/CartPole-v1"
    page.keyboard.press("Enter")
    expect(page.locator(".m-cmd code")).to_contain_text("mosaic train gym/CartPole-v1")
    expect(page.locator(".t-agent")).to_have_count(1)
    tab_to(page, f"{FOCUSED}.getAttribute('aria-label') === 'Env steps'")
    page.keyboard.type("2000")
    expect(page.locator(".m-cmd code")).to_contain_text("--steps 2000")
    expect(page.locator(".m-kv")).to_contain_text("2 k env steps")
    page.keyboard.press("Control+Enter")
    page.wait_for_url(re.compile(r"/runs/.+"))
    assert Trainer(server.home).run("latest").config.training.total_timesteps == 2000
    tab.check()


def tab_to(page: Page, there: str) -> None:
    """With the Tab key, as somebody without a mouse would."""
    for _ in range(150):
        page.keyboard.press("Tab")
        if page.evaluate(there):
            return
    raise AssertionError(f"Tab never leads to {there}")
