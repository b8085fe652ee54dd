"""Model card of a bundle, in Hugging Face's format."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mosaic.core.user_code import PREFIX
from mosaic.envs.space_json import describe_space
from mosaic.store.bundles.manifest import BundledPolicy, BundleManifest
from mosaic.store.origin import describe_git


def write_card(path: Path, manifest: BundleManifest, *, license: str | None = None) -> None:
    """Write README.md: metadata that the hub reads, and a text for people."""
    from huggingface_hub import EvalResult, ModelCard, ModelCardData

    env = manifest.env_id
    results = [
        EvalResult(
            task_type="reinforcement-learning",
            task_name="Reinforcement learning",
            dataset_type=env,
            dataset_name=env,
            metric_type="mean_reward",
            metric_name=f"mean return of {agent}{against}, 95 % interval {_interval(row)}",
            metric_value=round(row["return_mean"], 4),
        )
        for agent, row, against in _measured(manifest)
        if row["return_mean"] is not None
    ]
    data = ModelCardData(
        library_name="mosaic-rl",
        license=license,
        pipeline_tag="reinforcement-learning",
        tags=["reinforcement-learning", "mosaic-rl", env.rpartition("/")[2], *_algorithm_tags(manifest)],
        model_name=manifest.name,
        eval_results=results or None,
    )
    card = ModelCard(f"---\n{data.to_yaml()}\n---\n\n{_text(manifest)}")
    path.write_text(str(card), encoding="utf-8")


def _algorithm_tags(manifest: BundleManifest) -> list[str]:
    return [manifest.training.algorithm] if manifest.training.algorithm else []


def _measured(manifest: BundleManifest) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the agents that these policies played, with their results and opponents."""
    for result in manifest.evaluation:
        others = sorted({row["policy"] for row in result["agents"].values() if not row["bundled"]})
        for agent, row in result["agents"].items():
            if row["bundled"]:
                yield agent, row, f" against {', '.join(others)}" if others else ""


def _interval(row: dict[str, Any]) -> str:
    low, high = row["return_ci95"] or (None, None)
    return "unknown" if low is None or high is None else f"{low:.3f} to {high:.3f}"


def _text(manifest: BundleManifest) -> str:
    return "\n\n".join(
        part
        for part in (
            f"# {manifest.name}",
            _introduction(manifest),
            _replay(manifest),
            "## How to play it",
            _usage(manifest),
            "## Evaluation",
            _evaluation(manifest),
            "## Policies",
            _policies(manifest),
            "## Training",
            _training(manifest),
        )
        if part
    )


def _introduction(manifest: BundleManifest) -> str:
    count = len(manifest.policies)
    what = "A policy" if count == 1 else f"{count} policies"
    algorithm = f" by {manifest.training.algorithm}" if manifest.training.algorithm else ""
    workers = ", ".join(sorted({each.worker for each in manifest.policies.values()}))
    return (
        f"{what} for `{manifest.env_id}`, trained{algorithm} (worker `{workers}`) for "
        f"{manifest.training.env_steps:,} env steps with Mosaic {manifest.versions.get('mosaic-rl', '')}."
    )


def _replay(manifest: BundleManifest) -> str:
    return f'<video controls autoplay loop src="{manifest.replay.file}"></video>' if manifest.replay.file else ""


def _usage(manifest: BundleManifest) -> str:
    env = manifest.env_id
    return (
        "```\npip install 'mosaic-rl[hub]'\nmosaic pull REPO --out policies\n"
        f"mosaic evaluate {env} --agent '*=bundle:policies'\n```\n\n{_own_env(manifest)}"
        "`REPO` is the name of this repository. Nothing in it is run as code: weights are safetensors files, and every "
        "file is compared with its hash in `manifest.json`."
    )


def _own_env(manifest: BundleManifest) -> str:
    if not manifest.env_id.startswith(PREFIX):
        return ""
    module = manifest.env_id.removeprefix(PREFIX).partition(":")[0]
    return f"The env is code of its author, `{module}`, which is not in this repository and is needed to play.\n\n"


def _evaluation(manifest: BundleManifest) -> str:
    rows = list(_measured(manifest))
    winners = any(row["wins"] is not None for _, row, _ in rows)
    head = ["agent", "policy", "against", "episodes", "mean return", "95 % interval"]
    head += ["won", "drawn", "lost"] if winners else []
    lines = [_row(head), _row(["---"] * len(head))]
    for agent, row, against in rows:
        mean = "–" if row["return_mean"] is None else f"{row['return_mean']:.3f}"
        cells = [agent, row["policy"], against.removeprefix(" against ") or "–", row["episodes"], mean, _interval(row)]
        lines.append(_row([*cells, *([row["wins"], row["draws"], row["losses"]] if winners else [])]))
    first = manifest.evaluation[0] if manifest.evaluation else None
    seed = f"\n\nSeed {first['seed']}." if first else ""
    return "\n".join(lines) + seed


def _policies(manifest: BundleManifest) -> str:
    lines = [_row(["policy", "agents", "weights", "ONNX"]), _row(["---"] * 4)]
    for name, each in manifest.policies.items():
        weights = ", ".join(f"`{file}`" for file in each.weights)
        lines.append(_row([name, ", ".join(each.agents) or "all", weights, _graphs(each)]))
    spaces = [
        f"- {agent}: observation {_space(both['observation'])}, action {_space(both['action'])}"
        for agent, both in list(manifest.spaces.items())[:8]
    ]
    return "\n".join(lines) + ("\n\n" + "\n".join(spaces) if spaces else "")


def _graphs(policy: BundledPolicy) -> str:
    if not policy.onnx:
        return f"none: {policy.onnx_refused}"
    return ", ".join(f"`{each.file}` (differs by at most {each.parity['max_abs_diff']:.1g})" for each in policy.onnx)


def _training(manifest: BundleManifest) -> str:
    trained = manifest.training.model_dump(mode="json")
    facts = {key: value for key, value in trained.items() if value not in (None, {}) and key != "params"}
    lines = [_row(["", ""]), _row(["---", "---"])]
    shown = {key: f"{value:.5g}" if isinstance(value, float) else value for key, value in facts.items()}
    lines += [_row([key.replace("_", " "), value]) for key, value in shown.items()]
    params = json.dumps(trained["params"], indent=1, ensure_ascii=False)
    versions = ", ".join(f"{name} {version}" for name, version in manifest.versions.items())
    code = "" if manifest.git is None else f"\nTrained in a folder at commit {describe_git(manifest.git)}.\n"
    return "\n".join(lines) + f"\n\n```json\n{params}\n```\n\n{versions}\n{code}"


def _space(document: Any) -> str:
    text = describe_space(document)
    return f"`{text if len(text) < 120 else text[:110] + ' …'}`"


def _row(cells: list[Any]) -> str:
    """Return a line of a Markdown table; names are a user's own, and must not end a cell."""
    return f"| {' | '.join(' '.join(str(cell).split()).replace('|', chr(92) + '|') for cell in cells)} |"
