"""Training in one call."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, TypedDict, Unpack, cast, overload

from mosaic.config.loading import dump_run_config, parse_run_config, with_current_names
from mosaic.config.run import RunConfig
from mosaic.core.errors import MosaicError, check_keywords
from mosaic.core.interrupts import ctrl_c_kept
from mosaic.envs.families.external import ask_first_program
from mosaic.envs.objects import Environment, stored_environment
from mosaic.runs.run import Run
from mosaic.runs.trainer import Asked, Trainer, read_config
from mosaic.store.state import ENDED, State
from mosaic.telemetry.events.event import MetricEvent

_FILES = (".json", ".yaml", ".yml", ".toml")


class RunFailedError(MosaicError):
    """Error for training that ended before it was done without having been stopped."""


Callback: TypeAlias = Callable[[MetricEvent], object]


class RunSettings(TypedDict, total=False):
    """Arguments of `train` that take precedence over the configuration; None leaves a setting as it is."""

    worker: str | None
    algorithm: str | None
    total_timesteps: int | None
    episodes: int | None
    stop_reward: float | None
    params: Mapping[str, object] | None
    options: Mapping[str, object] | None
    wrappers: Sequence[str] | None
    policies: str | None
    agents: Mapping[str, str] | None
    runtime: str | None
    num_env_runners: int | None
    num_workers: int | None  # earlier name of num_env_runners
    seed: int | None
    name: str | None


@overload
def train(
    asked: Asked | Environment,
    *,
    seeds: None = None,
    callbacks: Callback | Sequence[Callback] = (),
    home: Path | None = None,
    **settings: Unpack[RunSettings],
) -> Run: ...


@overload
def train(
    asked: Asked | Environment,
    *,
    seeds: int,
    callbacks: Callback | Sequence[Callback] = (),
    home: Path | None = None,
    **settings: Unpack[RunSettings],
) -> list[Run]: ...


def train(
    asked: Asked | Environment,
    *,
    seeds: int | None = None,
    callbacks: Callback | Sequence[Callback] = (),
    home: Path | None = None,
    **settings: Unpack[RunSettings],
) -> Run | list[Run]:
    """Train until done and return the Run; settings take precedence over the configuration.

    `asked` is an env's id, a registered Gymnasium id, an env object, a class or function that makes one (also one
    defined in a script or notebook), or a configuration. With `seeds`, this many runs that differ in the seed are
    trained one after the other, and a list of them is returned.

    Settings, all None by default: `worker`, `algorithm` and its options `params`; the limits `total_timesteps`,
    `episodes` and `stop_reward`; the env's `options` and `wrappers`; the policy configuration `policies`, and `agents`,
    which maps agents to policies; `runtime` and `num_env_runners`; `seed` and `name`.

    `callbacks` are called with every metric event during the run; one that returns False stops it. Ctrl-C stops the run
    and saves; `run.resume()` continues it.
    """
    check_keywords(train, settings, RunSettings)
    trainer = Trainer(home)
    config = _with(_config(asked, trainer.store.home, dict(settings.get("options") or {})), settings)
    config = config.model_copy(update={"environment": ask_first_program(config.environment)})
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
            f"The run {run.id} {state}: {(run.reason or 'see its log').rstrip('.')}. Its log: mosaic runs log {run.id}"
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


def _config(asked: Asked | Environment, home: Path, options: dict[str, object]) -> RunConfig:
    """Read a configuration; a string without a settings file's suffix is an env's id, any other object is an env."""
    is_file = isinstance(asked, PathLike) or (isinstance(asked, str) and asked.lower().endswith(_FILES))
    if not is_file and not isinstance(asked, RunConfig | Mapping):
        environment = stored_environment(asked, home, options)
        return parse_run_config({"environment": environment.model_dump(mode="json")})
    config = read_config(cast(Asked, asked))
    if not options:
        return config
    document = dump_run_config(config)
    document["environment"] |= {"options": {**config.environment.options, **options}}
    return parse_run_config(document)


_PLACES: Mapping[str, tuple[str, ...]] = {  # of settings in a configuration; elsewhere they are at the top
    "training": ("worker", "algorithm", "total_timesteps", "episodes", "stop_reward", "params"),
    "environment": ("wrappers",),
    "resources": ("runtime", "num_env_runners", "num_workers"),
}


def _with(config: RunConfig, settings: RunSettings) -> RunConfig:
    """Return the configuration with these settings; `options` are those of the env and already in it."""
    given = {name: _plain(value) for name, value in settings.items() if value is not None and name != "options"}
    document = dump_run_config(config)
    for section, names in _PLACES.items():
        document[section] |= with_current_names(section, {name: given.pop(name) for name in names if name in given})
    if "policies" in given:
        document["policy_configuration"] = given.pop("policies")
    return parse_run_config(document | given)


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    return list(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


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
