"""The commands `mosaic bundle`, `push` and `pull`, which share trained policies."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from mosaic.ui.cli.options import JsonOption, RunArgument, SeedOption, TrustOption
from mosaic.ui.cli.setting_help import setting

if TYPE_CHECKING:
    from mosaic.exports.bundles.trial import BundleSettings
    from mosaic.store.bundles.bundle import Bundle

PolicyOption: TypeAlias = Annotated[
    list[str], typer.Option("--policy", metavar="NAME", help="Policy to include; may be repeated.", show_default="all")
]
CheckpointOption: TypeAlias = Annotated[str, typer.Option("--checkpoint", help=setting("request.checkpoint"))]
EpisodesOption: TypeAlias = Annotated[int, typer.Option("--episodes", min=2, help="Episodes of the evaluation.")]
OpponentOption: TypeAlias = Annotated[
    str, typer.Option("--opponent", metavar="POLICY", help="Opponent of the evaluation, in games with winners.")
]
VideoOption: TypeAlias = Annotated[bool, typer.Option("--video/--no-video", help="Include a video of one episode.")]
LicenseOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--license", metavar="NAME", help="License in the model card, such as mit.", show_default="none"),
]
ForceOption: TypeAlias = Annotated[bool, typer.Option("--force", help="Replace an existing bundle.")]


def bundle(
    run: RunArgument,
    to: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="A new folder.", show_default="NAME-bundle in this folder"),
    ] = None,
    policy: PolicyOption = [],  # noqa: B006 - Typer copies it
    checkpoint: CheckpointOption = "latest",
    episodes: EpisodesOption = 20,
    seed: SeedOption = 0,
    opponent: OpponentOption = "random",
    video: VideoOption = True,
    license: LicenseOption = None,
    force: ForceOption = False,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Write policies into a folder for others: weights, ONNX, manifest, model card and a replay.

    Others play it as bundle:FOLDER; nothing in it is run as code.
    """
    from mosaic.exports.bundles.trial import BundleSettings
    from mosaic.ui.cli.options import give_trust
    from mosaic.ui.cli.output import note, print_json

    give_trust(trust)
    settings = BundleSettings(episodes, seed, opponent, video, license)
    made = _bundle(run, to or Path(f"{_plain(run)}-bundle"), policy, checkpoint, settings, force, _steps(json))
    if json:
        print_json({"path": str(made.path), **made.manifest.model_dump(mode="json")})
        return
    _show(made)
    note(f"Play it: mosaic evaluate {made.manifest.env_id} --agent '*=bundle:{made.path}'")


def push(
    what: Annotated[str, typer.Argument(metavar="RUN", help="A run, or the folder of a bundle.")],
    repo: Annotated[str, typer.Argument(metavar="REPO", help="Repository on the Hub: OWNER/NAME.")],
    private: Annotated[bool, typer.Option("--private", help="Create a private repository.")] = False,
    policy: PolicyOption = [],  # noqa: B006 - Typer copies it
    checkpoint: CheckpointOption = "latest",
    license: LicenseOption = None,
    force: ForceOption = False,
    trust: TrustOption = False,
    json: JsonOption = False,
) -> None:
    """Upload a bundle to the Hugging Face Hub; for a run, create the bundle first.

    The token comes from HF_TOKEN or from `hf auth login`. HF_ENDPOINT names another Hub.
    """
    from dataclasses import asdict
    from tempfile import TemporaryDirectory

    from mosaic.core.errors import InputError
    from mosaic.exports.bundles.trial import BundleSettings
    from mosaic.exports.hub.client import check_repo
    from mosaic.exports.hub.push import push as upload
    from mosaic.store.bundles.bundle import is_bundle
    from mosaic.ui.cli.options import give_trust
    from mosaic.ui.cli.output import note, print_json

    give_trust(trust)
    check_repo(repo)  # before minutes of work
    on_step = _steps(json)
    with TemporaryDirectory(prefix="mosaic-push-") as folder:
        path = Path(what).expanduser()
        if is_bundle(path):
            if policy or checkpoint != "latest" or license is not None:
                raise InputError(f"'{path}' is already a bundle: leave --policy, --checkpoint and --license out.")
        else:
            path = Path(folder) / "bundle"
            _bundle(what, path, policy, checkpoint, BundleSettings(license=license), False, on_step)
        on_step(f"upload to {repo}")
        done = upload(path, repo, private=private, overwrite=force)
    if json:
        print_json(asdict(done))
        return
    print(done.url)
    note(f"{done.files} files, {done.size:,} bytes, commit {done.commit[:12]}. Others type: mosaic pull {done.repo}")


def pull(
    repo: Annotated[str, typer.Argument(metavar="REPO", help="Repository on the Hub: OWNER/NAME.")],
    to: Annotated[
        Path | None,
        typer.Option("--out", metavar="FOLDER", help="A new folder.", show_default="the name of the repository"),
    ] = None,
    revision: Annotated[
        str | None, typer.Option("--revision", help="Branch, tag or commit.", show_default="the newest")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Fetch a bundle from the Hugging Face Hub and check every file; nothing in it is run.

    Only the files in its manifest are fetched.
    """
    from mosaic.exports.hub.client import check_repo
    from mosaic.exports.hub.pull import pull as fetch
    from mosaic.store.bundles.bundle import Bundle
    from mosaic.ui.cli.output import note, print_json

    name = check_repo(repo)
    on_step = _steps(json)
    done = fetch(
        name,
        to or Path(name.rpartition("/")[2]),
        revision=revision,
        on_bytes=lambda so_far, total: on_step(f"{so_far:,} of {total:,} bytes"),
    )
    if json:
        print_json({"repo": done.repo, "commit": done.commit, "path": str(done.path), "left_out": done.left_out})
        return
    _show(Bundle(done.path, done.manifest))
    if done.left_out:
        note(f"{done.left_out} files of {name} do not belong to the bundle, and were not fetched.")
    note(f"Play it: mosaic evaluate {done.manifest.env_id} --agent '*=bundle:{done.path}'")


def _steps(json: bool) -> Callable[[str], None]:
    from mosaic.ui.cli.output import note

    return lambda step: None if json else note(f"{step} …")


def _bundle(
    run: str,
    out: Path,
    policies: list[str],
    checkpoint: str,
    settings: BundleSettings,
    force: bool,
    on_step: Callable[[str], None],
) -> Bundle:
    from mosaic.exports.bundles.make import bundle as make
    from mosaic.store.policies.run_policy import parse_run_reference

    name, which, named = parse_run_reference(f"{run.removeprefix('run:')}@{checkpoint}")
    assert named is None
    return make(name, out, policies=policies, checkpoint=which, settings=settings, overwrite=force, on_step=on_step)


def _plain(run: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "._-" else "-" for letter in run.removeprefix("run:"))


def _show(made: Bundle) -> None:
    from mosaic.ui.cli.output import interval, note, print_table

    manifest = made.manifest
    rows = [
        (name, ", ".join(each.agents) or "all", each.worker, "yes" if each.onnx else each.onnx_refused)
        for name, each in manifest.policies.items()
    ]
    print_table(f"Bundle {made.path}", ("policy", "agents", "worker", "ONNX"), rows)
    measured = [
        (agent, row["policy"], interval(row["return_mean"], row["return_ci95"]), row["episodes"])
        for result in manifest.evaluation
        for agent, row in result.get("agents", {}).items()
        if row.get("bundled")
    ]
    if measured:
        columns = ("agent", "policy", "return (95 %)", "episodes")
        print_table(f"Measured in {manifest.env_id}", columns, measured, columns[2:])
    replay = manifest.replay.file or f"none ({manifest.replay.reason})"
    note(f"{len(manifest.files) + 1} files, {made.size:,} bytes; replay: {replay}")
