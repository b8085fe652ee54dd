"""Bottlenecks with 100 and 1,000 env runners, computed from the measured cost of one."""

from __future__ import annotations

from typing import Any

from ppo_rows.measure import Plan
from rllib_rows.asking import ask
from rllib_rows.speed import CARTPOLE, SPREAD

MANY = 100


def scale(plan: Plan) -> None:
    for question in (CARTPOLE, SPREAD):
        seen = ask("scale_probe.py", {**question, "runners": 1, "seed": 0, "steps": 0})
        _show(question["env"], seen)
        for runners in (1, 2, 10, 100, 1000):
            _compute(runners, seen)


def _show(env: str, seen: dict[str, Any]) -> None:
    steps = seen["steps"]
    aggregate_s = (seen["aggregate_many_s"] - seen["copy_many_s"]) / MANY
    print(f"{env}, one env runner, {steps:,} env steps an iteration")
    print(f"  runner: {steps / seen['sample_s']:,.0f} steps/s, {seen['resident_bytes'] / 2**20:,.0f} MiB of its own")
    print(
        f"  message: {seen['message_bytes'] / steps:,.0f} bytes a step, metrics {seen['metrics_bytes']:,.0f} bytes; "
        f"weights {seen['weights_bytes']:,.0f} bytes"
    )
    print(
        f"  driver: unpack {seen['unpack_s'] / steps * 1e6:.1f} µs a step; metrics {aggregate_s * 1e3:.2f} ms, "
        f"call {seen['call_s'] * 1e3:.2f} ms a runner; weights {seen['sync_s'] * 1e3:.2f} ms"
    )
    print(
        f"  learner: {steps / seen['update_s']:,.0f} steps/s with all epochs, "
        f"{steps / seen['one_epoch_s']:,.0f} with one",
        flush=True,
    )


def _compute(runners: int, seen: dict[str, Any]) -> None:
    """Print an estimate: every runner samples as much as the one did, and the driver's work grows with their number."""
    steps = runners * seen["steps"]
    aggregate_s = (seen["aggregate_many_s"] - seen["copy_many_s"]) / MANY
    driver_s = runners * (seen["unpack_s"] + aggregate_s + seen["call_s"]) + seen["sync_s"]
    learner_s = runners * seen["update_s"]
    whole_s = seen["sample_s"] + driver_s + learner_s
    shares = {"sampling": seen["sample_s"], "driver": driver_s, "learner": learner_s}
    said = ", ".join(f"{name} {part / whole_s:.0%}" for name, part in shares.items())
    traffic = steps * seen["message_bytes"] / seen["steps"] / whole_s / 2**20
    print(
        f"  {runners:5} runners: {steps / whole_s:10,.0f} steps/s ({said}), {traffic:,.1f} MiB/s to the driver, "
        f"{runners * seen['weights_bytes'] / 2**20:,.1f} MiB of weights an iteration",
        flush=True,
    )
