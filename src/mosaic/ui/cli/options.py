"""Arguments and options that several commands share, each defined once."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import typer

from mosaic.ui.cli.setting_help import complete_algorithm, complete_worker, setting

if TYPE_CHECKING:
    from mosaic.config.sections import EnvironmentConfig

# Choices of the settings, repeated here because their modules import pydantic; a test compares them.
PolicyConfiguration: TypeAlias = Literal["parameter_sharing", "independent", "self_play", "shared_value_function"]
Runtime: TypeAlias = Literal["single", "parallel", "ray", "mpi"]
Scheduler: TypeAlias = Literal["asha", "pbt", "none"]
Mode: TypeAlias = Literal["max", "min"]
ExportTarget: TypeAlias = Literal["onnx", "godot", "torchscript"]
ProbedAlgorithm: TypeAlias = Literal["ppo", "a2c", "dqn", "sac", "td3"]

EnvArgument: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="ENV", help="Environment: family/name such as classic/chess_v6, or python:module:factory."),
]
AgentOption: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--agent",
        metavar="NAME=POLICY",
        help="Policy of an agent, or of a pattern such as 'red_*' or '*'; the first match wins. Every agent needs one. "
        "Alternatively, one function for all agents: python:module:function(agent_id, episode).",
    ),
]
LearningAgentOption: TypeAlias = Annotated[
    list[str],
    typer.Option(
        "--agent",
        metavar="NAME=POLICY",
        help="Policy of an agent or pattern; the first match wins. Agents without one learn. "
        "Alternatively, one function for all agents: python:module:function(agent_id, episode).",
    ),
]
SetOption: TypeAlias = Annotated[
    list[str],
    typer.Option("--set", metavar="KEY=VALUE", help="Set a setting by its path, such as environment.options.N=5."),
]
SeedOption: TypeAlias = Annotated[
    int, typer.Option("--seed", min=0, max=2**31 - 1, help="Random seed; the same seed gives the same results.")
]
PlaySeedOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--seed",
        min=0,
        max=2**31 - 1,
        help="Random seed; the same seed gives the same game.",
        show_default="a fresh one",
    ),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
DemoOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--demo",
        metavar="NAME",
        help="Add the episodes to this demonstration (one Minari dataset per agent).",
    ),
]
EnvRunnersOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--num-env-runners",
        min=1,
        help="Processes that play; results do not depend on their number.",
        show_default="1",
    ),
]
EarlierWorkersOption: TypeAlias = Annotated[
    int | None, typer.Option("--num-workers", min=1, hidden=True, help="Earlier name of --num-env-runners.")
]
MaxStepsOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--max-steps", min=1, help="Truncate episodes after this many environment steps."),
]
TimeLimitOption: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--time-limit", min=0.001, metavar="SECONDS", help="Time limit for each action of a policy.", show_default="60"
    ),
]
_INTERVALS = "env steps (10000), iterations (20it) or time (30s, 5m, 2h)."
CheckpointEveryOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--checkpoint-every",
        metavar="INTERVAL",
        help=f"Interval between checkpoints: {_INTERVALS}",
        show_default="a minute",
    ),
]
NewCheckpointEveryOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--checkpoint-every", metavar="INTERVAL", help=f"Change the interval between checkpoints: {_INTERVALS}"
    ),
]
WorkerOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--worker",
        help=setting("training.worker"),
        show_default="chosen for the environment",
        autocompletion=complete_worker,
    ),
]
AlgorithmOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--algo",
        "--algorithm",
        help=setting("training.algorithm"),
        show_default="the worker's first",
        autocompletion=complete_algorithm,
    ),
]
ProjectOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--project", metavar="PROJECT", help="Project, by name or folder.", show_default="the current folder's project"
    ),
]
NoProjectOption: TypeAlias = Annotated[
    bool, typer.Option("--no-project", help="Ignore the project of the current folder.")
]
PresetOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--preset", metavar="NAME", help="Preset of the project.", show_default="the project's default"),
]
TrustOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--trust", help="Allow imported runs, checkpoints and episodes to run code that they name or contain."
    ),
]
VideoOption: TypeAlias = Annotated[
    Path | None, typer.Option("--video", metavar="FILE", help="Record a video: a .mp4 or .gif file.")
]
FpsOption: TypeAlias = Annotated[
    float | None,
    typer.Option("--fps", min=0.1, max=240, help="Frames per second of the video.", show_default="the env's rate"),
]
RunArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="RUN", help="Run id, a unique prefix of one, a run name, or latest.")
]
ServerOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="Mosaic server: http://HOST:PORT, or ssh://HOST for a tunnel.",
        show_default="this machine",
    ),
]
PoliciesOption: TypeAlias = Annotated[
    PolicyConfiguration | None,
    typer.Option(
        "--policies",
        case_sensitive=False,
        help=setting("policy_configuration"),
        show_default="self_play in turn-based zero-sum games, else parameter_sharing",
    ),
]


def environment(env: str, settings: list[str]) -> EnvironmentConfig:
    """Return the requested env with its `--set environment.…` settings."""
    from mosaic.config.loading import parse_run_config
    from mosaic.core.errors import InputError

    for typed in settings:
        if not typed.startswith("environment."):
            raise InputError(f"'{typed}' is not about the environment. Type: --set environment.options.KEY=VALUE")
    return parse_run_config({"environment": {"env_id": env}}, settings).environment


def number_of_env_runners(number: int | None, earlier: int | None) -> int | None:
    """Return the number that was typed under the option's current or earlier name."""
    from mosaic.core.errors import InputError

    if None not in (number, earlier) and number != earlier:
        raise InputError(
            f"--num-workers is the earlier name of --num-env-runners, and they differ: {earlier} and {number}. "
            "Leave --num-workers out."
        )
    return earlier if number is None else number


def dataset_reference(demo: str | None) -> str | None:
    """Return the dataset that --demo names: of a demonstration by its name alone, or any other reference."""
    from pathlib import Path

    from mosaic.core.reference import split_reference

    if demo is None or split_reference(demo)[0] in ("demo", "minari"):
        return demo
    return str(Path(demo).resolve()) if Path(demo).is_dir() else f"demo:{demo}"


_INTERVAL = re.compile(r"(?P<number>[0-9][0-9_]*(\.[0-9]+)?)(?P<unit>[a-z]*)")
_MINUTES = {"s": 1 / 60, "m": 1.0, "h": 60.0}


def checkpoint_interval(text: str) -> dict[str, float | None]:
    """Return the settings of `checkpoint` for an interval such as 10000, 20it or 5m; those not meant are None."""
    from mosaic.config.sections import INTERVALS
    from mosaic.core.errors import InputError

    found, chosen = _INTERVAL.fullmatch(text.strip().lower()), dict[str, float | None].fromkeys(INTERVALS)
    if found is not None:
        number, unit = float(found["number"]), found["unit"]
        if unit in _MINUTES:
            return {**chosen, "every_minutes": number * _MINUTES[unit]}
        if unit in ("", "it") and number == int(number):
            return {**chosen, "every_iterations" if unit else "every_steps": int(number)}
    raise InputError(
        f"--checkpoint-every '{text}' is not an interval: type env steps (10000), iterations (20it) or "
        "time (30s, 5m, 2h)."
    )


def give_trust(trust: bool, server: str | None = None) -> None:
    """Apply `--trust` to this process and those it starts."""
    if trust:
        import os

        from mosaic.core.errors import InputError
        from mosaic.store.archives.trust import VARIABLE

        if server is not None:
            raise InputError(
                "--trust lets an imported run execute code, which is decided on the server's own machine. "
                "Type it there, without --server."
            )

        os.environ[VARIABLE] = "1"
