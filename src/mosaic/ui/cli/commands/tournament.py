"""The `mosaic tournament` command, which rates policies against each other."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mosaic.ui.cli.options import EnvArgument, JsonOption, SeedOption, SetOption, TrustOption, WorkersOption

if TYPE_CHECKING:
    from mosaic.config.sections import EnvironmentConfig
    from mosaic.evaluation.standings import Tournament


def tournament(
    env: EnvArgument,
    policy: Annotated[list[str], typer.Argument(metavar="POLICY...", help="Two or more policies to rate.")],
    games: Annotated[int, typer.Option("--games", min=1, help="Games per ordered pair of policies.")] = 10,
    seed: SeedOption = 0,
    num_workers: WorkersOption = 1,
    store: Annotated[
        Path | None,
        typer.Option("--store", help="File to keep the finished games in."),
    ] = None,
    settings: SetOption = [],  # noqa: B006 - Typer copies it
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Rate policies against each other, in both seats.

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
            config, policy, games=games, seed=seed, num_workers=num_workers, store=kept, on_game=tick, screen=screen
        )
    if store is None:
        kept.unlink(missing_ok=True)
    for text in result.notes:
        note(text)
    if json:
        print_json(result.to_json())
    else:
        show(result)


def _unfinished(config: EnvironmentConfig, policies: list[str], games: int, seed: int) -> Path:
    """Return the file that keeps the games of exactly this command until it is done."""
    from hashlib import blake2b

    from mosaic.store.store import home

    asked = repr((config.model_dump(mode="json"), policies, games, seed))
    folder = home() / "tournaments"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{blake2b(asked.encode(), digest_size=8).hexdigest()}.jsonl"


def show(result: Tournament) -> None:
    from mosaic.ui.cli.output import interval, print_table

    rows = []
    for place, (policy, rating) in enumerate(result.ratings().items(), start=1):
        score = result.policy(policy).score
        rows.append([place, policy, f"{rating.value:.1f}", interval(score.mean, score.ci95)])
    title = f"{result.env}: {result.games} games per ordered pair, seed {result.seed}"
    print_table(title, ["", "policy", "rating", "score (95 %)"], rows, ["", "rating", "score (95 %)"])
    pairs = []
    for first, second in permutations(result.policies, 2):
        tally = result.pair(first, second)
        shown = interval(tally.score.mean, tally.score.ci95)
        pairs.append([first, second, tally.wins, tally.draws, tally.losses, shown])
    columns = ["first seat", "second seat", "won", "drawn", "lost", "score of the first (95 %)"]
    print_table("Pairs", columns, pairs, columns[2:])
