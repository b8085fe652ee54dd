"""The `mosaic workers` command, which lists the workers that can train."""

from __future__ import annotations

from mosaic.ui.cli.options import JsonOption


def workers(json: JsonOption = False) -> None:
    """List the workers that train, and what each can do."""
    from mosaic.core.plugins import plugins
    from mosaic.ui.cli.output import out, print_json, print_table
    from mosaic.workers.registry import load_worker

    infos = [load_worker(name).info for name in plugins("mosaic.workers")]
    if json:
        print_json([{"id": info.name, **info.model_dump(mode="json")} for info in infos])
        return
    train = ("pause", "resume", "checkpoints", "seeds", "self_play", "population", "gpu")
    abilities = (*train, "agent_mapping", "evaluates", "init")
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
