"""The `mosaic probe` command, which tests a learner on tiny envs with known results."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from mosaic.ui.cli.options import JsonOption, SeedOption


def probe(
    worker: Annotated[
        str, typer.Option("--worker", help="Worker whose learner is tested; only native is supported.")
    ] = "native",
    algo: Annotated[
        str, typer.Option("--algo", help="Algorithm: ppo, a2c, dqn, sac or td3; others are refused.")
    ] = "ppo",
    engine: Annotated[
        Literal["auto", "fused", "torch"], typer.Option("--engine", help="Engine of ppo and a2c; torch takes longer.")
    ] = "auto",
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Find a broken learner in seconds.

    Trains on tiny envs with known results; each wrong result says what is broken. Exits with 1 if any is wrong.
    """
    from mosaic.core.errors import InputError
    from mosaic.learners.probes import failed, probes_of, run_probes
    from mosaic.ui.cli.output import out, print_json, print_table, progress

    if worker != "native":
        raise InputError(
            f"Probes look into the network of a learner, and know that of native alone, not of '{worker}'."
        )
    outcomes = []
    with progress(f"Probing {algo}", len(probes_of(algo)), shown=not json) as tick:
        for outcome in run_probes(algo, engine=engine, seed=seed):
            outcomes.append(outcome)
            tick()
    wrong = failed(outcomes)
    if json:
        print_json(
            {
                "worker": worker,
                "algorithm": algo,
                "ok": not wrong,
                "probes": [
                    {
                        "name": o.probe.name,
                        "finds": o.probe.finds,
                        "expected": [str(answer) for answer in o.probe.answers],
                        "got": list(o.got),
                        "ok": o.ok,
                    }
                    for o in outcomes
                ],
            }
        )
    else:
        rows = [
            [
                o.probe.name,
                o.probe.finds,
                "\n".join(map(str, o.probe.answers)),
                "\n".join(o.got),
                "yes" if o.ok else "NO",
            ]
            for o in outcomes
        ]
        print_table(f"{worker} {algo}", ["probe", "finds, if it fails", "expected", "got", "ok"], rows, whole=1)
        if not wrong:
            out.print(f"{algo} gets all {len(rows)} right.", style="green")
    if wrong:
        raise typer.Exit(1)
