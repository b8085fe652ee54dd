"""training.policies of the native worker: every declared option changes what its policy learns, and only its own."""

from functools import partial

import numpy as np
import pytest

from mosaic.config.loading import parse_run_config
from mosaic.learners.ppo.build import assemble
from mosaic.workers.native.worker import worker
from mosaic.workers.policy_settings import read_policy_options

SPREAD = "mpe/simple_spread_v3"
PARAMS = {"hidden": [8], "n_steps": 16, "batch_size": 64, "n_epochs": 2, "learning_rate": 0.01}
OTHERS = {
    "learning_rate": 0.03,
    "learning_rate_schedule": "linear",
    "batch_size": 16,
    "n_epochs": 1,
    "gamma": 0.5,
    "gae_lambda": 0.5,
    "clip_range": 0.01,
    "clip_range_schedule": "linear",
    "clip_range_vf": 0.01,
    "ent_coef": 0.5,
    "ent_coef_final": 0.5,
    "vf_coef": 0.1,
    "max_grad_norm": 0.01,
    "target_kl": 1e-9,
    "normalize_advantage": False,
    "extra_loss": f"python:{__name__}:extra",
}
LATER = ("learning_rate_schedule", "clip_range_schedule", "clip_range_vf", "ent_coef_final")  # in the 2nd iteration
TORCH = ("learning_rate", "gamma", "clip_range", "extra_loss")  # the rest reaches both engines in the same way
BESIDE = {"clip_range_schedule": {"clip_range": 0.01}, "ent_coef_final": {"ent_coef": 0.9}}
NETWORKS = {
    "hidden": [5],
    "critic_hidden": [5],
    "activation": "relu",
    "share_layers": True,
    "log_std_init": -1.0,
    "memory": "lstm",
    "memory_size": 5,
    "network": f"python:{__name__}:Own",
}


def extra(network, rows, answer):
    return 0.1 * sum((weight**2).sum() for weight in network.parameters())


def trained(policies=None, iterations=2, algorithm="ppo", options=None, **params):
    """The learner of simple_spread with a policy per agent, and their weights before and after a few iterations."""
    document = {
        "environment": {"env_id": SPREAD, "num_envs": 4, "options": options or {}},
        "policy_configuration": "independent",
        "training": {"worker": "native", "algorithm": algorithm, "total_timesteps": 200, "policies": policies or {}},
    }
    config = parse_run_config(document)
    run_options = worker.options(algorithm).model_validate(PARAMS | params)
    made = assemble(config, run_options, partial(read_policy_options, worker, config))
    try:
        names = made.learner.plan.names
        before = {name: made.learner.weights(k) for k, name in enumerate(names)}
        for _ in range(iterations):
            made.learner.iterate()
        return made, before, {name: made.learner.weights(k) for k, name in enumerate(names)}
    finally:
        made.learner.close()


def same(first, second):
    return first.shape == second.shape and np.array_equal(first, second)


def test_the_declaration_is_what_is_tried_here():
    declared = worker.info.policy_options["ppo"]
    assert (set(declared.options), set(declared.network)) == (set(OTHERS), set(NETWORKS))
    assert worker.info.policy_options["a2c"].options == declared.options


@pytest.mark.parametrize("engine", ["fused", "torch"])
def test_every_option_of_learning_changes_its_own_policy_alone(engine):
    usual, _, after = trained(iterations=1, engine=engine)
    loop = "CompiledRollouts" if engine == "fused" else "PythonRollouts"
    assert {type(each).__name__ for each in usual.learner.workers} == {loop}
    for name, value in OTHERS.items():
        if name == "extra_loss" if engine == "fused" else name not in TORCH:
            continue
        beside, later = BESIDE.get(name, {}), 2 if name in LATER else 1
        base = after if later == 1 else trained({"agent_2": beside}, later, engine=engine)[2]
        _, _, changed = trained({"agent_2": {**beside, name: value}}, later, engine=engine)
        assert not same(changed["agent_2"], base["agent_2"]), name
        if later == 1:  # later, the other policies see what this one has learned
            assert same(changed["agent_1"], base["agent_1"]), name


def test_networks_of_different_shapes_train_together():
    for name in ("hidden", "critic_hidden", "activation", "share_layers", "memory", "memory_size"):
        own = {name: NETWORKS[name]} | ({"memory": "gru"} if name == "memory_size" else {})
        made, before, after = trained({"agent_2": {"network": own}}, iterations=1)
        agent, adversary = (made.architectures[made.learner.plan.names.index(each)] for each in ("agent_2", "agent_1"))
        field = {"share_layers": "shared"}.get(name, name)
        expected = tuple(own[name]) if isinstance(own[name], list) else own[name]
        assert getattr(agent, field) == expected
        assert getattr(adversary, field) != expected
        assert all(not same(before[each], after[each]) for each in ("agent_2", "agent_1")), name


def test_initial_deviations_may_differ():
    _, before, _ = trained(
        {"agent_2": {"network": {"log_std_init": -1.0}}}, 0, options={"continuous_actions": True}, engine="fused"
    )
    assert (before["agent_2"] == -1.0).sum() == 5
    assert not (before["agent_1"] == -1.0).any()


def test_a2c_and_ppo_train_in_one_run():
    _, before, after = trained({"agent_2": {"algorithm": "a2c", "learning_rate": 0.01}}, iterations=1)
    _, _, one_epoch = trained(
        {
            "agent_2": {
                "n_epochs": 1,
                "batch_size": 10_000,
                "gae_lambda": 1.0,
                "clip_range": 1e6,
                "normalize_advantage": False,
            }
        },
        iterations=1,
    )
    assert same(after["agent_2"], one_epoch["agent_2"]), "A2C is PPO with these options"
    assert not same(before["agent_1"], after["agent_1"])
