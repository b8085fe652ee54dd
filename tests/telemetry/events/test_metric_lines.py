from __future__ import annotations

import io
import json
import math
import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mosaic.telemetry import emit_metric
from mosaic.telemetry.events.lines import LONGEST_LINE, MalformedMetricError, parse_metric
from mosaic.telemetry.events.reader import read_events
from mosaic.telemetry.events.writer import EventWriter
from tests.telemetry.event_cases import CALM, KEYS, VALUES


def line(**fields: Any) -> str:
    return f"@METRIC {json.dumps(fields)}"


def test_an_iteration_line() -> None:
    assert parse_metric(
        line(
            kind="iteration",
            training_iteration=3,
            timesteps_total=4000.0,
            agent_steps=8000,
            episodes_total=12,
            episode_reward_mean=math.nan,
            episode_len_mean=30,
            time_split={"env": 0.5, "render": 0.1},
            policies={"left": {"reward_mean": 1.5, "learner": {"loss": 0.2}, "kl": 0.01, "custom_metrics": {"a": 1}}},
            custom_metrics={"speed": 2.0},
            win_rate=0.75,
            note="warm",
        )
    ) == {
        "kind": "iteration",
        "training_iteration": 3,
        "env_steps": 4000,
        "agent_steps": 8000,
        "episodes_total": 12,
        "episode_reward_mean": pytest.approx(math.nan, nan_ok=True),
        "episode_len_mean": 30,
        "time_split": {"env": 0.5},
        "policies": {
            "left": {"reward_mean": 1.5, "learner": {"loss": 0.2}, "custom_metrics": {"a": 1, "kl": 0.01}},
        },
        "custom_metrics": {"speed": 2.0, "time_split/render": 0.1, "win_rate": 0.75, "note": "warm"},
    }


def test_an_episode_line() -> None:
    assert parse_metric(b'  @METRIC {"kind": "episode", "env_steps": 7, "reward": 1.5, "length": 7}\r\n') == {
        "kind": "episode",
        "env_steps": 7,
        "custom_metrics": {"reward": 1.5, "length": 7},
    }


def test_env_steps_win_over_timesteps_total() -> None:
    assert parse_metric(line(env_steps=5, timesteps_total=9)) == {
        "kind": "iteration",
        "env_steps": 5,
        "custom_metrics": {"timesteps_total": 9},
    }


@pytest.mark.parametrize("text", ["", "step 3", "@METRICS {}", "x @METRIC {}", "@METRI", "@METRIC_X {}"])
def test_other_lines_are_not_ours(text: str) -> None:
    assert parse_metric(text) is None


@pytest.mark.parametrize(
    ("told", "seconds"),
    [
        (1767225600.5, 1767225600.5),
        ("2026-01-01T00:00:00Z", 1767225600.0),
        ("2026-01-01T01:00:00.250000+01:00", 1767225600.25),
        (datetime.fromtimestamp(1767225600.5).isoformat(), 1767225600.5),  # no time zone: local time
    ],
)
def test_timestamps_are_numbers_or_iso_text(told: object, seconds: float) -> None:
    """The published RLlib script of the Godot controller prints ISO 8601."""
    fields = parse_metric(line(timestamp=told, timesteps_total=400))
    assert fields == {"kind": "iteration", "env_steps": 400, "timestamp": seconds}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("@METRIC", r"Not JSON after @METRIC: .* The line: @METRIC$"),
        ("@METRIC {", r"Not JSON after @METRIC: .* The line: @METRIC \{$"),
        ("@METRIC [1]", r"There is no JSON object after @METRIC\. The line: @METRIC \[1\]$"),
        ("@METRIC " + "[" * 200_000, r"Not JSON after @METRIC"),
        (
            line(kind="resumed"),
            r"A program cannot report the kind 'resumed'\. Known: iteration, episode, evaluation, alert\.",
        ),
        (line(kind=["x"]), r"A program cannot report the kind \['x'\]"),
        (line(env_steps="many"), r"env_steps should be a number, not 'many'\."),
        (line(env_steps=True), r"env_steps should be a number, not True\."),
        (line(env_steps=-1), r"env_steps is a count and cannot be -1\."),
        (line(env_steps=1.5), r"env_steps is a count and cannot be 1\.5\."),
        (line(timesteps_total=math.inf), r"env_steps is a count and cannot be inf\."),
        (line(episode_reward_mean=[1]), r"episode_reward_mean should be a number, not \[1\]\."),
        (line(timestamp="yesterday"), r"timestamp is 'yesterday'; it should be seconds since 1970 or ISO 8601"),
        (line(timestamp=[1]), r"timestamp is \[1\]; it should be"),
        (line(policies=[]), r"policies should be an object, not \[\]\."),
        (line(policies={"a": 3}), r"policies\.a should be an object, not 3\."),
        (line(custom_metrics=4), r"custom_metrics should be an object, not 4\."),
        (line(text="\ud800"), r"cannot be stored: .*surrogates not allowed"),
        (
            "@METRIC " + " " * LONGEST_LINE + "{}",
            r"A metric line of 1048579 characters is too long; the limit is 1048576\.",
        ),
    ],
)
def test_malformed_lines_are_refused_with_their_reason(text: str, reason: str) -> None:
    with pytest.raises(MalformedMetricError, match=reason):
        parse_metric(text)


JSON_LINES = st.dictionaries(
    KEYS | st.sampled_from(["kind", "env_steps", "timesteps_total", "policies", "custom_metrics", "time_split"]),
    VALUES | st.floats(),
    max_size=4,
).map(lambda fields: f"@METRIC {json.dumps(fields)}".encode())


@CALM
@given(st.binary() | st.binary().map(lambda data: b"@METRIC " + data) | JSON_LINES)
@example(b'@METRIC {"a": 1e400}')
@example(b'@METRIC {"a": ' + b"9" * 5000 + b"}")
@example(b'@METRIC {"env_steps": ' + b"9" * 400 + b"}")
def test_nothing_a_program_prints_is_fatal(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    try:
        fields = parse_metric(data)
    except MalformedMetricError:
        return
    if fields is None:
        return
    path = tmp_path_factory.getbasetemp() / "lines.jsonl"
    path.unlink(missing_ok=True)
    with EventWriter(path, attempt=1) as writer:
        writer.report(fields)
    assert [event["seq"] for event in read_events(path)] == [1]


@CALM
@given(st.dictionaries(KEYS.filter(lambda key: key not in {"kind", "seq"}), VALUES, max_size=4))
def test_unknown_fields_come_back_as_custom_metrics(fields: dict[str, Any]) -> None:
    stream = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MOSAIC_METRICS", "1")
        assert emit_metric(stream, env_steps=3, custom_metrics=fields)
    assert stream.getvalue().count("\n") == 1
    parsed = parse_metric(stream.getvalue())
    assert parsed == {"kind": "iteration", "env_steps": 3, **({"custom_metrics": fields} if fields else {})}
    assert parse_metric(line(env_steps=3, **{f"my {key}": value for key, value in fields.items()})) == {
        "kind": "iteration",
        "env_steps": 3,
        **({"custom_metrics": {f"my {key}": value for key, value in fields.items()}} if fields else {}),
    }


def test_nothing_is_printed_unless_somebody_listens(monkeypatch: pytest.MonkeyPatch) -> None:
    for switch in ("MOSAIC_METRICS", "CONTROLLER_METRICS"):
        monkeypatch.delenv(switch, raising=False)
    stream = io.StringIO()
    assert not emit_metric(stream, env_steps=1)
    assert stream.getvalue() == ""
    monkeypatch.setenv("CONTROLLER_METRICS", "1")
    assert emit_metric(stream, env_steps=np.int64(1), loss=np.float32("nan"))
    assert stream.getvalue() == '@METRIC {"env_steps":1,"loss":null}\n'


def test_a_program_prints_to_its_standard_output(tmp_path: Path) -> None:
    program = "from mosaic.telemetry import emit_metric; emit_metric(kind='episode', env_steps=2)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env={**os.environ, "MOSAIC_METRICS": "1"}
    )
    assert parse_metric(done.stdout) == {"kind": "episode", "env_steps": 2}
