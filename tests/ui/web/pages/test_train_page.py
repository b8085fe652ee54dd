"""The Train page: forms from schemas, the agent table, the equal command, and a run that is started in the browser."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import expect
from typer.testing import CliRunner

from mosaic.config.loading import dump_run_config, parse_run_config
from mosaic.config.sections import ResourcesConfig
from mosaic.envs.catalog import make_env
from mosaic.ui.cli.main import app as cli
from mosaic.ui.web.data.draft import Draft, choices, group_documents, rows_of, rules_of, train_command, workers
from mosaic.ui.web.data.drawn_pictures import PictureCache, env_pixels
from mosaic.ui.web.data.env_info import look_at, usual_algorithms
from mosaic.ui.web.data.schema_fields import as_text, complaints, fields_of, from_text
from mosaic.workers.registry import load_worker
from mosaic.workers.resolution import resolve
from mosaic.workers.toy import ToyOptions
from tests.extras import skip_if_lacking
from tests.ui.web.web_kit import PATIENCE_MS, Tab, WebServer

CARTPOLE = {"environment": {"env_id": "gym/CartPole-v1"}}
DOCUMENTS: list[dict[str, Any]] = [
    CARTPOLE,
    {
        "environment": {"env_id": "gym/CartPole-v1", "num_envs": 4, "wrappers": ["time_limit:max_steps=50"]},
        "training": {
            "worker": "native",
            "total_timesteps": 500,
            "stop_reward": -1.5,
            "params": {"learning_rate": 1e-05},
        },
        "seed": 7,
        "name": "a name; with $odd 'signs'",
        "tags": ["one", "two words"],
        "resources": {"num_env_runners": 1, "runtime": "single", "max_wall_s": 60.5},
        "checkpoint": {"at_end": False},
        "telemetry": {"report_every_s": 0.5},
    },
    {
        "environment": {"env_id": "classic/tictactoe_v3"},
        "training": {"worker": "native", "algorithm": "ppo", "params": {"hidden": [32], "engine": "torch"}},
        "policy_configuration": "independent",
        "agents": {"player_1": "learner one", "player_2": "minimax:depth=2"},
        "evaluation": {"every_steps": 1000, "opponents": ["random", "minimax"]},
    },
    {
        "environment": {"env_id": "mosaic/gridworld", "options": {}},
        "training": {"worker": "tabular", "params": {"bins": [8, "8@-3..3"], "table": "dense"}},
    },
]


def words_of(command: str) -> list[str]:
    """As a shell reads it."""
    said = subprocess.run(["bash", "-c", f"printf '%s\\0' {command}"], check=True, capture_output=True, text=True)
    return said.stdout.split("\0")[:-1]


@pytest.mark.parametrize("document", DOCUMENTS, ids=["plain", "everything", "agents", "lists"])
def test_the_command_asks_for_the_same_run(document: dict[str, Any]) -> None:
    program, verb, *options = words_of(train_command(document))
    assert (program, verb) == ("mosaic", "train")
    said = CliRunner().invoke(cli, ["train", *options, "--dry-run", "--json"])
    skip_if_lacking(str(said.exception))
    assert said.exit_code == 0, said.output
    assert json.loads(said.stdout) == dump_run_config(resolve(parse_run_config(document)).config)


def test_seeds_stand_in_the_command() -> None:
    assert words_of(train_command(CARTPOLE, 5)) == ["mosaic", "train", "gym/CartPole-v1", "--seeds", "5"]


_CHARACTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\\")  # lines are joined at backslashes
_NAMES = st.text(_CHARACTERS, min_size=1, max_size=8)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(_CHARACTERS, max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_NAMES, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@given(st.dictionaries(_NAMES, _VALUES, max_size=4))
def test_any_option_survives_the_command_line(params: dict[str, Any]) -> None:
    words = shlex.split(train_command({**CARTPOLE, "training": {"params": params}}).replace("\\\n", " "))
    settings = [word for before, word in pairwise(words) if before == "--set"]
    assert parse_run_config(CARTPOLE, settings).training.params == params


def test_a_draft_says_only_what_was_chosen() -> None:
    draft = Draft(env="gym/CartPole-v1")
    assert draft.document() == CARTPOLE
    draft.worker, draft.algorithm = "native", "ppo"
    draft.params["gamma"] = 0.9
    draft.sections["resources"]["num_env_runners"] = 4
    draft.suggest_steps(tuned=False)
    assert draft.document() == {
        **CARTPOLE,
        "training": {"worker": "native", "algorithm": "ppo", "params": {"gamma": 0.9}, "total_timesteps": 1_000_000},
        "resources": {"num_env_runners": 4},
    }


def test_a_group_of_seeds_differs_in_nothing_else() -> None:
    document = {**CARTPOLE, "training": {"worker": "toy"}, "name": "trio"}
    assert group_documents(document, 1) == ("", [document])
    group, members = group_documents(document, 3)
    assert group
    assert [member["name"] for member in members] == ["trio-1", "trio-2", "trio-3"]
    assert len({member["seed"] for member in members}) == 3
    assert len({json.dumps({**member, "seed": 0, "name": ""}) for member in members}) == 1


def test_every_option_of_every_worker_has_a_field_that_keeps_its_default() -> None:
    for name, info in workers().items():
        for algorithm in info.algorithms:
            model = load_worker(name).options(algorithm)
            for field in fields_of(model):
                assert field.help, (name, field.name)
                if field.widget == "text":
                    assert from_text(field, as_text(field.default)) == field.default, (name, field.name)
                elif field.widget == "choice":
                    assert field.default in (*field.choices, None), (name, field.name)
    assert set(workers()) >= {"native", "tabular"}


def test_every_worker_with_many_options_names_a_few_as_basic() -> None:
    for name, info in workers().items():
        for algorithm in info.algorithms:
            fields = fields_of(load_worker(name).options(algorithm))
            basic = [field.name for field in fields if field.group == "basic"]
            assert len(fields) < 10 or 5 <= len(basic) <= 12, (name, algorithm, basic)
    assert {field.group for field in fields_of(ResourcesConfig)} == {"basic"}  # a model without marks


def test_fields_say_their_bounds_units_and_choices() -> None:
    fields = {field.name: field for field in fields_of(ResourcesConfig)}
    assert (fields["num_env_runners"].bounds, fields["num_env_runners"].widget) == ("1 to 10,000", "text")
    assert (fields["num_env_runners"].nothing, from_text(fields["num_env_runners"], "")) == ("auto", None)
    assert (fields["max_wall_s"].unit, fields["max_wall_s"].title) == ("s", "Max wall")
    assert fields["runtime"].choices == ("single", "parallel", "ray", "mpi")
    assert fields["runtime"].nothing == "auto"
    hidden = next(field for field in fields_of(load_worker("native").options("ppo")) if field.name == "hidden")
    assert from_text(hidden, "64, 32") == from_text(hidden, "[64, 32]") == [64, 32]


def test_the_model_itself_judges_a_field() -> None:
    assert complaints(ToyOptions, {"noise": 1}) == {}
    assert complaints(ToyOptions, {"steps_per_iteration": 0}) == {"steps_per_iteration": "It should be at least 1."}
    assert complaints(ToyOptions, {"steps_per_iteration": "many"}) == {
        "steps_per_iteration": "It should be a whole number."
    }
    assert complaints(ToyOptions, {"nois": 1}) == {"": "There is no option 'nois'. Did you mean 'noise'?"}
    assert complaints(load_worker("native").options("ppo"), {"hidden": []}) == {
        "hidden": "It should have at least 1 item."
    }
    wrong = complaints(ResourcesConfig, {"runtime": "single", "ray_address": "auto"})
    assert wrong[""].startswith("'resources.ray_address' needs the runtime ray")


def test_rows_become_rules() -> None:
    default = {"red_0": "shared", "red_1": "shared"}
    rows = rows_of({}, default)
    assert rules_of(rows, default) == {}
    rows["red_1"] = "random"
    assert rules_of(rows, default) == {"red_1": "random"}
    rows["red_0"] = "learn:red_0"
    assert rules_of(rows, default) == {"red_0": "red_0", "red_1": "random"}


def test_a_row_offers_learning_sharing_and_what_is_there() -> None:
    default = {"a": "a", "b": "b"}
    offered = choices("a", rows_of({}, default), default, "independent", {"random": "random"})
    assert offered == {"learn:a": "learn · a alone", "learn:b": "learn · b, shared with b", "random": "random"}
    own = {"a": "learner", "b": "learner"}
    offered = choices("a", rows_of({}, own), own, "self_play", {})
    assert list(offered) == ["learn:learner", "self@-10000"]


def test_an_env_says_who_learns_what() -> None:
    look = look_at("classic/tictactoe_v3")
    assert (look.agents, look.words, look.holds_tournaments) == (
        ("player_1", "player_2"),
        "2 · turn-based · competitive",
        True,
    )
    assert look.full_words == "2 agents · turn-based · competitive"
    assert look.policies["self_play"] == {"player_1": "learner", "player_2": "learner"}
    assert look.policies["independent"] == {"player_1": "player_1", "player_2": "player_2"}
    assert usual_algorithms("classic/tictactoe_v3") == {"sb3": "maskable_ppo"}
    assert usual_algorithms("gym/CartPole-v1") == {"sb3": "ppo"}


def test_a_picture_is_drawn_once(tmp_path: Path) -> None:
    name = "mosaic/gridworld"
    first = PictureCache(tmp_path).find_now(name, lambda: env_pixels(name))
    assert first is not None
    assert first.startswith(b"\x89PNG")

    def refuse() -> None:
        raise RuntimeError("no display")

    assert PictureCache(tmp_path).find_now(name, refuse) == first
    assert PictureCache(tmp_path).find_now("mosaic/recall", refuse) is None


def test_a_picture_takes_many_steps_and_one_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    env = make_env("classic/tictactoe_v3")  # over within nine steps: the picture is from before the end
    env.reset(seed=1)
    empty, draw, drawn = env.render(), env.render, []
    monkeypatch.setattr(env, "render", lambda: drawn.append("once") or draw())
    monkeypatch.setattr("mosaic.ui.web.data.drawn_pictures.make_alone", lambda _: env)
    pixels = env_pixels("classic/tictactoe_v3")
    assert pixels is not None
    assert drawn == ["once"]
    assert (pixels != empty).any()


@pytest.mark.slow
def test_a_newcomer_trains_tic_tac_toe_from_the_form(tab: Tab, server: WebServer) -> None:
    page = tab.open("/train")
    expect(page.locator(".t-env[aria-pressed=true]")).to_contain_text("Tictactoe")
    expect(page.locator(".t-agent")).to_have_count(2, timeout=PATIENCE_MS)
    start = page.get_by_role("button", name="Start training")
    expect(page.locator(".m-kv")).to_contain_text("tabular · q_learning")
    start.click()
    page.wait_for_url(re.compile(r"/runs/.+"))
    run_id = page.url.rpartition("/")[2].partition("?")[0]
    expect(page.locator(".m-crumb .m-pill")).to_have_text("finished", timeout=PATIENCE_MS)
    config = server.api.get(f"/runs/{run_id}").json()["config"]
    assert config["environment"]["env_id"] == "tictactoe_v3"
    assert config["training"]["total_timesteps"] == 3_000_000
    tab.check()


@pytest.mark.slow
def test_a_wrong_value_is_refused_at_its_field_and_json_is_the_same_form(tab: Tab) -> None:
    page = tab.open("/train?env=gym/CartPole-v1")
    command = page.locator(".m-cmd code")
    expect(command).to_contain_text("--worker native", timeout=PATIENCE_MS)
    gamma = page.get_by_label("Gamma", exact=True)
    gamma.fill("7")
    expect(page.locator(".t-field .q-field__messages", has_text="It should be at most 1")).to_be_visible()
    expect(page.get_by_role("button", name="Start training")).to_be_disabled()
    expect(page.locator(".t-problem")).to_contain_text("gamma: It should be at most 1")
    gamma.fill("0.9")
    expect(page.locator(".t-field.changed")).to_have_count(1)
    expect(command).to_contain_text("--set training.params.gamma=0.9")
    expect(page.get_by_role("button", name="Start training")).to_be_enabled()

    page.get_by_role("group", name="View").get_by_role("button", name="JSON").click()
    source = page.get_by_label("Options as JSON")
    values = json.loads(source.input_value())
    assert values["gamma"] == 0.9
    source.fill(json.dumps({**values, "gamma": 5}))
    expect(page.locator(".q-field__messages", has_text="gamma: It should be at most 1")).to_be_visible()
    source.fill(json.dumps({**values, "gamma": 0.5, "hidden": [32]}))
    expect(command).to_contain_text("--set training.params.gamma=0.5")
    expect(command).to_contain_text("'training.params.hidden=[32]'")
    page.get_by_role("button", name="Form", exact=True).click()
    expect(gamma).to_have_value("0.5")
    page.get_by_label("Gamma: back to").click()
    expect(command).not_to_contain_text("gamma")
    tab.check()


@pytest.mark.slow
def test_presets_rewrite_the_rows_and_a_row_may_leave_them(tab: Tab) -> None:
    page = tab.open("/train?env=mpe/simple_tag_v3")
    expect(page.locator(".t-agent")).to_have_count(4, timeout=PATIENCE_MS)
    page.get_by_role("button", name="One per agent").click()
    expect(page.locator(".t-agent").first).to_contain_text("adversary_0 alone")
    command = page.locator(".m-cmd code")
    expect(command).to_contain_text("--policies independent")
    page.get_by_label("Policy of agent_0", exact=True).click()
    page.get_by_role("option", name="random", exact=True).click()
    expect(command).to_contain_text("--agent agent_0=random")
    expect(page.locator(".t-agent").last).to_contain_text("plays only")
    page.get_by_role("button", name="One for all").click()
    expect(command).not_to_contain_text("--agent")
    tab.check()


@pytest.mark.slow
def test_environments_are_found_by_words(tab: Tab) -> None:
    page = tab.open("/train")
    page.get_by_label(re.compile("Search .* environments")).fill("lake 8x8")
    cards = page.locator(".t-env:visible")
    expect(cards).to_have_count(1)
    cards.first.click()
    expect(page.locator(".m-cmd code")).to_contain_text("mosaic train gym/FrozenLake8x8-v1")
    drawn = "(image) => image.complete && image.naturalWidth > 100"
    page.wait_for_function(f"() => ({drawn})(document.querySelector('.t-cover img'))")
    tab.check()


@pytest.mark.slow
def test_the_train_page_is_accessible_and_fits_a_phone(tab: Tab, phone: Tab) -> None:
    tab.page.emulate_media(reduced_motion="reduce")  # half-way through a change of colour nothing has its contrast
    for theme in ("dark", "light"):
        page = tab.open("/train")
        expect(page.locator(".t-agent")).to_have_count(2, timeout=PATIENCE_MS)
        if theme == "light":
            page.get_by_label("Light or dark").click()
        page.wait_for_selector(f"body.body--{theme}")
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
    page = phone.open("/train")
    expect(page.locator(".t-agent")).to_have_count(2, timeout=PATIENCE_MS)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    tab.check()
    phone.check()
