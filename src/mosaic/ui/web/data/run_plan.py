"""Plan and time estimate of a checked draft, based on earlier runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from html import escape

from mosaic.config.loading import parse_run_config
from mosaic.config.run import RunConfig
from mosaic.core.errors import InputError
from mosaic.core.ids import Json, JsonObject
from mosaic.store.index.summary import RunSummary
from mosaic.store.state import State
from mosaic.store.views import RunDetails
from mosaic.ui.web.components.theme import count, duration, env_title, title
from mosaic.ui.web.data.env_info import look_at
from mosaic.ui.web.data.facts import Facts
from mosaic.ui.web.data.progress import Iteration, wall_s
from mosaic.workers.presets import Preset, departures, find_preset
from mosaic.workers.registry import load_worker, parse_params


@dataclass(frozen=True, slots=True)
class SpeedEstimate:
    """Speed of an earlier run of the same kind."""

    name: str
    steps_per_s: float
    start_s: float  # before and after its steps: processes, compilers, evaluations

    def takes_s(self, env_steps: int) -> float:
        return self.start_s + env_steps / self.steps_per_s


def pace_of(name: str, details: RunDetails, iteration: Iteration, now: float) -> SpeedEstimate | None:
    """Return a run's pace from its wall time and the speed it reported last; None where it reported none."""
    speed, steps = iteration.get("env_steps_per_s"), details.env_steps
    if not speed or not steps:
        return None
    return SpeedEstimate(name, float(speed), max(0.0, wall_s(details, now) - steps / speed))


def find_pace(config: RunConfig, facts: Facts) -> SpeedEstimate | None:
    """Return the pace of the newest run here that trained in the same env with the same settings."""
    wanted, speed = (config.environment.id, config.training.worker, config.training.algorithm), _speed_settings(config)
    for row in facts.rows():
        if (row.env, row.worker, row.algorithm) != wanted or not _tells(row):
            continue
        details = facts.details(row.run_id)
        try:
            if not _is_met(speed, _speed_settings(parse_run_config(details.config))):
                continue
        except InputError:  # from another version, with settings that are not known any more
            continue
        pace = pace_of(title(row), details, facts.iteration(row.run_id), time.time())
        if pace is not None:
            return pace
    return None


def _is_met(asked: Json, ran: Json) -> bool:
    """Return whether a run had every requested setting; those left open are resolved when a run starts."""
    if isinstance(asked, Mapping) and isinstance(ran, Mapping):
        return all(_is_met(value, ran.get(key)) for key, value in asked.items())
    return asked is None or asked == ran


def _speed_settings(config: RunConfig) -> JsonObject:
    """Return the settings that decide a run's speed: the env, the mapping, the worker's options and the resources."""
    training = config.training
    worker = load_worker(training.worker or "")
    options = parse_params(worker, training.algorithm or worker.info.algorithms[0], dict(training.params))
    return {
        "environment": config.environment.model_dump(mode="json"),
        "policies": config.policy_configuration,
        "agents": config.agents,
        "policies_to_train": config.policies_to_train,
        "options": options.model_dump(mode="json"),
        "resources": config.resources.model_dump(mode="json", exclude={"max_wall_s", "max_memory_mb"}),
        "evaluation": config.evaluation.model_dump(mode="json"),
        "frames": config.telemetry.frames,
    }


def _tells(row: RunSummary) -> bool:
    return row.state in (State.FINISHED, State.STOPPED) and not row.imported


def time_words(config: RunConfig, pace: SpeedEstimate | None, seeds: int) -> str:
    if pace is None:
        return "unknown: no comparable run has ended here yet"
    steps = config.training.total_timesteps
    speed = f"{count(pace.steps_per_s)} env steps/s, as {pace.name}"
    return f"about {duration(pace.takes_s(steps))}{' each' if seeds > 1 else ''} at {speed}" if steps else speed


def _promise(config: RunConfig, preset: Preset) -> str:
    look = look_at(config.environment.id)
    usual = "self_play" if look.turn_based and look.competitive else "parameter_sharing"
    if len(look.agents) == 1:
        usual = config.policy_configuration or usual
    return preset.backing.result if not departures(config, preset, usual) else ""


def plan_html(config: RunConfig, pace: SpeedEstimate | None, seeds: int) -> str:
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
        "Known to give": _promise(config, tuned) if tuned else "",
    }
    return "".join(f"<dt>{name}</dt><dd>{escape(words)}</dd>" for name, words in rows.items() if words)
