"""Options of single policies in RLlib: read back from built learners and modules, for every declared option."""

import pytest

from mosaic.workers.rllib.config.policy_options import POLICY_OPTIONS
from tests.workers.rllib.rllib_setups import make_setup

SPREAD = "mpe/simple_spread_v3"
OTHERS = {
    "lr": 0.0123,
    "actor_lr": 0.0123,
    "critic_lr": 0.0456,
    "alpha_lr": 0.0789,
    "grad_clip": 0.123,
    "grad_clip_by": "norm",
    "vf_loss_coeff": 0.123,
    "entropy_coeff": 0.0123,
    "kl_coeff": 0.345,
    "kl_target": 0.0123,
    "use_critic": False,
    "clip_param": 0.123,
    "vf_clip_param": 1.23,
    "gamma": 0.5,
    "vtrace_clip_rho_threshold": 0.5,
    "vtrace_clip_pg_rho_threshold": 0.5,
    "target_network_update_freq": 7,
    "tau": 0.123,
    "epsilon": 0.123,
    "v_min": -1.0,
    "v_max": 1.0,
    "td_error_loss_fn": "mse",
    "initial_alpha": 0.123,
    "target_entropy": -1.23,
}
SWITCHED = ("use_kl_loss", "double_q")
NETWORK = {"fcnet_hiddens": [7], "fcnet_activation": "relu", "head_fcnet_hiddens": [5], "head_fcnet_activation": "tanh"}


@pytest.fixture
def learner_of(tmp_path):
    """Build learners of runs in which one agent has options of its own; their threads end with the test."""
    from mosaic.workers.rllib.config.build import configure
    from mosaic.workers.rllib.env.env import make_rllib_env

    learners = []

    def build(algorithm, **own):
        setup = make_setup(
            tmp_path,
            SPREAD,
            algorithm,
            policy_configuration="independent",
            policies={"agent_1": own},
            env_options={"continuous_actions": "free_log_std" in own.get("network", {})},
        )
        env = make_rllib_env(setup.env_config)
        try:
            learners.append(configure(setup).build_learner(env=env))
        finally:
            env.close()
        return setup.options, learners[-1]

    yield build
    for learner in learners:
        learner.shutdown()


def rates(learner, module):
    return sorted(
        group["lr"] for _, optimizer in learner.get_optimizers_for_module(module) for group in optimizer.param_groups
    )


def tensors(learner, module):
    return {name: tuple(weight.shape) for name, weight in learner.module[module].named_parameters()}


@pytest.mark.parametrize("algorithm", sorted(POLICY_OPTIONS))
def test_every_option_is_in_the_learners_configuration_of_its_policy_alone(tmp_path, learner_of, algorithm):
    names = POLICY_OPTIONS[algorithm].options
    run = make_setup(tmp_path, SPREAD, algorithm).options
    own = {name: not getattr(run, name) if name in SWITCHED else OTHERS[name] for name in names}
    options, learner = learner_of(algorithm, **own, network={"fcnet_hiddens": [7]})
    mine, others = learner.config.get_config_for_module("agent_1"), learner.config.get_config_for_module("agent_0")
    for name in names:
        assert getattr(mine, name) == own[name] != getattr(options, name), name
        assert getattr(others, name) == options.model_dump(mode="json")[name], name
    wanted = sorted(value for name, value in own.items() if name.endswith("lr"))
    assert sorted(set(rates(learner, "agent_1"))) == wanted, "the optimizers step by it"
    assert not set(rates(learner, "agent_0")) & set(wanted)
    if "entropy_coeff" in names:
        bonus = learner.entropy_coeff_schedulers_per_module
        assert bonus["agent_1"].get_current_value() == own["entropy_coeff"] != bonus["agent_0"].get_current_value()
    if "kl_coeff" in names:
        penalty = learner.curr_kl_coeffs_per_module
        assert float(penalty["agent_1"]) == pytest.approx(own["kl_coeff"]) != pytest.approx(float(penalty["agent_0"]))
    if "epsilon" in names:
        for module, expected in (("agent_1", 0.123), ("agent_0", options.epsilon[0][1])):
            assert learner.module[module].epsilon_schedule.get_current_value() == expected
    if "initial_alpha" in names:
        assert learner.curr_log_alpha["agent_1"].exp().item() == pytest.approx(0.123)
        assert float(learner.target_entropy["agent_1"]) == pytest.approx(-1.23)
    assert any(7 in shape for shape in tensors(learner, "agent_1").values())
    assert not any(7 in shape for shape in tensors(learner, "agent_0").values())


def test_every_option_of_a_network_is_in_its_module_alone(learner_of):
    more = {"use_lstm": True, "lstm_cell_size": 9, "max_seq_len": 6, "vf_share_layers": True, "free_log_std": True}
    more |= {"conv_filters": [[4, 3, 1]], "conv_activation": "tanh"}  # read only where agents see pictures
    assert set(NETWORK | more) == set(POLICY_OPTIONS["ppo"].network)
    _, learner = learner_of("ppo", network=NETWORK | more)
    mine, others = learner.module["agent_1"], learner.module["agent_0"]
    for name, value in (NETWORK | more).items():
        assert mine.model_config[name] == value, name
        assert others.model_config[name] != value, name
    assert mine.is_stateful()
    assert not others.is_stateful()
    shapes = tensors(learner, "agent_1").values()
    assert (5, 9) in shapes, "from the LSTM to the head's layer"
    assert "ReLU" in str(mine.encoder)
    assert "ReLU" not in str(others.encoder)


@pytest.mark.parametrize(
    ("algorithm", "name", "value"), [("dqn", "dueling", False), ("dqn", "num_atoms", 5), ("sac", "twin_q", False)]
)
def test_options_that_shape_other_networks(learner_of, algorithm, name, value):
    _, learner = learner_of(algorithm, network={name: value})
    assert len(tensors(learner, "agent_1")) != len(tensors(learner, "agent_0")) or name == "num_atoms"
    assert tensors(learner, "agent_1") != tensors(learner, "agent_0")
    assert getattr(learner.config.get_config_for_module("agent_1"), name) == value
