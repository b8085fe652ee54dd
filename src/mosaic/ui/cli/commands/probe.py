"""The `mosaic probe` command, which tests a learner on tiny envs with known results."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from mosaic.ui.cli.options import JsonOption, ProbedAlgorithm, SeedOption


def probe(
    worker: Annotated[
        Literal["native"],
        typer.Option(
            "--worker",
            case_sensitive=False,
            help="Worker whose learner is tested. Only native is supported: probes look into the network.",
        ),
    ] = "native",
    algo: Annotated[ProbedAlgorithm, typer.Option("--algo", case_sensitive=False, help="Algorithm to test.")] = "ppo",
    engine: Annotated[
        Literal["auto", "fused", "torch"], typer.Option("--engine", help="Engine of ppo and a2c; torch takes longer.")
    ] = "auto",
    seed: SeedOption = 0,
    json: JsonOption = False,
) -> None:
    """Find a broken learner in seconds.

    Trains on tiny envs with known results; each wrong result says what is broken. Exits with 1 if any is wrong.
    """
    from mosaic.learners.probes import failed, probes_of, run_probes
    from mosaic.ui.cli.output import out, print_json, print_table, progress

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
