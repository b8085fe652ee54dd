"""Training in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

from mosaic.config.loading import dump_run_config, parse_run_config
from mosaic.config.run import RunConfig
from mosaic.core.errors import MosaicError
from mosaic.core.interrupts import ctrl_c_kept
from mosaic.envs.objects import Environment, stored_environment
from mosaic.runs.run import Run
from mosaic.runs.trainer import Asked, Trainer, read_config
from mosaic.store.state import ENDED, State
from mosaic.telemetry.events.event import MetricEvent

_FILES = (".json", ".yaml", ".yml", ".toml")


class RunFailedError(MosaicError):
    """Error for training that ended before it was done without having been stopped."""


Callback: TypeAlias = Callable[[MetricEvent], object]


def train(
    asked: Asked | Environment,
    *,
    worker: str | None = None,
    algorithm: str | None = None,
    total_timesteps: int | None = None,
    episodes: int | None = None,
    stop_reward: float | None = None,
    params: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    wrappers: Sequence[str] | None = None,
    policies: str | None = None,
    agents: Mapping[str, str] | None = None,
    runtime: str | None = None,
    num_workers: int | None = None,
    seed: int | None = None,
    seeds: int | None = None,
    name: str | None = None,
    callbacks: Callback | Sequence[Callback] = (),
    home: Path | None = None,
) -> Any:
    """Train until done and return the Run; arguments take precedence over the configuration.

    `asked` is an env's id, a registered Gymnasium id, an env object, a class or function that makes one (also one
    defined in a script or notebook), or a configuration. `params` are the algorithm's options, `options` and `wrappers`
    the env's, `policies` the policy configuration, `agents` maps agents to policies. With `seeds`, this many runs that
    differ in the seed are trained one after the other, and a list of them is returned.

    `callbacks` are called with every metric event during the run; one that returns False stops it. Ctrl-C stops the run
    and saves; `run.resume()` continues it.
    """
    trainer = Trainer(home)
    training = {
        "worker": worker,
        "algorithm": algorithm,
        "total_timesteps": total_timesteps,
        "episodes": episodes,
        "stop_reward": stop_reward,
        "params": None if params is None else dict(params),
    }
    sections: dict[str, dict[str, Any]] = {
        "training": training,
        "environment": {"wrappers": None if wrappers is None else list(wrappers)},
        "resources": {"runtime": runtime, "num_workers": num_workers},
    }
    top = {
        "seed": seed,
        "name": name,
        "policy_configuration": policies,
        "agents": None if agents is None else dict(agents),
    }
    config = _with(_config(asked, trainer.store.home, dict(options or {})), sections, top)
    told = (callbacks,) if callable(callbacks) else tuple(callbacks)
    if seeds is not None:
        return [_finish(run, told) for run in trainer.submit_group(config, seeds, start=False)]
    return _finish(trainer.submit(config, start=False), told)


def _finish(run: Run, callbacks: tuple[Callback, ...]) -> Run:
    """Start a run and wait for its end."""
    try:
        with ctrl_c_kept():
            run.start()
            if callbacks:
                _tell(run, callbacks)
            state = run.wait()
    except KeyboardInterrupt:
        run.stop(reason="Ctrl-C")
        raise
    except Exception:  # raised by a callback: nothing would watch the run any more
        if run.state not in ENDED:
            run.stop(reason="a callback failed")
        raise
    if state in (State.FAILED, State.LOST):
        raise RunFailedError(
            f"The run {run.id} {state}: {run.reason or 'see its log'}. Its log: mosaic runs log {run.id}"
        )
    return run


def _tell(run: Run, callbacks: tuple[Callback, ...]) -> None:
    """Pass on events until the run has ended or a callback returns False."""
    for event in run.events(follow=True):
        for callback in callbacks:
            if callback(event) is False:
                if run.state not in ENDED:
                    run.stop(reason="a callback asked to")
                return


def _config(asked: Asked | Environment, home: Path, options: dict[str, Any]) -> RunConfig:
    """Read a configuration; a string without a settings file's suffix is an env's id, any other object is an env."""
    is_file = isinstance(asked, PathLike) or (isinstance(asked, str) and asked.lower().endswith(_FILES))
    if not is_file and not isinstance(asked, RunConfig | Mapping):
        environment = stored_environment(asked, home, options)
        return parse_run_config({"environment": environment.model_dump(mode="json")})
    config = read_config(cast(Asked, asked))
    return _with(config, {"environment": {"options": {**config.environment.options, **options} or None}}, {})


def _with(config: RunConfig, sections: Mapping[str, Mapping[str, Any]], top: Mapping[str, Any]) -> RunConfig:
    document = dump_run_config(config)
    for section, values in sections.items():
        document[section] |= {key: value for key, value in values.items() if value is not None}
    return parse_run_config(document | {key: value for key, value in top.items() if value is not None})


class Times(NamedTuple):
    """Durations in seconds; None if the run did not get that far."""

    startup_s: float | None  # from the request until training begins: processes, imports, code, models
    train_s: float | None  # training, with its reports and checkpoints, over all attempts
    time_to_stop_s: float | None  # until the requested reward was reached


def times(events: Iterable[Mapping[str, Any]], asked_at: float | None) -> Times:
    startup = trained = reached = None
    prepared = False
    for event in events:
        match event.get("kind"):
            case "started" if startup is None and asked_at is not None:
                startup = max(0.0, event["timestamp"] - asked_at)
            case "ended":
                if startup is not None and not prepared:
                    startup, prepared = startup + event.get("prepare_s", 0.0), True
                reached = (trained or 0.0) + event["time_to_stop_s"] if event.get("time_to_stop_s") else reached
                trained = (trained or 0.0) + event["train_s"]
    return Times(startup, trained, reached)
