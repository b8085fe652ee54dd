"""Learners as a run assembles them, with nets so small that tests take no time."""

from contextlib import contextmanager

from mosaic.config.run import RunConfig
from mosaic.learners.ppo.build import assemble
from mosaic.learners.ppo.options import PpoOptions

TICTACTOE = "classic/tictactoe_v3"
SPREAD = "mpe/simple_spread_v3"
SMALL = {"hidden": (8,), "n_steps": 16, "batch_size": 64, "n_epochs": 2, "learning_rate": 0.01}


def run_config(env_id, envs=8, seed=0, total=100_000, env_options=None, **settings):
    environment = {"env_id": env_id, "num_envs": envs, "options": env_options or {}}
    training = {"worker": "native", "total_timesteps": total}
    return RunConfig.model_validate({"environment": environment, "training": training, "seed": seed, **settings})


@contextmanager
def assembled(env_id, options=None, **settings):
    made = assemble(run_config(env_id, **settings), PpoOptions.model_validate({**SMALL, **(options or {})}))
    try:
        yield made
    finally:
        made.learner.close()


@contextmanager
def learner(env_id, options=None, **settings):
    with assembled(env_id, options, **settings) as made:
        yield made.learner


@contextmanager
def self_play(options=None, env_id=TICTACTOE, **settings):
    with learner(env_id, options, policy_configuration="self_play", **settings) as made:
        yield made


def trained_weights(env_id, options=None, iterations=3, **settings):
    with learner(env_id, options, **settings) as made:
        for _ in range(iterations):
            made.iterate()
        return [made.weights(policy) for policy in range(len(made.plan.names))]
