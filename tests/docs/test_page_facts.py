"""Facts that pages state, compared with the code and the files that they are about."""

import re
import tomllib

import pytest
import yaml

import mosaic
from tests.docs.pages import ROOT

DOCS = ROOT / "docs"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PARADIGMS = ("parameter_sharing", "independent", "self_play", "shared_value_function")
IN_WORDS = {
    "tictactoe": "tic-tac-toe",
    "connect_four": "connect four",
    "rps": "rock-paper-scissors",
    "gridworld": "grid world",
    "kuhn_poker": "Kuhn poker",
}
OFFLINE = {"bc", "marwil", "cql", "iql"}  # of RLlib: they learn from the dataset of one agent


def text_of(name):
    return (DOCS / name).read_text(encoding="utf-8")


def row_of(name, start):
    """Return the cells of the row of a page's table whose first cell is `start`."""
    (line,) = [line for line in text_of(name).splitlines() if line.startswith(f"| {start} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.mark.parametrize("worker", ["native", "tabular", "rllib", "sb3"])
def test_the_table_of_policy_configurations_is_what_workers_promise(worker):
    from mosaic.workers.registry import load_worker

    info = load_worker(worker).info
    column = row_of("multi-agent.md", "configuration").index(f"`{worker}`")
    algorithms = [name for name in info.algorithms if worker != "rllib" or name not in OFFLINE]
    one_policy = {"dqn", "sac", "td3", "cql"} if worker == "native" else set()  # below the table
    for paradigm in PARADIGMS:
        promised = {name for name in algorithms if paradigm in info.paradigms_of(name)}
        if paradigm == "independent":
            promised -= one_policy
        cell = row_of("multi-agent.md", f"`{paradigm}`")[column]
        assert algorithms_of(cell, algorithms) == promised, (paradigm, cell)


def algorithms_of(cell, algorithms):
    """Return the algorithms that a cell names: yes, no, all but SOME, or a list."""
    if cell == "yes":
        return set(algorithms)
    if cell.startswith("no"):
        return set()
    named = {name.strip().lower() for name in cell.removeprefix("all but ").split(",")}
    assert named <= set(algorithms), cell
    return set(algorithms) - named if cell.startswith("all but ") else named


def test_algorithms_of_native_that_train_one_policy_refuse_several():
    from mosaic.config.run import RunConfig
    from mosaic.core.errors import InputError
    from mosaic.envs.shared_env import env_spec
    from mosaic.learners.actor_critic.build import check_actor_critic
    from mosaic.learners.actor_critic.options import SacOptions, Td3Options
    from mosaic.learners.agent_roles import read_agent_roles
    from mosaic.learners.dqn.checks import check_dqn
    from mosaic.learners.dqn.options import CqlOptions, DqnOptions

    config = RunConfig.model_validate(
        {"environment": {"env_id": "mpe/simple_spread_v3"}, "policy_configuration": "independent"}
    )
    spec = env_spec(config.environment)
    roles = read_agent_roles(config, spec)
    assert len(roles.plan.names) == 3
    refused = r"trains one policy, but 3 learn here"
    for check, options in (
        (check_dqn, DqnOptions()),
        (check_dqn, CqlOptions(dataset="demo:any")),
        (check_actor_critic, SacOptions()),
        (check_actor_critic, Td3Options()),
    ):
        with pytest.raises(InputError, match=refused):
            check(config, roles, spec, options)


@pytest.mark.parametrize("worker", ["tabular", "native", "sb3", "rllib", "script"])
def test_the_table_of_resources_is_what_workers_meet(worker):
    from mosaic.workers.registry import load_worker

    info = load_worker(worker).info
    columns = [cell.strip("`").removeprefix("--").partition(" ")[0].replace("-", "_") for cell in row_of_resources()]
    cells = dict(zip(columns, row_of("training.md", f"`{worker}`"), strict=True))
    met = {name for name, cell in cells.items() if name != "worker" and cell not in ("refused", "`single`")}
    assert met == set(info.resources) - {"num_envs"}
    assert info.curriculum == (f"`{worker}`" in re.search(r"growing difficulty \((.*?);", text_of("training.md"))[1])
    assert ("num_envs" in info.resources) == (
        worker in re.search(r"`environment.num_envs` \((.*?)\)", text_of("training.md"))[1]
    )


def row_of_resources():
    return row_of("training.md", "worker")


def test_all_public_names_are_in_the_table():
    rows = re.findall(r"^\| (`.*?) \| .* \|$", text_of("python.md").partition("These are all public names")[2], re.M)
    named = {name for row in rows for name in re.findall(r"`(\w+)", row)}
    said = {name for row in text_of("python.md").splitlines() for name in re.findall(r"`(\w+)", row)}
    returned = {
        "Evaluation",
        "Tournament",
        "Episode",
        "LoadedPolicy",
        "Run",
        "RunFailedError",
        "Project",
        "EpisodeLostError",
    }
    assert named | returned == set(mosaic.__all__)
    assert returned <= said


def test_all_names_for_plug_ins_are_listed():
    listed = text_of("plugins.md").partition("\n## What to import\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`(\w+)", listed)) - {"mosaic"}
    assert named == {*mosaic.plugins.__all__, *mosaic.testing.__all__}


def test_all_compiled_envs_are_named():
    from mosaic.envs.catalog import entries
    from mosaic.envs.compiled.registry import has_kernel
    from mosaic.envs.family import split_version

    said = text_of("native.md").partition("\n## How envs are stepped\n")[2].partition("\n## Continuous actions\n")[0]
    ids = [entry.id for entry in entries() if has_kernel(entry.id)]
    names = {split_version(env_id.rpartition("/")[2])[0] for env_id in ids}
    variants = {name for name in names for other in names - {name} if name.startswith(other)}  # CliffWalkingSlippery
    assert len(names - variants) > 20
    assert [name for name in sorted(names - variants) if IN_WORDS.get(name, name) not in said] == []


def test_all_kinds_of_policies_are_in_the_table():
    rows = re.findall(
        r"^\| `([\w.]+)", text_of("users.md").partition("## Policies")[2].partition("## Mapping")[0], re.M
    )
    kinds = set(PROJECT["entry-points"]["mosaic.policies"])
    assert kinds - set(rows) == {"https"}  # beside http
    assert set(rows) - kinds == {"PATH.safetensors"}


def test_the_start_page_links_every_page_of_the_navigation():
    def leaves(item):
        if isinstance(item, str):
            return [item]
        return [leaf for inner in (item.values() if isinstance(item, dict) else item) for leaf in leaves(inner)]

    pages = set(leaves(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"])) - {"index.md"}
    assert pages - set(re.findall(r"\]\(([\w/.-]+)\)", text_of("index.md"))) == set()


def test_extras_of_the_image_and_of_the_read_me_are_complete():
    installed = re.search(r"'\.\[([\w,]+)\]'", (ROOT / "deploy" / "Dockerfile").read_text())[1]
    assert f"extras `{installed}`" in text_of("cluster.md")
    table = (ROOT / "README.md").read_text().partition("| for | extras |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`([\w-]+)`", table)) == set(PROJECT["optional-dependencies"])
