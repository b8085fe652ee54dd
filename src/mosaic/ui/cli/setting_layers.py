"""Layers of a run's settings on the command line: what was typed, a --config file, a project's preset, the defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from mosaic.store.projects.project import Project
    from mosaic.workers.resolution import ResolvedConfig

_COMMAND_LINE = "the command line"
_SHOWN = 12  # settings of one source that are named


@dataclass(frozen=True, slots=True)
class SettingLayers:
    """Settings made by the user, in layers from the highest priority to the lowest."""

    asked: Mapping[str, Any]  # options with a name of their own, as `with_typed` takes them
    overrides: list[str] = field(default_factory=list)  # of --set
    file: Path | None = None
    given: Mapping[str, object] = field(default_factory=dict)  # content of the file
    project: Project | None = None
    preset: str | None = None
    below: Mapping[str, object] = field(default_factory=dict)  # settings of the project and its preset

    def document(self) -> dict[str, object]:
        """Merge all layers but --set, which is parsed with the rest."""
        from mosaic.config.layers import env_of, merge_settings, without_other_env

        env = self.asked["env"] or env_of(self.given)
        below = without_other_env(self.below, env) if env else dict(self.below)
        return with_typed(self.asked, merge_settings(below, self.given))

    def sources(self, configured: ResolvedConfig) -> dict[str, list[str]]:
        """Return the settings that each layer, and the preset of the env, gave to a run."""
        from mosaic.config.layers import setting_sources
        from mosaic.config.loading import apply_overrides
        from mosaic.workers.presets import find_preset

        typed = apply_overrides(with_typed(self.asked, {}), self.overrides)
        layers = [(_COMMAND_LINE, typed), (f"--config {self.file}", self.given), (self._project_label(), self.below)]
        found: dict[str, list[str]] = {}
        for name, source in setting_sources(apply_overrides(self.document(), self.overrides), layers).items():
            found.setdefault(source, []).append(name)
        training, asked = configured.config.training, configured.asked
        preset = find_preset(configured.config.environment.id, training.worker or "", training.algorithm or "")
        if preset is not None and training.preset:
            tuned = [f"training.params.{name}" for name in preset.params if name not in asked.training.params]
            if asked.training.total_timesteps is None and asked.training.episodes is None:
                tuned.append("training.total_timesteps")
            if asked.environment.num_envs is None and preset.num_envs is not None:
                tuned.append("environment.num_envs")
            found |= {f"the preset for {preset.env}": tuned} if tuned else {}
        return found

    def mention_sources(self, configured: ResolvedConfig) -> None:
        """Print where the values of a run come from."""
        from mosaic.ui.cli.output import note

        for source, names in self.sources(configured).items():
            rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            note(f"From {source}: {', '.join(names[:_SHOWN])}{rest}.")
        note("All other values are defaults.")

    def _project_label(self) -> str:
        if self.project is None:
            return ""
        preset = f"the preset '{self.preset}' of " if self.preset else ""
        return f"{preset}the project '{self.project.name}'"

    def mention_project(self) -> None:
        """Print which project a run belongs to, and which preset it uses."""
        from mosaic.ui.cli.output import note

        if self.project is not None:
            used = f", preset '{self.preset}'" if self.preset else ""
            note(f"Project '{self.project.name}'{used}, from {self.project.file}. Without it: --no-project")


def with_typed(asked: Mapping[str, Any], below: Mapping[str, object]) -> dict[str, object]:
    """Return a document with the typed options written over it."""
    from mosaic.ui.cli.options import checkpoint_interval

    document = dict(below)
    if asked["env"] is not None:
        earlier = document.get("environment")
        kept = {k: v for k, v in earlier.items() if k != "family"} if isinstance(earlier, dict) else {}
        document["environment"] = {**kept, "env_id": asked["env"]}
    for section in ("training", "resources", "checkpoint"):
        typed = {key: value for key, value in asked.get(section, {}).items() if value is not None}
        if section == "checkpoint" and asked.get("checkpoint_every") is not None:
            typed |= checkpoint_interval(asked["checkpoint_every"])  # also those that are None: the file may set them
        if typed:
            earlier = document.get(section)
            document[section] = {**(earlier if isinstance(earlier, dict) else {}), **typed}
    options = {key: value for key, value in asked.get("params", {}).items() if value is not None}
    if options:
        training = document.get("training")
        training = dict(training) if isinstance(training, dict) else {}
        document["training"] = {"algorithm": "bc", **training, "params": {**(training.get("params") or {}), **options}}
    document.update({key: value for key, value in asked["top"].items() if value is not None})
    return document


@dataclass(frozen=True, slots=True)
class ProjectOptions:
    """Options of a command that choose a project and a preset."""

    project: str | None = None
    preset: str | None = None
    ignored: bool = False


def choose_project(options: ProjectOptions) -> Project | None:
    """Return the named project, or the one of the working directory; None where there is none or it is ignored."""
    from mosaic.core.errors import InputError
    from mosaic.store.store import Store

    if options.ignored:
        given = "--project" if options.project else "--preset" if options.preset else ""
        if given:
            raise InputError(f"{given} and --no-project contradict each other. Leave one out.")
        return None
    registry = Store().projects
    if options.project is not None:
        return registry.find(options.project)
    try:
        found = registry.here()
    except InputError as error:
        text = str(error)
        raise type(error)(text if "--no-project" in text else f"{text}\nTo train without it: --no-project") from error
    if found is None and options.preset is not None:
        raise InputError(
            f"--preset {options.preset} belongs to a project, and there is no mosaic.toml in this folder or above it. "
            "Name the project: --project NAME. Known: mosaic projects list"
        )
    return found


def name_of_project(folder: str) -> str:
    """Return the name of the project that a folder is in."""
    from mosaic.core.errors import InputError
    from mosaic.store.projects.project import project_here

    found = project_here(Path(folder))
    if found is None:
        raise InputError("There is no mosaic.toml in this folder or above it. Name a project: mosaic projects list")
    return found.name


def read_layers(
    asked: Mapping[str, Any], file: Path | None, overrides: list[str], options: ProjectOptions
) -> SettingLayers:
    """Read the file and the project."""
    from mosaic.config.file_formats import read_document

    return layers_of(asked, file, {} if file is None else read_document(file), overrides, options)


def layers_of(
    asked: Mapping[str, Any],
    file: Path | None,
    document: dict[str, object],
    overrides: list[str],
    options: ProjectOptions,
) -> SettingLayers:
    """Add the project to a file that is read already; a file inside a foreign run needs trust where it names code."""
    from mosaic.config.loading import upgrade
    from mosaic.store.archives.trust import require_trust_in_file

    given: dict[str, object] = {}
    if file is not None:
        require_trust_in_file(file, document)
        given = upgrade(document)
    project = choose_project(options)
    if project is None:
        return SettingLayers(asked, overrides, file, given)
    preset = project.config.preset_name(options.preset)
    layers = SettingLayers(asked, overrides, file, given, project, preset, project.settings(preset))
    if "environment" in (whole := layers.document()):
        require_trust_in_file(project.file, whole)
    return layers


def remember_project(project: Project) -> None:
    """Enter the project into the list of known ones; a second one of the same name trains without an entry."""
    from mosaic.core.errors import InputError
    from mosaic.store.store import Store
    from mosaic.ui.cli.output import note

    try:
        Store().projects.register(project)
    except InputError as error:
        note(f"This project is not listed. {error}")


class ChangedSetting(NamedTuple):
    """Setting of a run that differs from its default; `default` is None where it has none."""

    name: str
    value: object
    default: object


_ELSEWHERE = {"version", "run_id", "name", "tags", "environment.family", "environment.env_id", "policy_configuration"}
_ELSEWHERE |= {"training.worker", "training.algorithm"}  # what a run is called, and what it trains


def changed_settings(config: Mapping[str, Any]) -> list[ChangedSetting]:
    """Return the settings of a run that differ from the defaults of Mosaic and of the run's algorithm.

    Raises InputError where the run's worker is not installed here.
    """
    from mosaic.config.loading import dump_run_config, parse_run_config
    from mosaic.ui.cli.group_results import flatten
    from mosaic.workers.registry import load_worker, options_model

    environment, training = config["environment"], config["training"]
    usual = dump_run_config(parse_run_config({"environment": {key: environment[key] for key in ("family", "env_id")}}))
    if training["worker"] is not None:  # else nothing is resolved yet
        options = options_model(load_worker(training["worker"]), training["algorithm"]).model_construct()
        usual["training"]["params"] = options.model_dump(mode="json", round_trip=True)
    defaults = dict(flatten(usual))
    return [
        ChangedSetting(name, value, defaults.get(name))
        for name, value in flatten(config)
        if name not in _ELSEWHERE and value != defaults.get(name, {})  # an empty table says nothing
    ]
