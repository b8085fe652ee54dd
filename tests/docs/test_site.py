"""The documentation site: pages agree with the models, links lead to code that exists, it builds without warnings."""

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from tests.docs.pages import PAGES, ROOT, script

LEARNERS = sorted((ROOT / "docs" / "learners").glob("*.md"))
REFERENCE = ROOT / "docs" / "reference"


@pytest.mark.parametrize("name", script("docs_reference")["PAGES"])
def test_the_reference_is_current(name):
    made = script("docs_reference")
    assert made["stale"]({name: made["PAGES"][name]}) == [], "type: python scripts/docs_reference.py"


@pytest.mark.slow
def test_the_reference_of_other_libraries_is_current():
    made = script("docs_reference")
    assert made["stale"](made["FOREIGN"]) == []


def test_every_setting_command_event_and_entry_point_appears():
    from typer.main import get_command

    from mosaic.config.project import ExportPreset, ProjectConfig
    from mosaic.config.run import run_schema
    from mosaic.plugins import WorkerCapabilities
    from mosaic.runs.tuning.plan import TuneSettings
    from mosaic.telemetry.events.event import KINDS, MetricEvent
    from mosaic.ui.cli.main import app

    text = {page.name: page.read_text() for page in REFERENCE.glob("*.md")}
    schema = run_schema()
    for name, field in schema["properties"].items():
        model = str(field.get("$ref", "")).rpartition("/")[2]
        for inner in schema["$defs"][model]["properties"] if model else ():
            assert f"`{name}.{inner}`" in text["settings.md"]
        assert f"`{name}`" in text["settings.md"] or model
    in_files = {
        *(f"tune.{name}" for name in TuneSettings.model_fields),
        *(ProjectConfig.model_fields.keys() - {"export"}),
        *(f"export.NAME.{name}" for name in ExportPreset.model_fields),
    }
    assert [name for name in sorted(in_files) if f"| `{name}` |" not in text["settings.md"]] == []
    for name, _ in script("docs_reference")["each_command"]("mosaic", get_command(app)):
        assert f"\n## {name}\n" in text["cli.md"]
    for name in (*KINDS, *MetricEvent.__annotations__):
        assert f"| `{name}` |" in text["events.md"]
    for name, field in WorkerCapabilities.model_fields.items():
        assert f"| `{name}` |" in text["entry-points.md"]
        assert field.description, name
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for group, points in project["entry-points"].items():
        assert f"## {group}\n" in text["entry-points.md"]
        for name, target in points.items():
            assert f"| `{name}` | `{target}` |" in text["entry-points.md"]


def test_every_policy_wrapper_and_own_env_appears_with_its_options():
    from mosaic.core.plugins import load_plugin, plugins
    from mosaic.envs.families.mosaic import OPTIONS, family
    from mosaic.envs.wrappers.registry import WRAPPERS

    sections = (REFERENCE / "names.md").read_text().split("\n### ")
    tables = {heading: rows for heading, _, rows in (section.partition("\n") for section in sections)}
    assert {entry.id for entry in family.entries()} == {f"mosaic/{name}" for name in OPTIONS}
    models = {
        **{name: load_plugin("mosaic.policies", name).options for name in plugins("mosaic.policies")},
        **{name: kind.options for name, kind in WRAPPERS.items() if name != "python"},  # a policy has that name too
        **{f"mosaic/{name}": model for name, model in OPTIONS.items()},
    }
    assert models.keys() <= tables.keys()
    options = [(name, option) for name, model in models.items() for option in model.model_fields]
    assert [each for each in options if f"| `{each[1]}` |" not in tables[each[0]]] == []


def test_every_route_of_the_server_appears(tmp_path):
    from fastapi.routing import APIRoute, APIWebSocketRoute

    from mosaic.server.app import create_app

    text = (REFERENCE / "http.md").read_text()
    routes = [route for route in create_app(tmp_path).routes if isinstance(route, APIRoute | APIWebSocketRoute)]
    kinds = {type(route) for route in routes}
    assert kinds == {APIRoute, APIWebSocketRoute}
    rows = {
        f"| `{method}` | `{route.path}` |" if isinstance(route, APIRoute) else f"\n| `{route.path}` | "
        for route in routes
        for method in (route.methods if isinstance(route, APIRoute) else ("",))
    }
    assert [row for row in sorted(rows) if row not in text] == []


def test_every_field_of_an_event_has_a_meaning_of_its_own():
    text = (REFERENCE / "events.md").read_text()
    tables = text.partition("\n## Fields\n")[2].split("\n## ")
    assert len(tables) >= 4
    for table in tables:
        rows = re.findall(r"^\| `(\w+)` \| `.+` \| ?(.*) \|$", table, re.M)
        meanings = [meaning for _, meaning in rows]
        assert [name for name, meaning in rows if not meaning] == []
        assert len(set(meanings)) == len(meanings)


def test_every_kind_of_event_is_described():
    from mosaic.telemetry.events.event import KINDS

    reported = set()
    for path in [*(ROOT / "src/mosaic/workers").rglob("*.py"), *(ROOT / "src/mosaic/runs").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("report"):
                values = [word.value for word in node.keywords if word.arg == "kind"]
                reported |= {
                    each.value for value in values for each in ast.walk(value) if isinstance(each, ast.Constant)
                }
    reported = {kind for kind in reported if isinstance(kind, str)}
    assert {"iteration", "checkpoint_exists"} <= reported
    assert reported - KINDS.keys() == set()


def test_every_file_of_a_run_is_described(tmp_path, runs_here):
    import mosaic
    from mosaic.runs.daemonize import LOG
    from mosaic.workers.script.worker import FILES

    config = {
        "environment": {"env_id": "gym/CartPole-v1"},
        "training": {"worker": "toy", "total_timesteps": 200},
        "telemetry": {"mirrors": ["csv"]},
    }
    run = mosaic.train(config, home=tmp_path)
    text = (REFERENCE / "run-folder.md").read_text()
    found = {path.name for path in run.folder.path.iterdir()}
    assert {"config.json", "metrics.jsonl", "checkpoints", "metrics.csv"} <= found
    assert [name for name in sorted({*found, LOG, FILES, "tensorboard"}) if f"`{name}`" not in text] == []


def test_every_algorithm_of_ours_is_described_on_a_page_of_learners():
    from mosaic.workers.registry import load_worker

    described = {name for page in LEARNERS for name in re.findall(r"--algo (\w+)", page.read_text())}
    assert set(load_worker("native").info.algorithms) - described == set()
    tables = (ROOT / "docs" / "learners" / "tabular.md").read_text()
    assert [name for name in load_worker("tabular").info.algorithms if f"algorithms.py#{name})" not in tables] == []


@pytest.mark.parametrize("page", LEARNERS, ids=lambda page: page.stem)
def test_implementation_details_are_linked_to_code_and_test(page):
    site = script("docs_site")
    details = re.findall(r"^\d+\. .*$", page.read_text(), re.M)
    assert len(details) >= 4
    for detail in details:
        links = [(match[2], (match[3] or "").removeprefix("#")) for match in site["LINK"].finditer(detail)]
        assert any(link.startswith("../../src/") for link, _ in links), detail
        assert any(link.startswith("../../tests/") for link, _ in links), detail
        for link, symbol in links:
            site["line_of"]((page.parent / link).resolve(), symbol)


def test_a_symbol_that_has_moved_is_noticed():
    with pytest.raises(ValueError, match=r"pages.py has no 'nothing'"):
        script("docs_site")["line_of"](Path(__file__).with_name("pages.py"), "nothing")


def test_links_of_pages_lead_to_pages_of_the_site():
    rewrite = script("docs_site")["rewrite"]
    text = "[code](../../src/mosaic/core/turn.py#Turn.over) [page](../users.md#policies) [out](https://example.org)"
    found = rewrite(f"{text}\n```\n[kept](../users.md)\n```\n", "docs/learners/ppo.md")
    assert re.search(r"\[code\]\(\.\./source/src/mosaic/core/turn\.py\.md#__codelineno-0-\d+\)", found)
    assert "[page](../users.md#policies) [out](https://example.org)" in found
    assert "[kept](../users.md)" in found
    assert "](decisions/index.md)" in rewrite("[why](decisions/)", "docs/contributing.md")


def test_a_notebook_is_shown_as_its_cells():
    text = script("docs_site")["content"]("examples/notebooks/first_steps.ipynb")
    assert text.startswith("# First steps")
    assert "````python\nimport mosaic\n" in text
    assert "cell_type" not in text


def test_every_page_is_in_the_navigation():
    def leaves(item):
        match item:
            case str():
                return [item]
            case dict():
                return [leaf for inner in item.values() for leaf in leaves(inner)]
            case _:
                return [leaf for inner in item for leaf in leaves(inner)]

    named = leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])
    written = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert sorted(named) == sorted(page for page in written if not page.startswith("decisions/"))


def test_the_gallery_is_current_and_small():
    """If this fails: python scripts/docs_gallery.py."""
    made = script("docs_gallery")
    assert made["PAGE"].read_text() == made["page"]()
    wanted = {made["file_of"](shot) for _, shots in made["FAMILIES"].values() for shot in shots}
    assert wanted == set(made["FOLDER"].iterdir())
    assert sum(picture.stat().st_size for picture in wanted) < 1_000_000
    families = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["mosaic.envs"]
    assert set(families) - made["FAMILIES"].keys() == {"external"}  # a program of the user has the env


def test_every_picture_of_a_screen_is_shown_and_small():
    """If one is missing: python scripts/docs_screens.py."""
    shown = {name for page in PAGES for name in re.findall(r"screens/([\w-]+\.webp)", page.read_text())}
    drawn = {path.name: path.stat().st_size for path in (ROOT / "docs" / "screens").iterdir()}
    assert shown == drawn.keys()
    assert sum(drawn.values()) < 300_000


def test_the_drawings_are_current():
    """If this fails: python scripts/docs_drawings.py."""
    made = script("docs_drawings")
    for name, drawing in made["DRAWINGS"].items():
        assert (made["FOLDER"] / f"{name}.svg").read_text() == made["svg"](drawing), name
    text = "".join(page.read_text() for page in PAGES)
    assert [name for name in made["DRAWINGS"] if f"drawings/{name}.svg" not in text] == []


def test_the_tables_of_scale_are_those_of_the_measured_costs():
    """If this fails: python benchmarks/scale.py --table --write."""
    command = [sys.executable, str(ROOT / "benchmarks" / "scale.py"), "--table"]
    made = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert made.count("\n|---|") == 7
    assert made in (ROOT / "docs" / "scale.md").read_text()


@pytest.mark.slow
def test_it_builds_without_warnings(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    built = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (built.returncode, built.stdout, built.stderr) == (0, "", "")
    page = (tmp_path / "site" / "learners" / "ppo" / "index.html").read_text()
    assert re.search(r'href="[^"]*source/src/mosaic/learners/ppo/gae\.py/#__codelineno-0-\d+"', page)
    hosts = {
        host
        for path in (tmp_path / "site").rglob("*.html")
        for host in re.findall(r'(?:src|rel="stylesheet" href)="https?://([^/"]+)', path.read_text())
    }
    assert hosts == set()  # nothing is loaded from elsewhere
    index = json.loads((tmp_path / "site" / "search" / "search_index.json").read_text())
    found = {entry["location"] for entry in index["docs"]}
    assert "reference/settings/#checkpoint" in found
    assert [location for location in sorted(found) if re.match("source/(src|tests)", location)] == []
    assert re.split(index["config"]["separator"], "`checkpoint.keep_best`") == ["", "checkpoint", "keep_best", ""]
