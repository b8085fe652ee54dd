"""Bottlenecks with 100 and 1,000 env runners, computed from the measured cost of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from figures import note_figure
from ppo_rows.measure import Plan
from rllib_rows.asking import ask
from rllib_rows.speed import CARTPOLE, SPREAD

MANY = 100


def scale(plan: Plan) -> None:
    for question in (CARTPOLE, SPREAD):
        seen = ask("scale_probe.py", {**question, "runners": 1, "seed": 0, "steps": 0})
        _show(question["env"], seen)
        note_figure(f"{question['env']}: one env runner samples", "steps/s", [seen["steps"] / seen["sample_s"]])
        note_figure(f"{question['env']}: the learner on one CPU", "steps/s", [seen["steps"] / seen["update_s"]])
        for runners in (1, 2, 10, 100, 1000):
            _compute(runners, seen)
            found = estimate(runners, seen)
            speed = found.steps / found.whole_s
            note_figure(f"{question['env']}: {runners:,} env runners, computed", "steps/s", [speed])


def _show(env: str, seen: dict[str, Any]) -> None:
    steps = seen["steps"]
    print(f"{env}, one env runner, {steps:,} env steps an iteration")
    print(f"  runner: {steps / seen['sample_s']:,.0f} steps/s, {seen['resident_bytes'] / 2**20:,.0f} MiB of its own")
    print(
        f"  message: {seen['message_bytes'] / steps:,.0f} bytes a step, metrics {seen['metrics_bytes']:,.0f} bytes; "
        f"weights {seen['weights_bytes']:,.0f} bytes"
    )
    print(
        f"  driver: unpack {seen['unpack_s'] / steps * 1e6:.1f} µs a step; metrics {aggregate_s(seen) * 1e3:.2f} ms, "
        f"each of two calls {seen['call_s'] * 1e3:.2f} ms a runner; weights {seen['sync_s'] * 1e3:.2f} ms"
    )
    print(
        f"  learner: {steps / seen['update_s']:,.0f} steps/s with all epochs, "
        f"{steps / seen['one_epoch_s']:,.0f} with one",
        flush=True,
    )


def aggregate_s(seen: Mapping[str, Any]) -> float:
    """Return the driver's time for the metrics of one runner; 0 where it is below what the measurement can tell."""
    return max(0.0, float(seen["aggregate_many_s"] - seen["copy_many_s"]) / MANY)


def runner_s(seen: Mapping[str, Any]) -> float:
    """Return the driver's time for one runner in an iteration: its message, its metrics, and two calls.

    One asks for samples, one sends the weights (`EnvRunnerGroup.sync_weights` calls `set_state` of each runner).
    """
    return float(seen["unpack_s"] + aggregate_s(seen) + 2 * seen["call_s"])


class Estimate(NamedTuple):
    """One iteration of PPO with several env runners: its env steps, and the seconds of its three parts."""

    steps: float
    sampling_s: float
    driver_s: float
    learner_s: float

    @property
    def whole_s(self) -> float:
        return self.sampling_s + self.driver_s + self.learner_s

    @property
    def shares(self) -> dict[str, float]:
        parts = {"sampling": self.sampling_s, "driver": self.driver_s, "learner": self.learner_s}
        return {name: part / self.whole_s for name, part in parts.items()}


def estimate(runners: int, seen: dict[str, Any], cores: int | None = None) -> Estimate:
    """Compute an iteration: every runner samples as much as the one did, and the driver works for each of them.

    Every runner has a core of its own, or runners share the cores of a machine that has fewer. What weights cost was
    measured with one runner, and contains its call.
    """
    weights_s = max(0.0, seen["sync_s"] - seen["call_s"])
    return Estimate(
        runners * seen["steps"],
        seen["sample_s"] * max(1.0, runners / (cores or runners)),
        runners * runner_s(seen) + weights_s,
        runners * seen["update_s"],
    )


def _compute(runners: int, seen: dict[str, Any]) -> None:
    found = estimate(runners, seen)
    said = ", ".join(f"{name} {part:.0%}" for name, part in found.shares.items())
    traffic = runners * seen["message_bytes"] / found.whole_s / 2**20
    speed = found.steps / found.whole_s
    print(
        f"  {runners:5} runners: {speed:10,.0f} steps/s ({said}), {traffic:,.1f} MiB/s to the driver, "
        f"{runners * seen['weights_bytes'] / 2**20:,.1f} MiB of weights an iteration",
        flush=True,
    )
