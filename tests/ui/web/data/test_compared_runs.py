"""What a run is compared with: the address of its page, the look of many curves, what the comparison leaves out."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from mosaic.runs.trainer import Trainer
from mosaic.server.app import create_app
from mosaic.server.context import ServerContext
from mosaic.ui.web.components import theme
from mosaic.ui.web.components.live import MOST_SOURCES, chart_height
from mosaic.ui.web.components.theme import series_key, series_look
from mosaic.ui.web.data.compared_runs import address, read_compared, sources_of
from mosaic.ui.web.data.facts import Facts
from mosaic.ui.web.pages.comparison import left_out, sources_for

CONFIG = {"environment": {"env_id": "gym/CartPole-v1"}, "training": {"worker": "toy", "total_timesteps": 100}}
FEED = Path(theme.__file__).parents[1] / "static" / "live_feed.js"


@pytest.fixture
def context(tmp_path: Path) -> ServerContext:
    context: ServerContext = create_app(tmp_path).state.context
    return context


def made(context: ServerContext, count: int, group: str = "", name: str = "") -> list[str]:
    trainer = Trainer(context.store.home)
    named = [{**CONFIG, "name": name or f"run {number}"} for number in range(count)]
    return [str(trainer.submit(config, start=False, group=group).id) for config in named]


def asked_for(text: str) -> str:
    """What a page is told of an address: its `with`, decoded once."""
    return parse_qs(urlsplit(text).query).get("with", [""])[0]


def test_an_address_says_what_is_compared_and_is_read_back(context: ServerContext) -> None:
    own, other, third = made(context, 3)
    made(context, 2, group="a, strange & long/group")
    refs = [third, "group:a, strange & long/group", other]
    path = address(own, refs)
    assert address(own, []) == f"/runs/{own}"
    assert path.startswith(f"/runs/{own}?with={third},group:")
    assert read_compared(context, own, asked_for(path)) == (refs, [])


def test_runs_are_named_by_name_or_id_and_once(context: ServerContext) -> None:
    own, other, third = made(context, 3)
    found = read_compared(context, own, f"run 1,{other},,{own},run 2")
    assert found == ([other, third], [])


def test_what_is_unknown_is_told_and_the_rest_counts(context: ServerContext) -> None:
    own, other = made(context, 2)
    made(context, 1, group="seeds-of-ppo")
    found = read_compared(context, own, f"nobody,group:seeds-of-pp,{other}")
    assert found.refs == [other]
    assert found.problems[0].startswith("There is no run 'nobody'. The newest: ")
    assert found.problems[1] == (
        "There is no seed group named 'seeds-of-pp'. Did you mean 'seeds-of-ppo'? Known: seeds-of-ppo."
    )


def test_groups_are_named_as_on_the_command_line(context: ServerContext) -> None:
    """`--name fast --seeds 2` names its runs fast-1 and fast-2; the group has an id."""
    for group, name in (("1", "fast"), ("2", "slow"), ("3", "slow")):
        for number in (1, 2):
            made(context, 1, group=group, name=f"{name}-{number}")
    (own,) = made(context, 1)
    assert read_compared(context, own, "group:fast,group:1") == (["group:1"], [])
    found = read_compared(context, own, "group:slow,group:fas")
    assert found.problems == [
        "2 seed groups are named 'slow'. Give the id of one: 3, 2.",
        "There is no seed group named 'fas'. Did you mean 'fast'? Known: fast, slow.",
    ]
    labels = [source.label for source in sources_of(["group:1", "group:2", "group:3"], context.store.index.list())]
    assert labels == ["fast: mean of 2 seeds", "slow: mean of 2 seeds 2", "slow: mean of 2 seeds 3"]


def test_too_many_are_cut_and_told(context: ServerContext) -> None:
    own, *others = made(context, MOST_SOURCES + 1)
    found = read_compared(context, own, ",".join(others))
    assert found.refs == others[: MOST_SOURCES - 1]
    (said,) = found.problems
    assert said == (
        "21 curves cannot be told apart in one chart: the first 20 are shown. "
        "The mean of a seed group, group:NAME, counts as one."
    )


def test_runs_of_one_name_are_told_apart(context: ServerContext) -> None:
    (alone,) = made(context, 1, name="alone")
    twins = made(context, 2, name="twin", group="twins")
    sources = sources_of([alone, "group:twins", *twins, "gone"], context.store.index.list())
    assert [(source.ref, source.label) for source in sources] == [
        (alone, "alone"),
        ("group:twins", "twins: mean of 2 seeds"),
        (twins[0], f"twin {twins[0][-4:]}"),
        (twins[1], f"twin {twins[1][-4:]}"),
    ]


def test_the_runs_page_puts_the_mean_first_where_there_is_room(context: ServerContext) -> None:
    members = made(context, MOST_SOURCES + 2, group="many")
    rows = {row.run_id: row for row in context.store.index.list()}
    ticked = [rows[run_id] for run_id in members]
    every = list(rows.values())
    assert [source.ref for source in sources_for(ticked[:2], every, bool)] == ["group:many", *members[:2]]
    assert [source.ref for source in sources_for(ticked, every, bool)] == members[:MOST_SOURCES]


def test_the_comparison_says_what_it_leaves_out() -> None:
    assert left_out(6, 6, 6) == ""
    assert left_out(9, 9, 6) == "Of 9 runs this table shows 6, more would be unreadable."
    assert left_out(22, 20, 6) == (
        "Of 22 runs the chart shows 20, more cannot be distinguished; this table shows 6, more would be unreadable."
    )


def test_every_curve_of_a_chart_has_a_look_of_its_own() -> None:
    looks = [series_look(place) for place in range(MOST_SOURCES)]
    assert len(set(looks)) == MOST_SOURCES
    assert [looks[place][1] for place in range(6)] == list(theme.DASHES)  # the first six differ in both
    assert looks[7][0] == looks[1][0]
    assert looks[7][1] != looks[1][1]
    assert f'stroke="{looks[7][0]}"' in series_key(7)
    assert f'stroke-dasharray="{looks[7][1]}"' in series_key(7)


def test_the_browser_has_as_many_dashes_as_the_server() -> None:
    found = re.search(r"const DASH = \[(.*)\];", FEED.read_text())
    assert found is not None
    assert found[1].count("[") + 1 == len(theme.DASHES)
    assert f"COLOURS = {len(theme.SERIES)};" in FEED.read_text()


def test_a_chart_of_many_curves_is_higher() -> None:
    assert chart_height(252, 6) == "height:252px"
    assert chart_height(252, 20) == chart_height(252, 60) == "height:384px"


def test_runs_that_differ_in_more_than_their_seed_have_no_common_mean(context: ServerContext) -> None:
    """The trials of a search share a group, and so can any runs submitted with one."""
    trainer = Trainer(context.store.home)
    for env in ("gym/CartPole-v1", "gym/Acrobot-v1"):
        trainer.submit({**CONFIG, "environment": {"env_id": env}}, start=False, group="mixed")
    own, other = made(context, 2, group="alike")
    found = read_compared(context, own, "group:mixed,group:alike")
    assert found.refs == ["group:alike"]
    assert "environment.env_id" in found.problems[0]
    facts = Facts(context)
    assert facts.group("mixed") == []
    assert {row.run_id for row in facts.group("alike")} == {own, other}
    rows = facts.rows()
    mixed = [row for row in rows if row.group == "mixed"]
    assert [source.ref for source in sources_for(mixed, rows, facts.is_seed_group)] == [row.run_id for row in mixed]
