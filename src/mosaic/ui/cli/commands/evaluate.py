"""The commands `mosaic evaluate` and `mosaic tournament`, which measure policies and rate them against each other."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mosaic.ui.cli.options import (
    AgentOption,
    DemoOption,
    EarlierWorkersOption,
    EnvArgument,
    EnvRunnersOption,
    FpsOption,
    JsonOption,
    MaxStepsOption,
    SeedOption,
    SetOption,
    TimeLimitOption,
    TrustOption,
    VideoOption,
    number_of_env_runners,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mosaic.config.sections import EnvironmentConfig
    from mosaic.evaluation.evaluate import Evaluation, ReturnSummary
    from mosaic.evaluation.reports import ReportedNumber
    from mosaic.evaluation.standings import Tournament
    from mosaic.evaluation.statistics import Estimate


def evaluate(
    env: EnvArgument,
    agent: AgentOption = [],  # noqa: B006 - Typer copies it
    episodes: Annotated[
        int, typer.Option("--episodes", min=1, help="Number of episodes, each with its own seed.")
    ] = 100,
    seed: SeedOption = 0,
    num_env_runners: EnvRunnersOption = None,
    num_workers: EarlierWorkersOption = None,
    max_steps: MaxStepsOption = None,
    time_limit: TimeLimitOption = None,
    record: Annotated[
        Path | None, typer.Option("--record", help="Folder to record every episode in, for mosaic replay.")
    ] = None,
    demo: DemoOption = None,
    video: VideoOption = None,
    video_episodes: Annotated[
        int, typer.Option("--video-episodes", min=1, help="Number of episodes in the video, counted from the first.")
    ] = 1,
    fps: FpsOption = None,
    to: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="Write the results to this .csv (a row per episode) or .json file too."
        ),
    ] = None,
    settings: SetOption = [],  # noqa: B006 - Typer copies it
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Measure policies: returns, wins, 95 % intervals."""
    from contextlib import nullcontext
    from shlex import quote

    from mosaic.evaluation.evaluate import evaluate as run
    from mosaic.evaluation.worker import check_record_folder
    from mosaic.policies.controller import DEFAULT_TIME_LIMIT_S
    from mosaic.policies.mapping import parse_mapping
    from mosaic.store.demos.recording import record_demo
    from mosaic.ui.cli.options import environment, give_trust
    from mosaic.ui.cli.output import note, print_json, progress
    from mosaic.ui.cli.recording import by_pattern, camera_for, how_to_watch, watchable

    give_trust(trust)
    if to is not None:
        _check_out(to)
    if record is not None:
        check_record_folder(record, "--record ", quote)
    camera = camera_for(video, fps, min(episodes, video_episodes))
    with (
        camera or nullcontext(),
        watchable("evaluate", env, by_pattern(agent)) as screen,
        progress(f"evaluating on {env}", episodes, hint=how_to_watch(screen), shown=not json) as tick,
    ):
        result = run(
            environment(env, settings),
            parse_mapping(agent),
            episodes=episodes,
            seed=seed,
            num_env_runners=number_of_env_runners(num_env_runners, num_workers) or 1,
            max_steps=max_steps,
            time_limit_s=time_limit or DEFAULT_TIME_LIMIT_S,
            on_episode=tick,
            record_dir=record,
            recorder=None if demo is None else record_demo(demo),
            camera=camera,
            screen=screen,
        )
    for text in result.notes:
        note(text)
    if demo is not None:
        note(f"The episodes are in the demonstration {demo}: mosaic demos show {demo}")
    if json:
        print_json(result.to_json())
    else:
        _show_evaluation(result)
        if camera is not None:
            filmed = "the first episode" if camera.episodes == 1 else f"the first {camera.episodes} episodes"
            note(f"A video of {filmed} is in {video}")
    if to is not None:
        _write(result, to)
        note(f"The results of {len(result.episode_results)} episodes are in {to}")


def _check_out(path: Path) -> None:
    """Refuse before any episode is played what could not be written after the last."""
    from mosaic.core.errors import InputError

    if path.suffix.lower() not in (".csv", ".json"):
        raise InputError(f"--out {path}: results are written as .csv or .json. Type: --out {path.stem or path}.csv")
    if path.exists():
        raise InputError(f"--out: '{path}' already exists. Choose another file.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"--out {path}: there is no folder '{path.parent}'.")


def _write(result: Evaluation, path: Path) -> None:
    from json import dumps

    from mosaic.store.atomic import write_atomic

    table = path.suffix.lower() == ".csv"
    write_atomic(path, result.to_csv() if table else dumps(result.to_json(), indent=1, allow_nan=False) + "\n")


def _show_evaluation(result: Evaluation) -> None:
    from mosaic.ui.cli.output import note, print_table

    agents = result.agents
    competitive = any(row.wins is not None for row in agents.values())
    columns = ["agent", "policy", "return (95 %)", *(["won", "drawn", "lost"] if competitive else [])]
    title = f"{result.env}: {len(result.episode_results)} episodes, seed {result.seed}"
    print_table(title, columns, [_cells(name, row, competitive) for name, row in agents.items()], columns[2:])
    note(
        f"{result.env_steps:,} env steps, {result.env_steps_per_s:,.0f} per second; "
        f"length {result.length.mean:.1f}, {result.duration_mean_s:.3g} s; {result.distinct_games} distinct games; "
        + ("reproducible" if result.reproducible else "not reproducible: an env or a policy cannot repeat itself")
    )
    _show_reports({policy: row.reports for policy, row in result.policies.items()})
    if result.cut:
        note(f"{result.cut} episodes were cut at their step limit (--max-steps).")


def _cells(name: str, row: ReturnSummary, competitive: bool) -> list[object]:
    from mosaic.ui.cli.output import interval

    cells: list[object] = [name, row.policy, interval(row.returns.mean, row.returns.ci95)]
    return cells + ([row.wins, row.draws, row.losses] if competitive else [])


def _show_reports(policies: Mapping[str, Mapping[str, ReportedNumber]]) -> None:
    """Print what policies reported about their decisions, such as tokens and seconds of language models."""
    from mosaic.ui.cli.output import print_table

    columns = ["reported", "mean (95 %)", "per episode", "total"]
    for policy, numbers in policies.items():
        if numbers:
            rows = [_report_cells(name, number) for name, number in numbers.items()]
            print_table(f"Reported by {policy}", columns, rows, columns[1:])


def _report_cells(name: str, number: ReportedNumber) -> list[object]:
    (times, total, share), mean = number.tally, number.mean
    per_episode = f"{number.per_episode.mean or 0.0:.3g}"
    if share:
        return [name, f"{_rounded(mean, 100)} %", per_episode, f"{total:g} of {times:,}"]
    return [name, _rounded(mean), per_episode, f"{total:.6g}"]


def _rounded(estimate: Estimate, scale: float = 1) -> str:
    """Return an estimate with the digits that matter, whatever its size: costs are small, tokens many."""
    mean, low, high = (None if value is None else f"{scale * value:.3g}" for value in estimate)
    return "–" if mean is None else mean if low is None or high is None else f"{mean} [{low}, {high}]"


def tournament(
    env: EnvArgument,
    policy: Annotated[list[str], typer.Argument(metavar="POLICY...", help="Two or more policies to rate.")],
    games: Annotated[
        int, typer.Option("--games", min=1, help="Games per pair and side: --games 10 plays 20 games per pair.")
    ] = 10,
    seed: SeedOption = 0,
    num_env_runners: EnvRunnersOption = None,
    num_workers: EarlierWorkersOption = None,
    store: Annotated[
        Path | None,
        typer.Option("--store", help="File that stores finished games, so that the tournament can be resumed."),
    ] = None,
    settings: SetOption = [],  # noqa: B006 - Typer copies it
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Rate policies against each other, as either agent.

    If it is interrupted, the same command resumes it.
    """
    from mosaic.evaluation.tournament import tournament as run
    from mosaic.ui.cli.options import environment, give_trust
    from mosaic.ui.cli.output import note, print_json, progress
    from mosaic.ui.cli.recording import how_to_watch, watchable

    give_trust(trust)
    config, total = environment(env, settings), games * len(policy) * (len(policy) - 1)
    kept = store or _unfinished(config, policy, games, seed)
    with (
        watchable("tournament", env, {str(place): name for place, name in enumerate(policy)}) as screen,
        progress(f"playing {env}", total, hint=how_to_watch(screen), shown=not json) as tick,
    ):
        result = run(
            config,
            policy,
            games=games,
            seed=seed,
            num_env_runners=number_of_env_runners(num_env_runners, num_workers) or 1,
            store=kept,
            on_game=tick,
            screen=screen,
        )
    if store is None:
        kept.unlink(missing_ok=True)
    for text in result.notes:
        note(text)
    if json:
        print_json(result.to_json())
    else:
        _show_tournament(result)


def _unfinished(config: EnvironmentConfig, policies: list[str], games: int, seed: int) -> Path:
    """Return the file that keeps the games of exactly this command until it is done."""
    from hashlib import blake2b

    from mosaic.store.store import home

    asked = repr((config.model_dump(mode="json"), policies, games, seed))
    folder = home() / "tournaments"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{blake2b(asked.encode(), digest_size=8).hexdigest()}.jsonl"


def _show_tournament(result: Tournament) -> None:
    from mosaic.ui.cli.output import interval, print_table

    rows = []
    for place, (policy, rating) in enumerate(result.ratings().items(), start=1):
        score = result.policy(policy).score
        rows.append([place, policy, f"{rating.value:.1f}", interval(score.mean, score.ci95)])
    title = f"{result.env}: {2 * result.games} games a pair, {result.games} as each agent, seed {result.seed}"
    print_table(title, ["", "policy", "rating", "score (95 %)"], rows, ["", "rating", "score (95 %)"])
    pairs = []
    for first, second in permutations(result.policies, 2):
        tally = result.pair(first, second)
        shown = interval(tally.score.mean, tally.score.ci95)
        pairs.append([first, second, tally.wins, tally.draws, tally.losses, shown])
    columns = ["first agent", "second agent", "won", "drawn", "lost", "score (95 %)"]
    print_table("Pairs, results of the first agent", columns, pairs, columns[2:])
    _show_reports({policy: result.reports(policy) for policy in result.policies})
