"""Run of a worker: envs and model are made, and trained on the shared loop."""

from __future__ import annotations

from contextlib import closing

import torch

from mosaic.core.seeding import child_seed
from mosaic.envs.shared_env import env_spec, sharing_envs
from mosaic.envs.vector.encoding import row_code
from mosaic.learners.ppo.hardware import usual_torch_threads
from mosaic.workers.camera import Camera
from mosaic.workers.context import WorkerContext
from mosaic.workers.loop import train
from mosaic.workers.resolution import with_limit
from mosaic.workers.sb3.assembly import Assembly, assemble
from mosaic.workers.sb3.config.checks import read_roles, with_device, with_envs
from mosaic.workers.sb3.config.options import Sb3Options
from mosaic.workers.sb3.training import Sb3Training


def train_model(context: WorkerContext) -> None:
    """Train until the run is over."""
    options = context.options
    assert isinstance(options, Sb3Options)
    context.config = with_limit(context.config)
    options = with_device(context.config, options)  # SB3 itself would use the CPU where a GPU is gone
    context.stage("making envs and networks")
    assembly = _assemble(context, options)
    message = f"{context.config.training.algorithm}: {assembly.said}"
    print(message, flush=True)
    context.report(kind="equipped", message=message)
    with Camera(context, assembly.tally) as camera:
        training = Sb3Training(context, assembly, camera, lambda before: _assemble(context, options, before))
        with closing(training):
            context.measure_with(training.measure)
            train(context, training, report_every_steps=options.report_every_steps)


def _assemble(context: WorkerContext, options: Sb3Options, before: Assembly | None = None) -> Assembly:
    """Make the parts of the run in its env, or in that of its current stage."""
    with sharing_envs():
        config = context.config
        spec = env_spec(config.environment)
        context.describe_env(spec)
        width = max(row_code(space).width for space in spec.observation_spaces.values())
        torch.set_num_threads(usual_torch_threads(width))
        config = with_envs(config, spec)
        if context.curriculum is not None and context.curriculum.stage and before is None:
            config = config.model_copy(update={"seed": child_seed(config.seed, "stage", context.curriculum.stage)})
        return assemble(config, options, spec, read_roles(config, spec), before)
