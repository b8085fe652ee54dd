"""Choice of the env runner: RLlib's own, or Mosaic's for compiled envs."""

from __future__ import annotations

from typing import Any

from mosaic.envs.vector.encoding import action_code
from mosaic.workers.rllib.config.setup import RllibSetup


def runner_class(setup: RllibSetup) -> type[Any] | None:
    """Return the env runner class; None: RLlib's own."""
    if not has_twin(setup):
        return None
    from mosaic.workers.rllib.env.twin_runner import TwinEnvRunner

    return TwinEnvRunner


def has_twin(setup: RllibSetup) -> bool:
    """Return whether all agents learn, act and end together in a compiled env, with networks without memory."""
    options, roles, spec = setup.options, setup.roles, setup.spec
    other = setup.single or setup.masked or roles.plan.self_play or roles.played or spec.facts.turn_based
    if other or options.use_lstm or options.observation_filter != "NoFilter":
        return False
    from mosaic.envs.compiled.registry import find_kernel

    kernel = find_kernel(setup.config.environment)
    if kernel is None or kernel.turn_based or kernel.masked or kernel.agents != roles.learners:
        return False
    heads = [action_code(spec.action_spaces[agent]).head for agent in roles.learners]
    return all(head.kind == "categorical" and head.parts == 1 for head in heads)
