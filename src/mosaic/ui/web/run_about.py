"""How a run was asked for, and in what it differs from another."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from html import escape
from typing import Any

from mosaic.config.environment import EnvironmentConfig
from mosaic.server.answers import RunDetails
from mosaic.store.layout import RunFolder
from mosaic.ui.cli.differences import differences
from mosaic.ui.web.layout import Frame
from mosaic.ui.web.run_words import title
from mosaic.ui.web.theme import ago
from mosaic.ui.web.widgets import box, command, empty, panel, raw, select


def about_panel(frame: Frame, folder: RunFolder, details: RunDetails) -> None:
    with panel("Configuration", classes="r-conf") as end:
        facts = "".join(f"<dt>{escape(name)}</dt><dd>{value}</dd>" for name, value in _facts(details))
        raw(facts, "m-kv", "dl")
        whole = escape(json.dumps(details.config, indent=1, ensure_ascii=False))
        raw(f"<summary>Whole configuration</summary><pre>{whole}</pre>", "r-whole", "details")
        raw("The same again from a terminal", "m-note")
        command(f"mosaic train --config {folder.config}")
        differing = box()

        def compare(other: str | None) -> None:
            differing.clear()
            if other is not None:
                with differing:
                    there = frame.facts.details(other)
                    _difference(details.config, there.config, str(there.config.get("name") or other))

        with end:
            rows = [row for row in frame.facts.rows() if row.run_id != details.run_id][:200]
            if rows:
                options = {row.run_id: title(row) for row in rows}
                choice = select(options, None, label="Differences from another run", on_change=compare, clearable=True)
                choice.props('display-value="Differs from…"').style("width:156px")


def _difference(own: Mapping[str, Any], other: Mapping[str, Any], name: str) -> None:
    found = differences([own, other])
    if not found:
        empty("Both runs were asked for in the same way.")
        return
    body = "".join(
        f'<tr><td class="muted mono">{escape(key)}</td><td>{_value(mine)}</td><td>{_value(theirs)}</td></tr>'
        for key, (mine, theirs) in found.items()
    )
    head = f"<tr><th>Only what differs</th><th>this run</th><th>{escape(name)}</th></tr>"
    raw(f'<table class="m-table dense"><thead>{head}</thead><tbody>{body}</tbody></table>', "m-scroll")


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
        ("Tags", escape(", ".join(config.get("tags") or ())) or "—"),
        ("Started", ago(details.attempts[0].started if details.attempts else None, time.time())),
        ("Checkpoints", f"{len(details.checkpoints)}" + (f", best at {best.env_steps:,}" if best else "")),
    ]
    if len(details.attempts) > 1:
        found.append(("Attempts", str(len(details.attempts))))
    found += [(name.replace("_", " "), _value(value)) for name, value in (training.get("params") or {}).items()]
    return found


def _policies(config: Mapping[str, Any]) -> str:
    agents = config.get("agents")
    if isinstance(agents, Mapping) and agents:
        return "<br>".join(f"{escape(str(agent))} → {escape(str(policy))}" for agent, policy in agents.items())
    return escape(str(agents or config.get("policy_configuration") or "—").replace("_", " "))


def _value(value: Any) -> str:
    if value is None:
        return '<span class="faint">—</span>'
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)
    return escape(text if len(text) <= 60 else text[:59] + "…")
