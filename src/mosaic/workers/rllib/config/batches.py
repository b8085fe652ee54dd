"""Check that a batch can be composed of the fragments that env runners deliver."""

from __future__ import annotations

from mosaic.core.errors import InputError
from mosaic.workers.rllib.config.options import RllibOptions

IN_STEP = ("ppo", "a2c")  # their learner waits for its runners, and learns from everything they deliver
_TOLERANCE = 0.1  # of a batch: tolerated by RLlib


def envs_per_runner(envs: int | None, options: RllibOptions, runners: int) -> int:
    """Return the envs of each runner; `envs` is the total over all runners, if configured."""
    return options.num_envs_per_env_runner if envs is None else -(-envs // max(1, runners))


def check_batch(algorithm: str, options: RllibOptions, *, runners: int, envs: int, learners: int) -> None:
    """Apply RLlib's own rule before Ray is started; `envs` is per runner."""
    fragment = options.rollout_fragment_length
    if algorithm not in IN_STEP or fragment == "auto":
        return
    batch = options.train_batch_size_per_learner * max(1, learners)
    sources = max(1, runners) * envs
    made = -(-batch // (sources * fragment)) * sources * fragment
    if made - batch <= _TOLERANCE * batch:
        return
    raise InputError(
        f"A batch of {batch:,} steps cannot be made of pieces of {fragment:,} steps from {_counted(sources, 'env')}: "
        f"{made:,} would come. Leave rollout_fragment_length out, or set it to {max(1, batch // sources):,}."
    )


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number:,} {what}s"
