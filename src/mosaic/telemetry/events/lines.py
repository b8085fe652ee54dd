"""Metric lines: `@METRIC {json}` on standard output, with which a program in any language reports metrics."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from datetime import datetime
from typing import TextIO

from mosaic.core.errors import FormatError, MosaicError
from mosaic.telemetry.events.event import COUNTERS, MEASURES, PolicyMetrics, TimeSplit, encode, is_number

MARK = "@METRIC"
SWITCHES = ("MOSAIC_METRICS", "CONTROLLER_METRICS")
KINDS = ("iteration", "episode", "evaluation", "alert")
"""Kinds a program may report. `resumed` and `checkpoint` are reserved: they decide what is shown and kept."""
LONGEST_LINE = 1 << 20

_POLICY_FIELDS = frozenset(PolicyMetrics.__annotations__)
_TIME_FIELDS = frozenset(TimeSplit.__annotations__)


class MalformedMetricError(FormatError):
    """Line that begins like a metric but is not one."""


def parse_metric(line: str | bytes) -> dict[str, object] | None:
    """Return the event's fields in a line `@METRIC {json}`; None for other lines."""
    text = line.decode("utf-8", "replace") if isinstance(line, bytes) else line
    text = text.strip()
    if not text.startswith(MARK):
        return None
    body = text[len(MARK) :]
    if body and not body[0].isspace() and body[0] != "{":
        return None  # @METRICS and the like
    if len(body) > LONGEST_LINE:
        raise MalformedMetricError(f"A metric line of {len(body)} characters is too long; the limit is {LONGEST_LINE}.")
    try:
        data = json.loads(body)  # accepts NaN and Infinity too: most programs print them
    except (ValueError, RecursionError) as error:
        raise MalformedMetricError(f"Not JSON after {MARK}: {error}. The line: {_short(text)}") from error
    if not isinstance(data, dict):
        raise MalformedMetricError(f"There is no JSON object after {MARK}. The line: {_short(text)}")
    fields = event_fields(data)
    try:
        encode(fields)
    except MosaicError as error:
        raise MalformedMetricError(f"{error} The line: {_short(text)}") from error
    return fields


def event_fields(data: Mapping[str, object]) -> dict[str, object]:
    """Convert a program's object to fields of an event; unknown ones become custom metrics."""
    given = dict(data)
    kind = given.pop("kind", "iteration")
    if kind not in KINDS:
        raise MalformedMetricError(f"A program cannot report the kind {kind!r}. Known: {', '.join(KINDS)}.")
    if "timesteps_total" in given and given.get("env_steps") is None:
        given["env_steps"] = given.pop("timesteps_total")
    fields: dict[str, object] = {"kind": kind}
    for name in COUNTERS:
        if (count := _number(given, name)) is not None:
            fields[name] = _whole(name, count)
    for name in MEASURES:
        if (number := _number(given, name)) is not None:
            fields[name] = number
    if (moment := _moment(given.pop("timestamp", None))) is not None:
        fields["timestamp"] = moment
    if kind == "alert" and isinstance(given.get("message"), str):
        fields["message"] = given.pop("message")
    if split := _object(given, "time_split"):
        fields["time_split"] = {key: split.pop(key) for key in _TIME_FIELDS & split.keys()}
        given |= {f"time_split/{key}": value for key, value in split.items()}
    if policies := _object(given, "policies"):
        fields["policies"] = {policy: _policy(policy, block) for policy, block in policies.items()}
    if custom := _object(given, "custom_metrics") | given:
        fields["custom_metrics"] = custom
    return fields


def emit_metric(stream: TextIO | None = None, /, **fields: object) -> bool:
    """Print a metric line if MOSAIC_METRICS or CONTROLLER_METRICS is 1; return whether it was printed.

    ```python
    emit_metric(env_steps=4096, episode_reward_mean=21.5, policies={"left": {"reward_mean": 3.0}}, loss=0.25)
    emit_metric(kind="episode", env_steps=4100, reward=20.0, length=87)
    ```
    """
    if not any(os.environ.get(switch) == "1" for switch in SWITCHES):
        return False
    stream = stream or sys.stdout
    stream.write(f"{MARK} {encode(fields).decode()}\n")  # one write: lines of two threads do not mix
    stream.flush()
    return True


def _policy(policy: str, block: object) -> dict[str, object]:
    if not isinstance(block, dict):
        raise MalformedMetricError(f"policies.{policy} should be an object, not {_short(repr(block))}.")
    known = {name: value for name, value in block.items() if name in _POLICY_FIELDS - {"custom_metrics"}}
    others = {name: value for name, value in block.items() if name not in _POLICY_FIELDS}
    custom = _object(dict(block), "custom_metrics") | others
    return {**known, "custom_metrics": custom} if custom else known


def _object(given: dict[str, object], name: str) -> dict[str, object]:
    """Remove and return the field; an empty dict where it is missing or null."""
    value = given.pop(name, None)
    if value is not None and not isinstance(value, dict):
        raise MalformedMetricError(f"{name} should be an object, not {_short(repr(value))}.")
    return dict(value or {})


def _number(given: dict[str, object], name: str) -> int | float | None:
    """Remove and return the field; None where it is missing or null."""
    value = given.pop(name, None)
    if value is not None and not is_number(value):
        raise MalformedMetricError(f"{name} should be a number, not {_short(repr(value))}.")
    return value


def _moment(value: object) -> int | float | None:
    """Return seconds since 1970, from a number or from ISO 8601 text; text without a time zone is local time."""
    if value is None or is_number(value):
        return value
    try:
        return datetime.fromisoformat(str(value)).timestamp()
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise MalformedMetricError(
            f"timestamp is {_short(repr(value))}; it should be seconds since 1970 or ISO 8601: "
            f"2026-01-31T12:00:00+00:00."
        ) from error


def _whole(name: str, value: int | float) -> int:
    if value != value or value in (float("inf"), float("-inf")) or value != int(value) or not 0 <= value < 2**63:
        raise MalformedMetricError(f"{name} is a count and cannot be {_short(repr(value))}.")
    return int(value)


def _short(text: str) -> str:
    return text if len(text) <= 200 else f"{text[:200]}…"
