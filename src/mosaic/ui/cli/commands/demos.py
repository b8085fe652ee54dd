"""The `mosaic demos` commands: recorded play for imitation and offline learning, listed, replayed and edited."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from mosaic.ui.cli.options import FpsOption, JsonOption, ServerOption, SetOption, TrustOption, VideoOption

if TYPE_CHECKING:
    from mosaic.envs.env import EnvSpec
    from mosaic.server.client.demos import RemoteDemos
    from mosaic.store.demos.demonstration import Demonstration, Demonstrations
    from mosaic.store.demos.kept import KeptDemos
    from mosaic.store.demos.summary import DemoDetails

BackendDemos: TypeAlias = "KeptDemos | RemoteDemos"
app = typer.Typer(
    help="Manage demonstrations: recorded play for imitation and offline learning.",
    invoke_without_command=True,
    rich_markup_mode=None,
)

NameArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of a demonstration.")]
EpisodeOption = Annotated[
    int | None, typer.Option("--episode", min=0, help="Number of the episode, from 0.", show_default="the last one")
]


@app.callback()
def _default(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        list_()


@app.command(name="list")
def list_(server: ServerOption = None, json: JsonOption = False) -> None:
    """List the demonstrations, newest first."""
    from mosaic.ui.cli.output import note, print_json, print_table

    with _demos(server) as demos:
        rows, problems = demos.rows()
    if json:
        print_json([row.model_dump(mode="json") for row in rows])
    else:
        cells = [
            [row.name, row.env or "–", ", ".join(row.agents) or "–", row.episodes, row.agent_steps, _size(row.bytes)]
            for row in rows
        ]
        columns = ["demonstration", "env", "agents", "episodes", "agent steps", "size"]
        print_table(f"{len(rows)} demonstration{'' if len(rows) == 1 else 's'}", columns, cells, columns[3:])
        if not rows:
            note("Record one: mosaic play ENV --agent NAME=human … --demo NAME")
    for problem in (*problems, *(row.problem for row in rows if row.problem)):
        note(problem)


@app.command()
def show(name: NameArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """Show the agents, controllers, returns and episodes of a demonstration."""
    from mosaic.ui.cli.output import print_json

    with _demos(server) as demos:
        details = demos.details(name)
    if json:
        print_json(details.model_dump(mode="json"))
    else:
        _print(details)


@app.command()
def replay(
    name: NameArgument,
    episode: EpisodeOption = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", help="Print only whether the replay is the same, without boards.")
    ] = False,
    video: VideoOption = None,
    fps: FpsOption = None,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Replay an episode and check that it is the same."""
    from mosaic.runners.record import environment_of
    from mosaic.store.archives.trust import require_trust_to_replay
    from mosaic.store.demos.summary import demo_record
    from mosaic.ui.cli.commands.play import show_replay
    from mosaic.ui.cli.options import give_trust

    give_trust(trust)
    store = _store()
    record = demo_record(store, name, episode)
    require_trust_to_replay(store.folder / name, environment_of(record))
    show_replay(record, name, quiet=quiet, video=video, fps=fps, json=json)


@app.command()
def drop(
    name: NameArgument,
    episode: Annotated[
        list[int], typer.Option("--episode", min=0, help="Number of an episode, from 0.", show_default="the last one")
    ] = [],  # noqa: B006 - Typer copies it
    last: Annotated[
        int | None, typer.Option("--last", min=1, help="Number of episodes to drop at the end.", show_default="1")
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Drop the last episode, or others."""
    from mosaic.core.errors import InputError

    if episode and last is not None:
        raise InputError("--episode names episodes and --last counts them from the end: leave out one of them.")
    with _demos(server) as demos:
        _tell_left(name, demos.drop(name, episode, last).episodes, json)


@app.command()
def trim(
    name: NameArgument,
    episode: EpisodeOption = None,
    first: Annotated[int, typer.Option("--from", min=0, help="First env step to keep.")] = 0,
    to: Annotated[
        int | None, typer.Option("--to", min=1, help="First env step not to keep.", show_default="the end")
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Keep only some env steps of an episode: cut an idle start or a bad end."""
    from mosaic.ui.cli.output import note, print_json

    with _demos(server) as demos:
        rows = demos.trim(name, episode, first, to).episode_rows
    steps = rows[-1 if episode is None else episode].agent_steps
    if json:
        print_json({"name": name, "agent_steps": steps})
    else:
        note(f"{steps:,} agent steps of the episode are left.")


@app.command(name="filter")
def filter_(
    name: NameArgument,
    min_return: Annotated[
        float | None, typer.Option("--min-return", help="Keep episodes with at least this return.")
    ] = None,
    max_return: Annotated[
        float | None, typer.Option("--max-return", help="Keep episodes with at most this return.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", help="Agent whose return counts.", show_default="the only one")
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Keep only the episodes with a certain return."""
    with _demos(server) as demos:
        _tell_left(name, demos.filter(name, agent, min_return, max_return).episodes, json)


@app.command()
def delete(name: NameArgument, server: ServerOption = None, json: JsonOption = False) -> None:
    """Delete a demonstration and its datasets."""
    from mosaic.ui.cli.output import note, print_json

    with _demos(server) as demos:
        demos.delete(name)
    if json:
        print_json({"deleted": name})
    else:
        note(f"{name} is deleted.")


@app.command()
def export(
    name: NameArgument,
    to: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="File to write.", show_default="NAME.zip")
    ] = None,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Write a demonstration to a .zip file, whose folders are Minari datasets."""
    from mosaic.ui.cli.output import note, print_json

    with _demos(server) as demos:
        path = demos.export(name, to or Path(f"{name}.zip"))
    if json:
        print_json({"name": name, "file": str(path), "bytes": path.stat().st_size})
    else:
        note(f"{path} ({_size(path.stat().st_size)})")


@app.command(name="import")
def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="An episode file (*.episode.json), a .zip file of mosaic demos export, the folder of a Minari "
            "dataset, or minari:ID.",
        ),
    ],
    name: Annotated[
        str | None, typer.Option("--name", help="Demonstration to add the episodes to.", show_default="from the source")
    ] = None,
    env: Annotated[
        str | None, typer.Option("--env", help="Env of a Minari dataset that Mosaic did not record.")
    ] = None,
    settings: SetOption = [],  # noqa: B006 - Typer copies it
    trust: TrustOption = False,
    server: ServerOption = None,
    json: JsonOption = False,
) -> None:
    """Add recorded episodes or a Minari dataset to a demonstration.

    An episode file contains no observations: the environment is created and the episode replayed.
    """
    from mosaic.core.errors import InputError
    from mosaic.ui.cli.options import give_trust
    from mosaic.ui.cli.output import note, print_json

    give_trust(trust)
    if env is None and settings:
        raise InputError("--set changes the env of a Minari dataset: add --env ENV.")
    path = Path(source)
    if env is not None and (path.suffix in (".json", ".zip")):
        raise InputError(f"'{source}' already names the env in which it was recorded: leave --env out.")
    with _demos(server) as demos:
        if path.suffix == ".json":
            demo = _import_episode(demos, path, name, server)
        elif path.suffix == ".zip":
            demo = demos.add_archive(name, path)
        elif server is not None:
            raise InputError(
                f"A server takes episode files and .zip files, not '{source}'. Import it here and export it."
            )
        else:
            found = _import_dataset(_store(), source, name, _spec(env, settings))
            demo = demos.details(found.name)
    if json:
        print_json({"name": demo.name, "episodes": demo.episodes})
    else:
        note(f"{demo.name} has {demo.episodes:,} episodes now: mosaic demos show {demo.name}")


def _import_episode(demos: BackendDemos, path: Path, name: str | None, server: str | None) -> DemoDetails:
    from mosaic.runners.record import environment_of, load_episode
    from mosaic.store.archives.trust import require_trust_to_replay

    episode = load_episode(path)
    if server is None:  # a server decides itself what it runs
        require_trust_to_replay(path, environment_of(episode))
    return demos.add_episode(name or _plain_name(path.name.split(".")[0]), episode)


def _import_dataset(store: Demonstrations, source: str, name: str | None, spec: EnvSpec | None) -> Demonstration:
    from mosaic.core.errors import InputError
    from mosaic.store.demos.reference import datasets_of
    from mosaic.store.demos.transfer import import_dataset

    found = datasets_of(source)
    if len(found) != 1:
        named = ", ".join(f"{source}/{each.agent}" for each in found) or "none"
        raise InputError(f"'{source}' has {len(found)} datasets, one for each agent. Name one of them: {named}")
    dataset = found[0]
    return import_dataset(store, name or _plain_name(dataset.dataset_id), dataset, spec)


def _spec(env: str | None, settings: list[str]) -> EnvSpec | None:
    from mosaic.envs.catalog import make_env
    from mosaic.ui.cli.options import environment

    if env is None:
        return None
    made = make_env(environment(env, settings))
    made.close()
    return made.spec


def _plain_name(text: str) -> str:
    """Return a name for a demonstration made of letters, digits, '-' and '_'."""
    import re

    return re.sub(r"[^A-Za-z0-9_]+", "-", text).strip("-_")[:80]


@contextmanager
def _demos(server: str | None) -> Iterator[BackendDemos]:
    """Open the demonstrations of this machine, or of a server."""
    if server is None:
        from mosaic.store.demos.kept import KeptDemos

        yield KeptDemos()
        return
    from mosaic.server.client.client import Client
    from mosaic.server.client.demos import RemoteDemos

    with Client(server) as client:
        yield RemoteDemos(client)


def _store() -> Demonstrations:
    from mosaic.store.demos.demonstration import Demonstrations

    return Demonstrations()


def _tell_left(name: str, left: int, json: bool) -> None:
    from mosaic.ui.cli.output import note, print_json

    if json:
        print_json({"name": name, "episodes": left})
    else:
        note(f"{name} has {left:,} episodes now.")


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"


def _print(details: DemoDetails) -> None:
    from mosaic.ui.cli.output import note, print_table

    agents = [
        [
            each.agent,
            each.steps,
            f"{each.return_mean:.4g} ({each.return_min:.4g} … {each.return_max:.4g})",
            ", ".join(f"{policy} {steps:,}" for policy, steps in each.controllers.items()),
            f"{each.observation} → {each.action}",
        ]
        for each in details.datasets
    ]
    title = f"{details.name}: {details.episodes:,} episodes of {details.env or 'an env that is not known'}"
    print_table(title, ["agent", "steps", "return", "controllers (steps)", "spaces"], agents, ["steps", "return"])
    rows = [
        [
            row.number,
            "–" if row.seed is None else row.seed,
            row.env_steps,
            ", ".join(f"{agent} {value:.4g}" for agent, value in row.returns.items()),
            "; ".join(f"{agent}: {' → '.join(used)}" for agent, used in row.controllers.items()),
        ]
        for row in details.episode_rows[-20:]
    ]
    columns = ["episode", "seed", "env steps", "returns", "controllers"]
    print_table("Episodes" if len(rows) == details.episodes else "Last 20 episodes", columns, rows, columns[:3])
    for each in details.datasets:
        note(f"Minari dataset {each.dataset_id} in {details.folder}; for learners: demo:{details.name}/{each.agent}")
