"""Worker that trains with Stable-Baselines3 and sb3-contrib: one policy, for any number of agents with equal spaces."""

from __future__ import annotations

from importlib.metadata import version
from typing import TYPE_CHECKING

from pydantic import BaseModel

from mosaic.workers.api import WorkerCapabilities
from mosaic.workers.resolution import with_limit
from mosaic.workers.sb3.config.algorithms import ALGORITHMS, check_installed, upstream, usual_algorithm

if TYPE_CHECKING:  # modules that import numba or torch are imported when a run begins
    from pathlib import Path

    from mosaic.config.run import RunConfig
    from mosaic.core.ids import AgentID
    from mosaic.envs.env import EnvSpec
    from mosaic.exports.policy import ExportablePolicy
    from mosaic.policies.controller import PolicyController, PolicyRequest
    from mosaic.store.checkpoint_record import PolicyEntry
    from mosaic.store.checkpoints import Checkpoint
    from mosaic.store.policies.foreign_checkpoint import ForeignSource
    from mosaic.store.policies.init_source import InitSource
    from mosaic.workers.context import WorkerContext


class Sb3Worker:
    info = WorkerCapabilities(
        name="sb3",
        version=version("mosaic-rl"),
        upstream=upstream(),
        algorithms=tuple(ALGORITHMS),
        paradigms=("parameter_sharing",),
        action_kinds=("discrete", "multi_discrete", "multi_binary", "box"),
        observation_kinds=("discrete", "multi_discrete", "multi_binary", "box", "pictures", "dict"),
        pause=True,
        resume=True,
        checkpoints=True,
        seeds=True,
        samples=True,
        agent_mapping=True,
        evaluates=True,
        env_metrics=True,
        curriculum=True,
        init=True,
        population=True,
        gpu=True,
        resources=("num_env_runners", "num_envs", "num_gpus"),
        notes=(
            "One policy trains in a run, also where an env names several; agents with other policies keep fixed ones.",
            "New episodes begin when a run resumes, except in compiled envs, which continue where they were.",
        ),
        patience_s=60.0,
    )
    loads_pickles = False  # safetensors and JSON; the zip for SB3 itself is written and never read
    unpickles_foreign = False  # zips are read as JSON and tensors; what that does not restore asks for trust itself

    def options(self, algorithm: str) -> type[BaseModel]:
        from mosaic.workers.sb3.config.options import options_of

        return options_of(algorithm)

    def default_algorithm(self, config: RunConfig, spec: EnvSpec) -> str:
        return usual_algorithm(config, spec)

    def check(self, config: RunConfig, options: BaseModel, spec: EnvSpec) -> None:
        """Raise InputError if the run would fail at its start, before anything is started."""
        from mosaic.workers.sb3.config.checks import check_run
        from mosaic.workers.sb3.config.options import Sb3Options

        check_installed()
        assert isinstance(options, Sb3Options)
        check_run(config, options, spec)

    def check_init(self, config: RunConfig, options: BaseModel, spec: EnvSpec, source: InitSource) -> None:
        """Raise InputError if the networks have other shapes than this run's, which are built to find out."""
        from mosaic.workers.sb3.config.checks import model_of
        from mosaic.workers.sb3.config.options import Sb3Options
        from mosaic.workers.sb3.start import start_model

        assert isinstance(options, Sb3Options)
        start_model(source, model_of(config, options, spec), None, normalizes=options.normalize_observations)

    def complete(self, config: RunConfig, options: BaseModel, spec: EnvSpec) -> tuple[RunConfig, BaseModel]:
        """Fill in the limit, the number of envs and the device; who learns on a GPU needs one."""
        from mosaic.workers.sb3.config.checks import with_device, with_envs
        from mosaic.workers.sb3.config.options import Sb3Options

        assert isinstance(options, Sb3Options)
        chosen = with_device(config, options)
        if chosen.device != "cpu":
            config = config.model_copy(update={"resources": config.resources.model_copy(update={"num_gpus": 1.0})})
        return with_envs(with_limit(config), spec), chosen

    def run(self, context: WorkerContext) -> None:
        from mosaic.workers.sb3.run import train_model

        train_model(context)

    def controller(self, checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> PolicyController:
        from mosaic.workers.sb3.checkpoint.controllers import load_controller

        return load_controller(_weights_file(checkpoint, policy), request)

    def foreign_policies(self, path: Path) -> tuple[str, ...]:
        """Return the name of the policy in a zip that SB3 wrote, which has none; nothing if it is another file."""
        from mosaic.workers.sb3.checkpoint.zip_file import POLICY, is_sb3_zip

        return (POLICY,) if is_sb3_zip(path) else ()

    def foreign_controllers(self, source: ForeignSource, request: PolicyRequest) -> dict[AgentID, PolicyController]:
        from mosaic.workers.sb3.checkpoint.zip_policy import play_source

        return dict.fromkeys(request.agents, play_source(source, request))

    def foreign_notes(self, path: Path) -> tuple[str, ...]:
        from mosaic.workers.sb3.checkpoint.zip_policy import zip_note

        return tuple(filter(None, (zip_note(path),)))

    def convert_foreign(self, source: ForeignSource, folder: Path, request: PolicyRequest) -> dict[str, PolicyEntry]:
        from mosaic.workers.sb3.checkpoint.zip_policy import convert_zip

        return convert_zip(source, folder, request)

    def exportable(self, checkpoint: Checkpoint, policy: str, request: PolicyRequest) -> ExportablePolicy:
        from mosaic.workers.sb3.checkpoint.exportable import load_exportable

        return load_exportable(_weights_file(checkpoint, policy), request)


def _weights_file(checkpoint: Checkpoint, policy: str) -> Path:
    from mosaic.store.checkpoint_record import weights_file

    return checkpoint.path / weights_file(checkpoint, policy)


worker = Sb3Worker()
