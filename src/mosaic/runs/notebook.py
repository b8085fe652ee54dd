"""How a run looks in a notebook."""

from __future__ import annotations

from html import escape

from mosaic.store.index.summary import RunSummary


def as_html(run: RunSummary) -> str:
    reward = "" if run.episode_reward_mean is None else f"{run.episode_reward_mean:.4g}"
    rows = {
        "run": run.run_id,
        "name": run.name,
        "state": run.state,
        "env": run.env,
        "worker": " ".join(filter(None, (run.worker, run.algorithm))),
        "env steps": f"{run.env_steps:,}",
        "mean episode reward": reward,
        "seed": str(run.seed),
    }
    cells = "".join(
        f'<tr><th style="text-align:left">{escape(name)}</th><td style="text-align:left">{escape(value)}</td></tr>'
        for name, value in rows.items()
        if value
    )
    return f"<table>{cells}</table>"
