"""Bundle of a run's policies: written beside its place, played from there, and renamed when it is whole."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError, MissingExtraError, unknown
from mosaic.core.files import replace_folder, temporary_path
from mosaic.core.version import VERSION
from mosaic.envs.catalog import make_env
from mosaic.exports.bundles.card import write_card
from mosaic.exports.bundles.contents import add_graphs, add_weights, describe_policy, summarize_training
from mosaic.exports.bundles.trial import BundleSettings, Trial, film, measure
from mosaic.runners.video import frame_rate
from mosaic.store.archives.trust import require_trust_in_env, require_trust_to_run, trust_given
from mosaic.store.atomic import write_atomic
from mosaic.store.bundles.bundle import Bundle, is_bundle
from mosaic.store.bundles.manifest import CARD, MANIFEST, BundleManifest, ReplayVideo, manifest_text
from mosaic.store.checkpoint_record import file_entry, files_in
from mosaic.store.checkpoints import Checkpoint, Which, held_checkpoint
from mosaic.store.errors import StorageError, reason
from mosaic.store.store import Store

INSTALL = "pip install 'mosaic-rl[hub]'"
_DEFAULTS = BundleSettings()


def bundle(
    run: str,
    out: Path | str,
    *,
    policies: Sequence[str] = (),
    checkpoint: Which = "latest",
    settings: BundleSettings = _DEFAULTS,
    overwrite: bool = False,
    on_step: Callable[[str], None] = lambda step: None,
) -> Bundle:
    """Write policies of a run, all of them by default, into a new folder that others can play without code.

    `on_step` is called with each step as it begins. Nothing is left at `out` if one fails.
    """
    if find_spec("huggingface_hub") is None:
        raise MissingExtraError(f"Model cards are written by huggingface_hub, which is not installed. Type: {INSTALL}")
    with held_checkpoint(Store().resolve(run), checkpoint) as found:
        require_trust_in_env(found)
        # its opponents play too
        require_trust_to_run(found.run, trust_given(), "type the same command with --trust")
        return _make(found, policies, Path(out).expanduser().absolute(), settings, overwrite, on_step)


def _make(
    found: Checkpoint,
    policies: Sequence[str],
    target: Path,
    settings: BundleSettings,
    overwrite: bool,
    on_step: Callable[[str], None],
) -> Bundle:
    names = tuple(policies) or tuple(found.manifest.policies)
    for name in names:
        if name not in found.manifest.policies:
            raise unknown(f"policy of run '{found.origin}'", name, found.manifest.policies)
    if not names:
        raise InputError(f"The checkpoint of run '{found.origin}' at {found.env_steps} env steps holds no policy.")
    _check_target(target, overwrite)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_path(target)
    try:
        temporary.mkdir()
        made = _fill(found, names, temporary, settings, on_step)
        _publish(temporary, target)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise StorageError(
            f"The bundle '{target}' cannot be written: {reason(error)}. Name another place with --out."
        ) from error
    finally:
        if temporary.exists():
            shutil.rmtree(temporary)
    return replace(made, path=target)


def _fill(
    checkpoint: Checkpoint,
    names: Sequence[str],
    folder: Path,
    settings: BundleSettings,
    on_step: Callable[[str], None],
) -> Bundle:
    with closing(make_env(EnvironmentConfig.model_validate(checkpoint.manifest.environment))) as env:
        spec, frames_per_s = env.spec, frame_rate(env)
    on_step("weights")
    weights = add_weights(checkpoint, names, folder)
    described = {name: describe_policy(checkpoint, name, weights[name], spec) for name in names}
    for name in names:
        on_step(f"ONNX file of '{name}', compared with the policy")
        described[name] = add_graphs(checkpoint, name, described[name], spec, folder)
    config = checkpoint.run.read_config()
    manifest = BundleManifest(
        run=checkpoint.origin,
        name=config.name or checkpoint.origin,
        environment=checkpoint.manifest.environment,
        spaces=checkpoint.manifest.spaces,
        policies=described,
        training=summarize_training(checkpoint, config),
        versions={**checkpoint.manifest.versions, "mosaic-rl": VERSION},
        git=checkpoint.manifest.git,
        files={},
    )
    # Measured and filmed from these files, not from the run: this shows that they can be played.
    _write_manifest(folder, manifest)
    on_step(f"evaluation of {settings.episodes} episodes")
    trial = Trial(folder, manifest, spec, config, settings)
    manifest = manifest.model_copy(update={"evaluation": measure(trial)})
    on_step("replay")
    replay = film(trial, frames_per_s) if settings.video else ReplayVideo(reason="not asked for")
    manifest = manifest.model_copy(update={"replay": replay})
    on_step("model card")
    write_card(folder / CARD, manifest, license=settings.license)
    return Bundle(folder, _write_manifest(folder, manifest))


def _write_manifest(folder: Path, manifest: BundleManifest) -> BundleManifest:
    files = {name: file_entry(folder / name) for name in sorted(files_in(folder)) if name != MANIFEST}
    manifest = manifest.model_copy(update={"files": files})
    write_atomic(folder / MANIFEST, manifest_text(manifest))
    return manifest


def _check_target(target: Path, overwrite: bool) -> None:
    """Refuse a target that exists; only a bundle or an empty folder is ever replaced."""
    if not target.exists() and not target.is_symlink():
        return
    if target.is_dir() and not target.is_symlink() and not any(target.iterdir()):
        return
    if not overwrite:
        raise InputError(
            f"'{target}' exists. Name another folder with --out, or replace the bundle in it with --force."
        )
    if target.is_symlink() or not is_bundle(target):
        raise InputError(f"'{target}' is not a bundle, and is not replaced. Name another folder with --out.")


def _publish(temporary: Path, target: Path) -> None:
    """Rename the folder; a bundle that was there is removed after the new one is in its place."""
    old = temporary_path(target)
    replace_folder(temporary, target, old)
    if old.exists():
        shutil.rmtree(old)
