"""What tests of runs ask for, and how they look at what came of it."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, sleep
from typing import Any

from mosaic.runs.run import Run
from mosaic.telemetry.events.reader import visible

LONG = 10**9  # env steps that are never reached


def toy(env_steps: int = LONG, iteration_s: float = 0.01, seed: int = 5, **sections: Any) -> dict[str, Any]:
    params = {"iteration_s": iteration_s}
    return {
        "environment": {"env_id": "gym/CartPole-v1"},
        "seed": seed,
        "training": {"worker": "toy", "total_timesteps": env_steps, "params": params},
        **sections,
    }


def asked_of(worker: str, algorithm: str, params: dict[str, Any] | None = None, **sections: Any) -> dict[str, Any]:
    training = {"worker": worker, "algorithm": algorithm, "params": params or {}}
    return {"environment": {"env_id": "gym/CartPole-v1"}, "training": training, **sections}


def curve(run: Run) -> list[tuple[int, float]]:
    """What a reader sees of the run's rewards, without events that only the clock made due."""
    events = [event for event in visible(run.events()) if event.get("trigger") != "clock"]
    return [(e["env_steps"], e["episode_reward_mean"]) for e in events if e["kind"] == "iteration"]  # type: ignore[misc]


def assert_no_gap(run: Run) -> None:
    """Every event is there once."""
    numbers = [event["seq"] for event in run.events()]
    assert numbers == list(range(1, len(numbers) + 1))


def eventually(true: Callable[[], bool], within_s: float = 60.0) -> bool:
    """Whether it became true before the deadline; another process decides."""
    deadline_s = monotonic() + within_s
    while not true():
        if monotonic() > deadline_s:
            return False
        sleep(0.02)
    return True


def first_event(run: Run) -> None:
    """Returns when the worker has trained a little."""
    next(event for event in run.events(follow=True) if event["kind"] == "iteration")
