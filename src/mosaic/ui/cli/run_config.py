"""Run configurations from command-line input, and the results of ended runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mosaic.ui.cli.backend import BackendRun

if TYPE_CHECKING:
    from mosaic.config.run import RunConfig
    from mosaic.config.sections import TrainingConfig
    from mosaic.store.views import RunDetails
    from mosaic.ui.cli.setting_layers import SettingLayers
    from mosaic.workers.resolution import ResolvedConfig


def resolved(layers: SettingLayers, *, quiet: bool, here: bool = True) -> ResolvedConfig:
    """Merge all layers of settings and fill in what is left open; `here` if the run will be on this machine."""
    if not quiet:
        layers.mention_project()
    return _resolved(layers.document(), layers.overrides, quiet=quiet, here=here)


def read_agents(texts: list[str]) -> dict[str, str] | str | None:
    """Return the setting `agents` for the values of `--agent`: rules, or one function that decides for every agent."""
    from mosaic.core.errors import InputError
    from mosaic.core.user_code import PREFIX
    from mosaic.policies.mapping import PolicyMapping

    functions = [text for text in texts if text.startswith(PREFIX) and "=" not in text]
    if functions and len(texts) > 1:
        raise InputError(f"'{functions[0]}' decides for every agent: leave the other --agent options out.")
    if functions:
        return functions[0]
    rules: dict[str, str] = {}
    for pattern, policy in PolicyMapping.of(texts).rules:
        if rules.setdefault(pattern, policy) != policy:
            raise InputError(f"--agent {pattern}= is given twice, as {rules[pattern]} and {policy}. Leave one out.")
    return rules or None


def _resolved(document: Mapping[str, object], settings: list[str], *, quiet: bool, here: bool) -> ResolvedConfig:
    from mosaic.config.loading import parse_run_config
    from mosaic.core.errors import InputError
    from mosaic.ui.cli.output import note
    from mosaic.workers.resolution import resolve

    if "environment" not in document:
        raise InputError(
            "Name an environment: mosaic train ENV --worker W, a --config file, or a project (mosaic projects create). "
            "Type: mosaic envs"
        )
    asked = parse_run_config(document, settings)
    if here and asked.environment.family == "external":
        from mosaic.envs.families.external import ask_first_program

        asked = asked.model_copy(update={"environment": ask_first_program(asked.environment)})
    configured = resolve(asked)
    if not quiet:
        training = configured.config.training
        if configured.asked.training.worker is None:
            reason = _REASONS.get(training.worker or "", "it offers itself")
            note(f"Picked {training.worker} {training.algorithm}: {reason}.")
        elif configured.asked.training.algorithm is None:
            _mention_algorithm(training)
        _mention_new_policies(configured.config)
        _mention_preset(configured)
        if configured.spec is not None and configured.spec.facts.advice:
            note(configured.spec.facts.advice)
    return configured


_REASONS = {
    "tabular": "the env has few states, and a table learns them fastest",
    "native": "the env has too many states for a table, or what you ask for needs a network",
}


def _mention_algorithm(training: TrainingConfig) -> None:
    """Name the algorithm if the worker chose another one for this env than it has elsewhere."""
    from mosaic.ui.cli.output import note
    from mosaic.workers.registry import load_worker

    elsewhere = load_worker(training.worker or "").info.algorithms[0]
    if training.algorithm != elsewhere:
        note(f"Picked {training.algorithm}: the default of the worker {training.worker} in this env, not {elsewhere}.")


def _mention_new_policies(config: RunConfig) -> None:
    """Name the policies that --agent creates, so that a misspelt name is noticed."""
    from mosaic.core.plugins import plugins
    from mosaic.core.reference import split_reference
    from mosaic.ui.cli.output import note

    said = config.agents.values() if not isinstance(config.agents, str) else ()
    known = plugins("mosaic.policies")
    new = [
        name for name in dict.fromkeys(said) if split_reference(name)[0] not in known and not name.startswith("self@")
    ]
    if new:
        note(f"New policies that learn: {', '.join(new)}. Policies that exist: mosaic policies")


def _mention_preset(configured: ResolvedConfig) -> None:
    """Print where options come from; the preset's result is promised only for the settings that were tried."""
    from mosaic.ui.cli.output import note
    from mosaic.workers.presets import departures, find_preset

    config, training = configured.config, configured.config.training
    preset = find_preset(config.environment.id, training.worker or "", training.algorithm or "")
    if not training.preset or preset is None:
        return
    different = departures(configured.asked, preset, configured.usual_policies)
    result = preset.backing.result
    if different:
        result = f"tried with other settings, so its result is not guaranteed here; different: {', '.join(different)}"
    note(
        f"Options that you left open come from the preset for {preset.env} ({result}). "
        "Without it: --set training.preset=false"
    )


def result(run: BackendRun) -> dict[str, Any]:
    """Return what `mosaic train --json` prints about an ended run."""
    from mosaic.runs.train import times

    details = run.show()
    last = details.last_metric or {}
    spent = times(run.events(), details.queued_at)
    steps = details.env_steps or 0
    return {
        "run_id": details.run_id,
        "state": str(details.state),
        "reason": details.reason,
        "env_steps": steps,
        "agent_steps": last.get("agent_steps"),
        "episodes_total": last.get("episodes_total"),
        "startup_s": spent.startup_s,
        "train_s": spent.train_s,
        "time_to_stop_s": spent.time_to_stop_s,
        "wall_time_s": _wall_time(details),
        "env_steps_per_s": steps / spent.train_s if spent.train_s else None,
        "episode_reward_mean": last.get("episode_reward_mean"),
        "checkpoint": details.checkpoints[-1].path if details.checkpoints else None,
        "policies": last.get("policies") or {},
    }


def unsaved_work(details: RunDetails) -> str | None:
    """Return a message that a run was killed and what was lost; None where it stopped by itself."""
    if not details.attempts or not details.attempts[-1].forced:
        return None
    saved = f"its last checkpoint, at {details.checkpoints[-1].env_steps:,} env steps" if details.checkpoints else None
    lost = f"What it did after {saved} is lost" if saved else "It has no checkpoint: everything it did is lost"
    return (
        f"The run {details.run_id} did not stop by itself: {details.reason}. {lost}. "
        "To give a run more time to save: mosaic runs stop RUN --patience SECONDS"
    )


def show_result(results: list[dict[str, Any]]) -> None:
    from mosaic.ui.cli.output import print_table, short

    rows = [
        [
            row["run_id"],
            row["state"],
            short(row["env_steps"]),
            "–" if row["env_steps_per_s"] is None else short(row["env_steps_per_s"]),
            "–" if row["episode_reward_mean"] is None else f"{row['episode_reward_mean']:.4g}",
            "–" if row["train_s"] is None else f"{row['train_s']:.1f} s",
        ]
        for row in results
    ]
    columns = ["run", "state", "steps", "per s", "reward", "time"]
    print_table("Result" if len(rows) == 1 else f"Group of {len(rows)} seeds", columns, rows, columns[2:])


def _wall_time(details: RunDetails) -> float | None:
    spans = [a.ended - a.started for a in details.attempts if a.started is not None and a.ended is not None]
    return sum(spans) if spans else None
