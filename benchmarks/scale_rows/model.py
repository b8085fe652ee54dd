"""Tables of docs/scale.md: measured costs, and what they say about many env runners, episodes and runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any, TypeAlias

from rllib_rows.scale import aggregate_s, estimate, runner_s

Costs: TypeAlias = Mapping[str, Any]
Table: TypeAlias = list[Sequence[str]]
ENVS = {"cartpole": "CartPole", "spread": "simple_spread, 3 agents"}
RUNNERS = (1, 10, 100, 1_000)
EPISODES, PACES = 100_000, (0.1, 1.0, 10.0, 60.0)
REPORTS_PER_S, PICTURES_PER_S, CHECKPOINTS_PER_S = 4.0, 30.0, 1 / 60


def tables(costs: Costs) -> str:
    """Return the generated part of the page."""
    parts = [
        (where(costs), parts_table(costs)),
        ("### 10, 100 and 1,000 env runners, computed", runners_table(costs)),
        ("Runners that saturate a part, each with a core of its own:", limits_table(costs)),
        ("### As many env runners as fit here, measured", checked_runners(costs)),
        (f"### {EPISODES:,} open episodes in the policy server, computed", episodes_table(costs)),
        ("### Open episodes, measured", checked_episodes(costs)),
        ("### What a run itself costs, computed", run_table(costs)),
    ]
    return "\n".join(f"{title}\n\n{_markdown(table)}" for title, table in parts)


def where(costs: Costs) -> str:
    """Return machine, load, days and versions; older measurements recorded neither day nor versions."""
    loads = ", ".join(f"{part} {load:g}" for part, load in costs["load"].items())
    said = f"Measured on {costs['machine']}; load of the machine before each part: {loads}."
    if days := ", ".join(f"{part} {day}" for part, day in costs.get("at", {}).items()):
        said += f" Days: {days}; with {_versions(costs['versions'])}."
    return said


def _versions(by_part: Mapping[str, Mapping[str, str]]) -> str:
    """Return the versions, and the parts that were measured with them where these differ."""
    parts: dict[str, list[str]] = {}
    for part, versions in by_part.items():
        parts.setdefault(", ".join(f"{name} {found}" for name, found in versions.items()), []).append(part)
    said = {text: f" ({', '.join(names)})" if len(parts) > 1 else "" for text, names in parts.items()}
    return "; ".join(f"{text}{where}" for text, where in said.items())


def parts_table(costs: Costs) -> Table:
    run, served = costs["run"], costs["server"]
    rows: Table = [
        ("part", "cost"),
        ("`report()` of one metric event", f"{run['report_us']:.1f} µs, {run['event_bytes']:,.0f} bytes"),
        ("an event, read by an attached reader", f"{run['read_us']:.1f} µs"),
        ("FastLane: `wanted()` without a viewer", f"{run['wanted_us']:.2f} µs"),
        ("FastLane: the copy of a picture of 640×480", f"{run['publish_us']:.0f} µs"),
        *pictures_rows(run),
        ("a checkpoint of 100 kB, synced to the disk", f"{run['checkpoint_ms']:.1f} ms by the clock"),
        ("a new run in the store", f"{run['create_ms']:.1f} ms"),
        ("a run read again into the index", f"{run['index_ms']:.1f} ms"),
        ("policy server: a decision over WebSocket, 64 clients", f"{served['ws_us']:.0f} µs of one core"),
        ("policy server: a decision over HTTP, 64 clients", f"{served['http_us']:.0f} µs of one core"),
        ("policy server: the start of an episode", f"{served['start_us']:.0f} µs of one core"),
        ("policy server: memory of an open episode", f"{served['episode_bytes'] / 1000:.1f} kB"),
    ]
    for key, name in ENVS.items():
        seen = costs["runners"][key]
        steps = seen["steps"]
        driver_ms = 1e3 * (2 * seen["call_s"] + aggregate_s(seen))
        rows += [
            (f"env runner, {name}: samples", f"{steps / seen['sample_s']:,.0f} steps/s"),
            (f"env runner, {name}: its message", f"{seen['message_bytes'] / steps:,.0f} bytes a step"),
            (f"env runner, {name}: memory of its own", f"{seen['resident_bytes'] / 2**20:,.0f} MiB"),
            (f"driver, {name}: unpacks", f"{seen['unpack_s'] / steps * 1e6:.1f} µs a step"),
            (f"driver, {name}: calls and metrics", f"{driver_ms:.2f} ms a runner and iteration"),
            (f"learner on one CPU, {name}", f"{steps / seen['update_s']:,.0f} steps/s"),
        ]
    return rows


def pictures_rows(run: Costs) -> Table:
    """Return what else a picture of CartPole costs; older measurements have the copy only."""
    made = {"draw_us": "a picture of CartPole, drawn", "encode_us": "a picture of CartPole, encoded for viewers"}
    return [(what, f"{run[key]:,.0f} µs") for key, what in made.items() if key in run]


def runners_table(costs: Costs) -> Table:
    rows: Table = [("env", "runners", "steps/s", "sampling", "driver", "learner", "to the driver", "memory of runners")]
    for key, name in ENVS.items():
        seen = costs["runners"][key]
        for count in RUNNERS:
            found = estimate(count, dict(seen))
            shares = {part: f"{share:.0%}" for part, share in found.shares.items()}
            most = max(found.shares, key=lambda part: found.shares[part])
            shares[most] = f"**{shares[most]}**"
            traffic = count * seen["message_bytes"] / found.whole_s / 1e6
            memory = count * seen["resident_bytes"] / 2**30
            speed = f"{found.steps / found.whole_s:,.0f}"
            rows.append((name, f"{count:,}", speed, *shares.values(), f"{traffic:,.1f} MB/s", f"{memory:,.1f} GiB"))
    return rows


def limits_table(costs: Costs) -> Table:
    rows: Table = [("env", "the learner", "the driver", "the driver's memory, of all messages an iteration")]
    for key, name in ENVS.items():
        seen = costs["runners"][key]
        full = [f"{each(seen):,.1f}" for each in (learner_full_at, driver_full_at)]
        rows.append((name, *full, f"{seen['message_bytes'] / 1e6:.2f} MB a runner"))
    return rows


def learner_full_at(seen: Costs) -> float:
    """Return the number of runners that together sample as fast as the learner learns."""
    return float(seen["sample_s"] / seen["update_s"])


def driver_full_at(seen: Costs) -> float:
    """Return the number of runners that take the driver as long as one of them samples."""
    return float(seen["sample_s"] / runner_s(seen))


def checked_runners(costs: Costs) -> Table:
    """Compare the model with runs on this machine, whose runners share its cores."""
    seen, cores = costs["runners"]["cartpole"], int(costs["machine"].split()[0])
    rows: Table = [
        (
            "runners, CartPole",
            "driver and learner, a step: computed",
            "measured",
            "steps/s: computed",
            "measured",
            "ratio",
        )
    ]
    for count, measured in sorted((int(count), found) for count, found in costs["measured_runners"].items()):
        found = estimate(count, dict(seen), cores)
        us, per_s = 1e6 * (found.driver_s + found.learner_s) / found.steps, found.steps / found.whole_s
        spent, speed = f"{measured['us']:.0f} µs", f"{measured['per_s']:,.0f}"
        rows.append((str(count), f"{us:.0f} µs", spent, f"{per_s:,.0f}", speed, f"{measured['per_s'] / per_s:.2f}"))
    return rows


def episodes_table(costs: Costs) -> Table:
    served = costs["server"]
    memory = EPISODES * served["episode_bytes"] / 1e9
    rows: Table = [
        (
            "decisions of an episode",
            "of all",
            "cores: WebSocket",
            "cores: HTTP",
            "memory",
            "saturates first, over WebSocket",
        )
    ]
    for pace in PACES:
        asked = EPISODES * pace
        cores = [asked * served[way] / 1e6 for way in ("ws_us", "http_us")]
        first = f"a server's core: {ceil(cores[0]):,} servers" if cores[0] > 1 else "nothing: one server"
        said = (f"{each:,.1f}" for each in cores)
        rows.append((f"{pace:g}/s", f"{asked:,.0f}/s", *said, f"{memory:.1f} GB", first))
    return rows


def checked_episodes(costs: Costs) -> Table:
    rows: Table = [("open episodes", "decisions/s", "CPU of a decision", "p99", "memory of an episode", "opened in")]
    for count, found in sorted((int(count), found) for count, found in costs["measured_episodes"].items()):
        speed, p99 = f"{found['per_s']:,.0f}", f"{found['p99_ms']:.1f} ms"
        memory = f"{found['episode_bytes'] / 1000:.1f} kB"
        rows.append((f"{count:,}", speed, f"{found['cpu_us']:.0f} µs", p99, memory, f"{found['opened_s']:.1f} s"))
    return rows


def run_table(costs: Costs) -> Table:
    run = costs["run"]
    cpu_ms = run.get("checkpoint_cpu_ms")  # costs of older measurements have the time by the clock only
    checkpoint = "a checkpoint a minute" if cpu_ms is not None else "a checkpoint a minute, at most: by the clock"
    each = {
        f"{REPORTS_PER_S:g} reports a second, written and read": REPORTS_PER_S * (run["report_us"] + run["read_us"]),
        checkpoint: CHECKPOINTS_PER_S * (run["checkpoint_ms"] if cpu_ms is None else cpu_ms) * 1e3,
    }
    each["together, without a viewer"] = alone = sum(each.values())
    if pictures_rows(run):
        picture_us = run["draw_us"] + run["publish_us"] + run["encode_us"]
        shown = f"{PICTURES_PER_S:g} pictures a second of CartPole, drawn, copied and encoded for a viewer"
        each[shown] = PICTURES_PER_S * picture_us
        each["together, with a viewer"] = alone + PICTURES_PER_S * picture_us
    else:
        each[f"{PICTURES_PER_S:g} pictures a second, their copy alone"] = PICTURES_PER_S * run["publish_us"]
    rows: Table = [("of one run", "share of a core", "runs that fill one core")]
    return rows + [(what, f"{us / 1e4:.3f} %", f"{1e6 / us:,.0f}") for what, us in each.items()]


def _markdown(table: Iterable[Sequence[str]]) -> str:
    head, *rows = table
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows)]
    return "\n".join(lines) + "\n"
