"""Commands that list what is installed and check parts of it: envs, workers, policies, schema, check, doctor."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from mosaic.ui.cli.options import EnvArgument, JsonOption, SetOption

if TYPE_CHECKING:
    from mosaic.core.ids import EnvID
    from mosaic.envs.catalog import EnvDescription

_WIDE = 110  # columns of a terminal from which a row of envs fits into one line


def envs(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="FAMILY|ENV",
            help="List only this family (gym, classic, sisl, butterfly, mpe, …), or show one env.",
        ),
    ] = None,
    json: JsonOption = False,
) -> None:
    """List environments with their agents, incentives and spaces; mark those that are compiled, tuned or installed."""
    from mosaic.envs.catalog import entries, find_entries, inspect_env
    from mosaic.ui.cli.output import note, out, print_json, print_table, progress
    from mosaic.workers.presets import presets_of

    found = entries() if name is None else find_entries(name)
    presets = {entry.id: [f"{preset.worker} {preset.algorithm}" for preset in presets_of(entry.id)] for entry in found}
    described: list[EnvDescription] = []
    with progress("looking at environments", len(found), shown=not json) as tick:
        for entry in found:
            described.append(inspect_env(entry))
            tick()
    if json:
        print_json([{**asdict(each), "presets": presets[each.id]} for each in described])
        return
    if len(found) == 1 and described[0].installed and name != _family_of(found[0].id):
        _print_env(described[0], presets[found[0].id])
        return
    for family in dict.fromkeys(_family_of(each.id) for each in described):
        mine = [each for each in described if _family_of(each.id) == family]
        here = [each for each in mine if each.installed]
        rows = [_cells(each, "\n" if out.width < _WIDE else ", ") for each in here]
        if here:
            print_table(f"{family}: {len(here)} environments", ["id", "agents", "sees", "acts"], rows)
        compiled, tuned = [each for each in here if each.compiled_twin], [each for each in here if presets[each.id]]
        for what, those in (("Compiled twin", compiled), ("Tuned preset", tuned)):
            if those:
                note(f"  {what}: {', '.join(each.id.split('/', 1)[1] for each in those)}\n")
        for line, what in dict.fromkeys((each.install, each.note) for each in mine if not each.installed):
            ids = ", ".join(each.id for each in mine if each.install == line)
            note(f"  {ids}: {what} {line}\n" if what else f"  {ids}: {line}\n")
    note("Any registered Gymnasium id works as gym/ID; your own env as python:module:factory. Try: mosaic check ENV")


def _family_of(env_id: EnvID) -> str:
    from mosaic.config.sections import split_id

    return split_id(env_id)[0]


def _print_env(env: EnvDescription, presets: list[str]) -> None:
    """Print the details of one env and the commands to use it."""
    from mosaic.ui.cli.output import note, print_table

    rows = [
        ["agents", ", ".join(env.agents)],
        ["act", "alone" if len(env.agents) == 1 else f"{'in turns' if env.turn_based else 'together'}, {env.kind}"],
        ["observations", env.observation],
        ["actions", env.action],
        ["compiled twin", "yes" if env.compiled_twin else "no"],
        ["tuned preset", ", ".join(presets) or "none"],
    ]
    print_table(env.id, ["what", "value"], rows, whole=1)
    note(f"Try: mosaic check {env.id}\n     mosaic train {env.id}\n     mosaic evaluate {env.id} --agent '*=random'")


def _cells(env: EnvDescription, separator: str) -> list[str]:
    count = len(env.agents)
    if count == 1:
        return [env.id, "1", env.observation, env.action]
    agents = f"{count} {'in turns' if env.turn_based else 'together'}, {env.kind}"
    return [env.id, agents.replace(", ", separator), env.observation, env.action]


def workers(json: JsonOption = False) -> None:
    """List the workers with their algorithms and capabilities."""
    from mosaic.core.plugins import plugins
    from mosaic.ui.cli.output import out, print_json, print_table
    from mosaic.workers.registry import load_worker

    infos = [load_worker(name).info for name in plugins("mosaic.workers")]
    if json:
        print_json([{"id": info.name, **info.model_dump(mode="json")} for info in infos])
        return
    train = ("pause", "resume", "checkpoints", "seeds", "self_play", "population", "gpu")
    abilities = (*train, "agent_mapping", "policy_options", "evaluates", "curriculum", "external_envs", "init")
    rows = [
        [
            info.name,
            ", ".join(info.algorithms),
            ", ".join(info.env_families).replace("*", "any"),
            "any" if info.max_agents is None else info.max_agents,
            ", ".join([*(name for name in abilities if getattr(info, name)), *info.resources]),
        ]
        for info in infos
    ]
    print_table(f"{len(rows)} workers", ["worker", "algorithms", "envs", "agents", "can"], rows, whole=1)
    for info in infos:
        for sentence in info.notes:
            out.print(f"{info.name}: {sentence}", markup=False)


def policies(json: JsonOption = False) -> None:
    """List the policies that can take an agent's place."""
    from mosaic.core.plugins import load_plugin, plugins
    from mosaic.policies.controller import PolicyKind
    from mosaic.ui.cli.output import note, print_json, print_table

    rows = []
    for name in plugins("mosaic.policies"):
        kind: PolicyKind = load_plugin("mosaic.policies", name)
        options = {key: field.description or "" for key, field in kind.options.model_fields.items()}
        missing = kind.missing()
        rows.append(
            {
                "id": name,
                "usage": kind.usage,
                "help": kind.help,
                "options": options,
                "installed": missing is None,
                "install": missing,
            }
        )
    if json:
        print_json(rows)
        return
    cells = [
        [row["usage"], f"{row['help']} Not installed: {row['install']}" if row["install"] else row["help"]]
        for row in rows
    ]
    print_table(f"{len(rows)} policies", ["policy", "description"], cells, whole=0)
    note("Give one to an agent: --agent player_0=random, or to all: --agent '*=random'")


def schema(
    what: Annotated[str, typer.Argument(metavar="run|project|WORKER", help="run, project, or the name of a worker.")],
    algorithm: Annotated[str | None, typer.Argument(help="Algorithm of the worker.", show_default="the first")] = None,
) -> None:
    """Print the JSON schema of a run, of a project's mosaic.toml or of a worker's options."""
    from mosaic.config.project import project_schema
    from mosaic.config.run import run_schema
    from mosaic.core.errors import known_spelling, unknown
    from mosaic.core.plugins import plugins
    from mosaic.ui.cli.output import print_json
    from mosaic.workers.registry import algorithm_of, load_worker, options_schema

    if what == "run":
        print_json(run_schema())
        return
    if what == "project":
        print_json(project_schema())
        return
    if known_spelling(what, plugins("mosaic.workers")) not in plugins("mosaic.workers"):
        raise unknown("schema", what, ["run", "project", *plugins("mosaic.workers")])
    worker = load_worker(what)
    print_json(options_schema(worker, algorithm_of(worker, algorithm)))


def check(
    env: EnvArgument,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Random env steps per seed.")] = 120,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0, help="Continue with random actions for this long after the check.")
    ] = 0.0,
    settings: SetOption = [],  # noqa: B006 - Typer copies it
    json: JsonOption = False,
) -> None:
    """Check an environment against the env contract.

    Plays random steps and shows what each agent observes and earns. Works with your own env and game too:
    python:module:factory, godot/PATH.
    """
    from mosaic.envs.catalog import make_env
    from mosaic.envs.contract.check import check_env
    from mosaic.ui.cli.checking import CheckView, print_report, shown_live
    from mosaic.ui.cli.options import environment
    from mosaic.ui.cli.output import out, print_json

    config = environment(env, settings)
    view = CheckView(config.id, seconds)
    try:
        with shown_live(view, shown=not json):
            report = check_env(lambda: make_env(config), steps=steps, watcher=view)
    except KeyboardInterrupt:
        if not json:
            view.print_totals()
            out.print("Interrupted: the contract was not checked to the end.")
        raise
    if json:
        print_json(asdict(report))
        return
    if seconds:
        view.print_totals()
    print_report(report)


def doctor(
    parts: Annotated[
        list[str] | None,
        typer.Argument(metavar="EXTRA", help="Extras that must work here: rllib, web, …, all; also stockfish."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Show what is installed, what is missing, and how to install it.

    Imports what Mosaic requires and every extra that is named; exits with 1 if one of them is missing or does not load.
    """
    from mosaic.ui.cli.output import complain, print_json, print_table
    from mosaic.ui.health import examine_closely, not_installed

    findings, needed = examine_closely(parts or [])
    if json:
        print_json([finding._asdict() for finding in findings])
    else:
        options = [finding for finding in findings if finding.optional and finding not in needed]
        listed = [finding for finding in findings if finding not in options]
        states = {(True, False): "ok", (False, True): "missing", (False, False): "broken"}
        rows = [[f.id, states[f.ok, f.optional], f.detail, f.install or ""] for f in listed]
        columns = ["what", "state", "detail", *(["to install"] if any(row[3] for row in rows) else [])]
        print_table("Doctor", columns, [row[: len(columns)] for row in rows])
        if options:
            rows = [[f.id.removeprefix("extra "), f.detail, f.install or ""] for f in options]
            print_table(not_installed(len(options)), ["what", "detail", "to install"], rows)
    if bad := [finding for finding in needed if not finding.ok]:
        complain("Missing or broken: " + "; ".join(f"{one.id} ({one.detail}): {one.install}" for one in bad))
        raise typer.Exit(1)
