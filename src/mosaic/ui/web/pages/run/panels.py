"""Text panels of a run: alerts, last evaluation, log, configuration and how that differs from another run's."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from html import escape
from itertools import islice

from nicegui import run

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.ids import Json
from mosaic.store.logs import STREAMS, Stream, WorkerLog
from mosaic.store.run_folder import RunFolder
from mosaic.store.state import State
from mosaic.store.views import RunDetails
from mosaic.telemetry.events.reader import EventTail
from mosaic.ui.cli.evaluation_view import EVALUATION_COLUMNS, evaluation_rows, evaluation_title
from mosaic.ui.cli.group_results import differences, short_key
from mosaic.ui.web.components.icons import icon
from mosaic.ui.web.components.layout import PageLayout
from mosaic.ui.web.components.theme import ago, title
from mosaic.ui.web.components.widgets import Segmented, box, command, empty, panel, raw, select, set_html
from mosaic.ui.web.data.alerts import (
    Alert,
    EventWatch,
    collapse_alert,
    end_alerts,
    plateau_alert,
    silence_alert,
)
from mosaic.ui.web.data.facts import Facts
from mosaic.ui.web.data.progress import time_spent

_LOOK_AGAIN_S = 10.0  # a missing report is also an alert
_HEAR_AGAIN_S = 3.0  # no one can act on an alert sooner


class AlertsPanel:
    def __init__(self, frame: PageLayout, folder: RunFolder) -> None:
        self._folder, self._facts = folder, frame.facts
        self._after = 0
        self._heard: tuple[State, int] | None = None
        self._looked = 0.0
        self._watch = EventWatch()
        self._shown: list[Alert] | None = None
        with panel("Alerts", body="m-body tight"):
            self._box = box()

    async def update(self, details: RunDetails) -> None:
        heard = (details.state, details.last_seq)
        wait_s = _LOOK_AGAIN_S if heard == self._heard else _HEAR_AGAIN_S
        same_state = self._heard is not None and self._heard[0] == details.state
        if same_state and time.monotonic() - self._looked < wait_s:
            return
        self._heard, self._looked = heard, time.monotonic()
        found = await run.io_bound(self._look, details)
        if found is None or self._box.is_deleted or found == self._shown:
            return
        self._shown = found
        self._box.clear()
        with self._box:
            for alert in found:
                raw(
                    f"{icon('alert', alert.level)}<div><div>{escape(alert.text)}</div>"
                    f'<div class="x">{escape(alert.advice)}</div></div>',
                    "r-alert",
                )
            if not found:
                empty("No alerts.")

    def _look(self, details: RunDetails) -> list[Alert]:
        self._read_reports()
        event = details.last_metric or {}
        found = end_alerts(details.state, details.run_id, details.reason)
        usual_s = sum(time_spent(self._facts.iteration(details.run_id)).values())
        found += silence_alert(details.state, event.get("timestamp"), time.time(), usual_s)
        found += self._watch.alerts()
        if details.config.get("policy_configuration") != "self_play":  # there the return tells nothing
            curve = self._facts.trend(details.run_id)
            fell = collapse_alert(curve.x, curve.mean)
            found += fell or plateau_alert(details.state, curve.x, curve.mean)
        reported = [Alert("warn", text, "Reported by the worker.") for text in reversed(self._watch.reported)]
        return found + reported

    def _read_reports(self) -> None:
        if not self._folder.metrics.exists():
            return
        with EventTail(self._folder.metrics, self._after) as tail:
            while events := tail.read():
                self._after = events[-1]["seq"]
                for event in events:
                    self._watch.take(event)


_MOST_OFFERED = 200


class AboutPanel:
    def __init__(self, frame: PageLayout, folder: RunFolder, details: RunDetails) -> None:
        self._facts, self._config = frame.facts, details.config
        with panel("Configuration", classes="r-conf") as end:
            self._list = raw(_list(details), "m-kv", "dl")
            whole = escape(json.dumps(details.config, indent=1, ensure_ascii=False))
            raw(f"<summary>Whole configuration</summary><pre>{whole}</pre>", "r-whole", "details")
            raw("Same run from a terminal", "m-note")
            command(f"mosaic train --config {folder.config}")
            self._differing = box()
            with end:
                self._choice(details.run_id)

    async def update(self, details: RunDetails) -> None:
        """Update the start time and the number of checkpoints, which change while the page is open."""
        set_html(self._list, _list(details))

    def _choice(self, run_id: str) -> None:
        options = {row.run_id: title(row) for row in self._facts.rows() if row.run_id != run_id}
        if options:
            shown = dict(islice(options.items(), _MOST_OFFERED))
            label = "Differences from another run"
            choice = select(shown, None, label=label, on_change=self._compare, clearable=True)
            choice.props('display-value="Differs from…"').style("width:156px")

    def _compare(self, other: str | None) -> None:
        self._differing.clear()
        if other is not None:
            with self._differing:
                there = self._facts.details(other)
                _difference(self._config, there.config, title(there))


def _difference(own: Mapping[str, Json], other: Mapping[str, Json], name: str) -> None:
    found = differences([own, other])
    if not found:
        empty("Both runs have the same configuration.")
        return
    body = "".join(
        f'<tr><td class="muted mono">{_breakable(key)}</td><td>{_value(mine)}</td><td>{_value(theirs)}</td></tr>'
        for key, (mine, theirs) in found.items()
    )
    head = f"<tr><th>Only what differs</th><th>this run</th><th>{escape(name)}</th></tr>"
    raw(f'<table class="m-table dense"><thead>{head}</thead><tbody>{body}</tbody></table>', "m-scroll")


def _breakable(key: str) -> str:
    """Let a long name break after its words, as the column is narrow."""
    return escape(short_key(key)).replace("_", "_<wbr>")


def _list(details: RunDetails) -> str:
    return "".join(f"<dt>{escape(name)}</dt><dd>{value}</dd>" for name, value in _facts(details))


def _facts(details: RunDetails) -> list[tuple[str, str]]:
    config = details.config
    training = config.get("training") or {}
    best = next((each for each in details.checkpoints if each.best), None)
    found = [
        ("Run", f'<span class="mono">{escape(details.run_id)}</span>'),
        (
            "Environment",
            f'<span class="mono">{escape(EnvironmentConfig.model_validate(config["environment"]).id)}</span>',
        ),
        ("Method", escape(" ".join(filter(None, (training.get("worker"), training.get("algorithm")))) or "—")),
        ("Policies", _policies(config)),
        ("Seed", escape(str(config.get("seed", "—")))),
        ("Tags", escape(", ".join(details.tags)) or "—"),
        ("Started", ago(details.attempts[0].started if details.attempts else None, time.time())),
        ("Checkpoints", f"{len(details.checkpoints)}" + (f", best at {best.env_steps:,}" if best else "")),
    ]
    if len(details.attempts) > 1:
        found.append(("Attempts", str(len(details.attempts))))
    found += [(name.replace("_", " "), _value(value)) for name, value in (training.get("params") or {}).items()]
    return found


def _policies(config: Mapping[str, Json]) -> str:
    agents = config.get("agents")
    if isinstance(agents, Mapping) and agents:
        return "<br>".join(f"{escape(str(agent))} → {escape(str(policy))}" for agent, policy in agents.items())
    return escape(str(agents or config.get("policy_configuration") or "—").replace("_", " "))


def _value(value: Json) -> str:
    if value is None:
        return '<span class="faint">—</span>'
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)
    return escape(text if len(text) <= 60 else text[:59] + "…")


_BYTES = 48 << 10
_LINES = 300
_WARNING = re.compile(r"warn|error|exception|traceback|fail|nan\b", re.IGNORECASE)
_COLOUR = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


class LogPanel:
    """Output of the worker, after the phases of its start."""

    def __init__(self, facts: Facts, folder: RunFolder) -> None:
        self._facts, self._folder = facts, folder
        self._phases: list[tuple[float, str]] = []
        self._ends: dict[Stream, int] = {}
        self._texts: dict[Stream, str] = {}
        self._level = "All"
        with panel("Log", body="m-body tight", classes="r-log") as end:
            with end:
                Segmented(["All", "Warnings", "Stderr"], "All", self._choose, "Level")
            with box():
                self._lines = raw("", "m-log").props('tabindex=0 role=log aria-label="Log of the worker"')

    def _choose(self, level: str) -> None:
        self._level = level
        self._show()

    async def update(self, details: RunDetails) -> None:
        phases = await run.io_bound(self._facts.phases, details)
        changed = phases != self._phases
        self._phases = phases or []
        for stream in STREAMS:
            read = await run.io_bound(tail, self._folder, stream, _BYTES)
            if read is None:  # the server is shutting down
                return
            text, end = read
            changed |= self._ends.get(stream) != end
            self._ends[stream], self._texts[stream] = end, text
        if changed and not self._lines.is_deleted:
            self._show()

    def _show(self) -> None:
        streams: tuple[Stream, ...] = ("stderr",) if self._level == "Stderr" else STREAMS
        lines = [line for each in streams for line in self._texts.get(each, "").splitlines() if line.strip()]
        only_warnings = self._level == "Warnings"
        shown = [line for line in lines if not only_warnings or _WARNING.search(line)][-_LINES:]
        nothing = "The worker has printed no warning." if only_warnings else "The worker has printed nothing."
        start = [] if only_warnings or self._level == "Stderr" else [_phase(*phase) for phase in self._phases]
        marked = (f'<span class="{"w" if _WARNING.search(line) else ""}">{escape(line)}</span>' for line in shown)
        printed = "\n".join(marked) or f'<span class="faint">{nothing}</span>'
        self._lines.set_content("\n".join([*start, printed]))
        self._lines.client.run_javascript(
            f"const log = getHtmlElement({self._lines.id}); if (log) log.scrollTop = log.scrollHeight;"
        )


def _phase(when: float, words: str) -> str:
    return f"<time>{time.strftime('%H:%M:%S', time.localtime(when))}</time> <b>{escape(words)}</b>"


def tail(folder: RunFolder, stream: Stream, size: int) -> tuple[str, int]:
    """Return the last whole lines, without terminal colours, and the position after them."""
    part = WorkerLog(folder, stream).read(None, size)
    text, end = part.text()
    if part.start > 0:
        text = text.partition("\n")[2]
    return _COLOUR.sub("", text.replace("\r\n", "\n").replace("\r", "\n")), end


class EvaluationPanel:
    """Every agent of the last evaluation with its policy, its opponents and its results."""

    def __init__(self) -> None:
        with box() as self._whole, panel("Last evaluation", body="m-body tight"):
            self._box = box()
        self._whole.set_visibility(False)
        self._shown: tuple[object, ...] = ()

    async def update(self, details: RunDetails) -> None:
        events = details.last_evaluation
        if events == self._shown or self._box.is_deleted:
            return
        self._shown = events
        self._whole.set_visibility(bool(events))
        self._box.clear()
        with self._box:
            for event in events:
                rows = evaluation_rows(event)
                told = [place for place in range(len(EVALUATION_COLUMNS)) if {row[place] for row in rows} != {"–"}]
                head = "".join(f"<th>{escape(EVALUATION_COLUMNS[place])}</th>" for place in told)
                body = "".join(
                    "<tr>" + "".join(f"<td>{escape(row[place])}</td>" for place in told) + "</tr>" for row in rows
                )
                raw(escape(evaluation_title(event)), "m-note").style("padding:8px 16px 4px")
                raw(
                    f'<table class="m-table dense"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>',
                    "m-scroll",
                )
