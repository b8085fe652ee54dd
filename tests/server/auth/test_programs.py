"""Everything that names code or a program is found, wherever it stands, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.config.loading import parse_run_config
from mosaic.config.programs import named_programs
from mosaic.core.plugins import plugins
from mosaic.server.auth.programs import ForbiddenProgramsError

HOME = Path("/home/me/mosaic")
CARTPOLE = {"env_id": "gym/CartPole-v1"}

# Every form of the issue, in every place where it may stand.
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    "script": ("training.worker: script", {"training": {"worker": "script"}}),
    "python env": ("environment: python:maze:make", {"environment": {"env_id": "python:maze:make"}}),
    "python env by family": (
        "environment: python:maze:make",
        {"environment": {"family": "python", "env_id": "maze:make"}},
    ),
    "python wrapper": (
        "environment.wrappers.1: python:my:wrap",
        {"environment": {**CARTPOLE, "wrappers": ["flatten", "python:my:wrap"]}},
    ),
    "python in env options": (
        "environment.options.maker.0: python:os:system",
        {"environment": {**CARTPOLE, "options": {"maker": ["python:os:system"]}}},
    ),
    "python policy": ("agents.red_*: python:my:greedy", {"agents": {"blue": "random", "red_*": "python:my:greedy"}}),
    "python mapping": ("agents: python:my:mapping", {"agents": "python:my:mapping"}),
    "python policies_to_train": ("policies_to_train: python:my:which", {"policies_to_train": "python:my:which"}),
    "python in the list of trained": (
        "policies_to_train.1: python:my:which",
        {"policies_to_train": ["red", "python:my:which"]},
    ),
    "python init": ("training.init: python:my:net", {"training": {"init": "python:my:net"}}),
    "python opponent": (
        "evaluation.opponents.0: python:my:greedy",
        {"evaluation": {"opponents": ["python:my:greedy"]}},
    ),
    "python mirror": ("telemetry.mirrors.0: python:my:sink", {"telemetry": {"mirrors": ["python:my:sink"]}}),
    "python in params": (
        "training.params.net.body: python:my:net",
        {"training": {"params": {"net": {"body": "python:my:net"}}}},
    ),
    "uci path": ("agents.player_0: uci:/bin/sh", {"agents": {"player_0": "uci:/bin/sh"}}),
    "process": ("agents.player_0: process:sh -c x", {"agents": {"player_0": "process:sh -c x"}}),
    "language model": (
        "agents.player_0: llm:m,url=http://10.0.0.1/v1",
        {"agents": {"player_0": "llm:m,url=http://10.0.0.1/v1"}},
    ),
    "language model in params": (
        "training.params.opponent: llm:m,url=http://10.0.0.1/v1",
        {"training": {"params": {"opponent": "llm:m,url=http://10.0.0.1/v1"}}},
    ),
    "uci name": ("agents.player_0: uci:sh,depth=3", {"agents": {"player_0": "uci:sh,depth=3"}}),
    "godot path": ("environment: godot//games/tag.x86_64", {"environment": {"env_id": "godot//games/tag.x86_64"}}),
    "godot by family": ("environment: godot/tag.pck", {"environment": {"family": "godot", "env_id": "tag.pck"}}),
    "godot log": (
        "environment.options.log: /etc/passwd",
        {"environment": {"env_id": "godot/debug", "options": {"log": "/etc/passwd"}}},
    ),
    "godot for other machines": (
        "environment.options.host: 0.0.0.0",
        {"environment": {"env_id": "godot/debug", "options": {"host": "0.0.0.0"}}},
    ),
    "gym module": ("environment: gym/os.path:Env-v0", {"environment": {"env_id": "gym/os.path:Env-v0"}}),
    "gym module by family": (
        "environment: gym/antigravity:Env-v0",
        {"environment": {"family": "gym", "env_id": "antigravity:Env-v0"}},
    ),
    "gym module through the compatibility env": (
        "environment.options.env_id: antigravity:Env-v0",
        {"environment": {"env_id": "gym/GymV26Environment-v0", "options": {"env_id": "antigravity:Env-v0"}}},
    ),
    "http policy": ("agents.*: http://10.0.0.1/act", {"agents": {"*": "http://10.0.0.1/act"}}),
    "https policy": ("agents.*: https://example.org/act", {"agents": {"*": "https://example.org/act"}}),
    "bundle outside": ("agents.*: bundle:/tmp/x", {"agents": {"*": "bundle:/tmp/x"}}),
    "checkpoint outside": ("training.init: checkpoint:/tmp/x", {"training": {"init": "checkpoint:/tmp/x"}}),
    "checkpoint relative": ("training.init: checkpoint:runs/x", {"training": {"init": "checkpoint:runs/x"}}),
    "checkpoint by dots": (
        "training.init: checkpoint:/home/me/mosaic/runs/../../x",
        {"training": {"init": "checkpoint:/home/me/mosaic/runs/../../x"}},
    ),
    "checkpoint by dots after a comma": (
        "training.init: checkpoint:/home/me/mosaic/runs/one,/../../../x",
        {"training": {"init": "checkpoint:/home/me/mosaic/runs/one,/../../../x"}},
    ),
    "checkpoint at home": ("agents.*: checkpoint:~/x,trust=1", {"agents": {"*": "checkpoint:~/x,trust=1"}}),
    "table outside": (
        "agents.*: /tmp/t.safetensors,temperature=2",
        {"agents": {"*": "/tmp/t.safetensors,temperature=2"}},
    ),
    "sb3 outside": ("agents.*: sb3:/tmp/model.zip", {"agents": {"*": "sb3:/tmp/model.zip"}}),
    "onnx outside": ("agents.*: onnx:/tmp/model.onnx", {"agents": {"*": "onnx:/tmp/model.onnx"}}),
    "onnx beside the store": (
        "agents.*: onnx:/home/me/mosaic/runs-of-others/m.onnx",
        {"agents": {"*": "onnx:/home/me/mosaic/runs-of-others/m.onnx"}},
    ),
    "a place to write to": ("checkpoint.folder: /tmp/x", {"checkpoint": {"folder": "/tmp/x"}}),
    "foreign cluster": ("resources.ray_address: 10.0.0.1:6379", {"resources": {"ray_address": "10.0.0.1:6379"}}),
}


def config(**parts: Any) -> Any:
    return parse_run_config({"environment": CARTPOLE, **parts})


@pytest.mark.parametrize("form", FORMS)
def test_form_is_found(form: str) -> None:
    expected, parts = FORMS[form]
    assert named_programs(config(**parts), HOME) == [expected]


@pytest.mark.parametrize(
    "parts",
    [
        {"training": {"worker": "toy", "params": {"note": "python: a language", "title": "uci", "lr": 0.1}}},
        {"environment": {**CARTPOLE, "options": {"label": "http://example.org", "map": ["a:b"], "title": "python:x"}}},
        {"environment": {"env_id": "godot/debug"}},
        {"environment": {**CARTPOLE, "wrappers": ["time_limit:max_steps=200"]}},
        {"agents": {"a": "random", "b": "minimax:depth=3", "c": "stockfish:elo=1500", "d": "run:latest@best/red"}},
        {"agents": {"python": "random", "uci:x": "human", "e": "self@-1000"}},
        {"training": {"init": "checkpoint:/home/me/mosaic/runs/one/checkpoints/100"}},
        {"agents": {"*": "onnx:/home/me/mosaic/runs/one/model.onnx,threads=2"}},
        {"policies_to_train": ["red", "blue"], "resources": {"ray_address": "auto"}},
        {"name": "python:x:y", "tags": ["uci:sh"]},
    ],
)
def test_what_names_no_program_passes(parts: dict[str, Any]) -> None:
    assert named_programs(config(**parts), HOME) == []


def test_without_a_store_no_path_is_inside() -> None:
    assert named_programs(config(training={"init": "checkpoint:/home/me/mosaic/runs/one"})) == [
        "training.init: checkpoint:/home/me/mosaic/runs/one"
    ]


def test_every_place_is_named() -> None:
    found = named_programs(config(training={"worker": "script", "init": "uci:a"}, agents={"*": "python:a:b"}), HOME)
    assert sorted(found) == ["agents.*: python:a:b", "training.init: uci:a", "training.worker: script"]
    text = str(ForbiddenProgramsError(found))
    assert "agents.*: python:a:b; training.init: uci:a; training.worker: script" in text
    assert text.endswith("Its owner can allow that: mosaic serve --allow-programs (or mosaic mcp --allow-programs).")


def test_every_kind_of_policy_was_thought_about() -> None:
    """A new kind must be put on one side or the other."""
    harmless = {"human", "random", "minimax", "nearest_landmark", "stockfish", "run", "search"}  # search: run: alone
    naming_programs = {"python", "uci", "process", "llm", "onnx", "bundle", "checkpoint", "sb3", "http", "https"}
    assert set(plugins("mosaic.policies")) <= harmless | naming_programs


REFERENCES = (
    "python:os:system",
    "uci:/bin/sh",
    "http://x/y",
    "llm:m,url=http://x",
    "https://x",
    "checkpoint:/etc/x",
    "onnx:../m",
    "godot/x",
)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=8))


def nested(leaf: str) -> st.SearchStrategy[Any]:
    """The leaf, somewhere inside lists and mappings, among others."""
    return st.recursive(
        st.just(leaf),
        lambda inner: st.one_of(
            st.tuples(st.lists(LEAVES, max_size=3), inner).map(lambda pair: [*pair[0], pair[1]]),
            st.tuples(st.dictionaries(st.text(max_size=5), LEAVES, max_size=3), st.text(max_size=5), inner).map(
                lambda parts: {**parts[0], parts[1]: parts[2]}
            ),
        ),
        max_leaves=4,
    )


@given(st.sampled_from(REFERENCES).flatmap(lambda leaf: st.tuples(st.just(leaf), nested(leaf))), st.text(max_size=8))
def test_found_at_any_depth_of_a_workers_options(case: tuple[str, Any], name: str) -> None:
    leaf, value = case
    found = named_programs(config(training={"params": {name: value}}), HOME)
    assert any(form.endswith(f": {leaf}") for form in found)


@given(st.sampled_from(REFERENCES[:6]), st.dictionaries(st.text("ab*_", min_size=1), st.just("random"), max_size=4))
def test_found_among_any_agents(leaf: str, others: dict[str, str]) -> None:
    assert named_programs(config(agents={**others, "z": leaf}), HOME) == [f"agents.z: {leaf}"]
