"""What a checked draft will do, and how long that took before."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

from mosaic.config.run import RunConfig
from mosaic.server.answers import RunDetails
from mosaic.store.state import State
from mosaic.store.summary import RunSummary
from mosaic.ui.web.env_looks import look_at
from mosaic.ui.web.facts import Facts
from mosaic.ui.web.progress import wall_s
from mosaic.ui.web.run_words import title
from mosaic.ui.web.theme import count, duration, env_title
from mosaic.workers.presets import Preset, find_preset


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a run of the same kind was."""

    name: str
    steps_per_s: float
    start_s: float  # before and after its steps: processes, compilers, evaluations

    def takes_s(self, env_steps: int) -> float:
        return self.start_s + env_steps / self.steps_per_s


def pace_of(name: str, details: RunDetails, iteration: Mapping[str, Any], now: float) -> Pace | None:
    """From what it took in all and the speed that it told last; None where it told none."""
    speed, steps = iteration.get("env_steps_per_s"), details.env_steps
    if not speed or not steps:
        return None
    return Pace(name, float(speed), max(0.0, wall_s(details, now) - steps / speed))


def find_pace(config: RunConfig, facts: Facts) -> Pace | None:
    """Of the newest run here that trained in the same env in the same way."""
    wanted = (config.environment.id, config.training.worker, config.training.algorithm)
    for row in facts.rows():
        if (row.env, row.worker, row.algorithm) == wanted and _tells(row):
            pace = pace_of(title(row), facts.details(row.run_id), facts.iteration(row.run_id), time.time())
            if pace is not None:
                return pace
    return None


def _tells(row: RunSummary) -> bool:
    return row.state in (State.FINISHED, State.STOPPED) and not row.imported


def time_words(config: RunConfig, pace: Pace | None, seeds: int) -> str:
    if pace is None:
        return "not known: no such run has ended here yet"
    steps = config.training.total_timesteps
    speed = f"{pace.steps_per_s:,.0f} env steps/s, as {pace.name}"
    return f"about {duration(pace.takes_s(steps))}{' each' if seeds > 1 else ''} at {speed}" if steps else speed


def is_backed(config: RunConfig, preset: Preset) -> bool:
    """Whether what was tried for the preset is what is asked for; anything else may end otherwise."""
    training, environment = config.training, config.environment
    look = look_at(environment.id)
    usual = "self_play" if look.turn_based and look.competitive else "parameter_sharing"
    return (
        not (config.agents or environment.options or environment.wrappers)
        and (len(look.agents) == 1 or config.policy_configuration in (None, usual))
        and environment.num_envs in (None, preset.num_envs)
        and (training.total_timesteps is None or training.total_timesteps >= preset.total_timesteps)
        and all(preset.params.get(name) == value for name, value in training.params.items())
    )


def plan_html(config: RunConfig, pace: Pace | None, seeds: int) -> str:
    training = config.training
    ends = [
        f"{count(training.total_timesteps)} env steps" if training.total_timesteps else "",
        f"{count(training.episodes)} episodes" if training.episodes else "",
        f"a mean return of {training.stop_reward:g}" if training.stop_reward is not None else "",
    ]
    preset = find_preset(config.environment.id, training.worker or "", training.algorithm or "")
    tuned = preset if training.preset else None
    rows = {
        "Method": f"{training.worker} · {training.algorithm}",
        "Policies": (config.policy_configuration or "the worker's own").replace("_", " "),
        "Ends after": " or ".join(end for end in ends if end) or "the worker's own limit",
        "Runs": f"{seeds} with different seeds" if seeds > 1 else "",
        "Time": time_words(config, pace, seeds),
        "Options": f"tuned for {env_title(tuned.env)}" if tuned else "",
        "Known to give": tuned.backing.result if tuned and is_backed(config, tuned) else "",
    }
    return "".join(f"<dt>{name}</dt><dd>{escape(words)}</dd>" for name, words in rows.items() if words)
