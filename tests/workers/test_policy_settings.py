"""training.policies: which options may differ from policy to policy, and what is refused, for every worker."""

import pytest

from mosaic.config.loading import parse_run_config
from mosaic.config.programs import named_programs
from mosaic.core.errors import InputError
from mosaic.workers.policy_settings import read_policy_options
from mosaic.workers.registry import load_worker
from mosaic.workers.resolution import resolve
from tests.learners.test_agent_roles import TAG, spec_of


def config(worker="native", policies=None, overrides=(), params=None, **training):
    document = {
        "environment": {"env_id": TAG},
        "training": {"worker": worker, "total_timesteps": 100, "policies": policies or {}, "params": params or {}}
        | training,
    }
    return parse_run_config(document, overrides)


def refusal(**settings):
    top = {name: settings.pop(name) for name in ("policies_to_train", "policy_configuration") if name in settings}
    with pytest.raises(InputError) as caught:
        resolve(config(**settings).model_copy(update=top))
    assert caught.value.exit_code == 2
    return str(caught.value)


def own(asked, algorithm="ppo"):
    from mosaic.learners.agent_roles import read_agent_roles

    worker = load_worker(asked.training.worker)
    asked = asked.model_copy(update={"training": asked.training.model_copy(update={"algorithm": algorithm})})
    options = worker.options(algorithm).model_validate(asked.training.params)
    return read_policy_options(worker, asked, options, read_agent_roles(asked, spec_of(TAG)).plan)


def test_a_policy_overrides_the_runs_options_and_keeps_the_others():
    asked = config(
        params={"hidden": [16], "gamma": 0.9},
        overrides=["training.policies.agent.learning_rate=1e-4", "training.policies.agent.network.hidden=[8,8]"],
    )
    assert asked.training.policies == {"agent": {"learning_rate": 1e-4, "network": {"hidden": [8, 8]}}}
    (name, found), *more = own(asked).items()
    assert (name, more) == ("agent", [])
    assert (found.learning_rate, found.hidden, found.gamma) == (1e-4, (8, 8), 0.9)


def test_another_algorithm_has_its_own_defaults_and_the_runs_rollouts():
    asked = config(policies={"agent": {"algorithm": "a2c"}}, params={"n_steps": 32, "learning_rate": 0.5})
    found = own(asked)["agent"]
    assert (found.n_epochs, found.learning_rate, found.n_steps) == (1, 7e-4, 32)


def test_what_is_resolved_once_resolves_to_the_same():
    asked = config(policies={"agent": {"gamma": 0.5, "network": {"memory": "lstm"}}, "adversary": None})
    once = resolve(asked).config
    assert once.training.params["engine"] == "torch", "one policy with memory needs the torch engine for all"
    assert once.training.policies == {"agent": {"gamma": 0.5, "network": {"memory": "lstm"}}, "adversary": {}}
    assert resolve(once).config == once


NATIVE = "Options that may differ from policy to policy: learning_rate, learning_rate_schedule, batch_size, n_epochs"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (
            {"policies": {"agents": {"gamma": 0.9}}},
            "There is no policy that trains named 'agents'. Did you mean 'agent'?",
        ),
        (
            {"policies": {"agent": {"gamma": 0.9}}, "policies_to_train": ("adversary",)},
            "training.policies.agent: 'agent' does not train in this run, so it has no settings. Policies that train: ",
        ),
        (
            {"policies": {"agent": {"n_steps": 4}}},
            f"has one n_steps for the whole run. Set it for all: --set training.params.n_steps=VALUE. {NATIVE}",
        ),
        (
            {"policies": {"agent": {"gama": 0.9}}},
            "There is no setting 'training.policies.agent.gama'. Did you mean 'training.policies.agent.gamma'?",
        ),
        ({"policies": {"agent": {"lr": 0.9}}}, f"There is no setting 'training.policies.agent.lr'. {NATIVE}"),
        (
            {"policies": {"agent": {"hidden": [4]}}},
            "'training.policies.agent.hidden'. Did you mean 'training.policies.agent.network.hidden'?",
        ),
        (
            {"policies": {"agent": {"network": {"gamma": 1}}}},
            "'training.policies.agent.network.gamma'. Did you mean 'training.policies.agent.gamma'?",
        ),
        ({"policies": {"agent": {"gamma": 2}}}, "training.policies.agent: gamma: it should be at most 1"),
        (
            {"policies": {"agent": {"algorithm": "dqn"}}},
            "the others learn from each rollout once, so they do not mix. Here it can be ppo or a2c.",
        ),
        ({"policies": {"agent": {"algorithm": "ppp"}}}, "There is no algorithm of the worker native named 'ppp'."),
        ({"policies": {"agent": {"gamma": 0.9}}, "params": {"normalize_rewards": True}}, "normalize_rewards scales by"),
        (
            {"policies": {"agent_0": {"n_epochs": 1}}, "policy_configuration": "shared_value_function"},
            "training.policies: n_epochs cannot differ between policies that share a critic",
        ),
        (
            {"policies": {"agent": {"algorithm": "sac"}}, "worker": "rllib"},
            "training.policies.agent.algorithm=sac: the run trains with ppo. RLlib has one loss and one training loop",
        ),
        (
            {"policies": {"agent": {"gamma": 0.9}}, "worker": "rllib"},
            "training.policies.agent.gamma: the worker rllib has one gamma for the whole run.",
        ),
        (
            {"policies": {"agent": {"num_env_runners": 2}}, "worker": "rllib"},
            "training.policies.agent.num_env_runners: the worker rllib has one num_env_runners for the whole run.",
        ),
        (
            {
                "policies": {"agent_0": {"network": {"fcnet_hiddens": [8]}}},
                "worker": "rllib",
                "policy_configuration": "shared_value_function",
            },
            "agent_0.network cannot be honoured with shared_value_function: the policies share one critic",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused(settings, said):
    assert said in refusal(**settings)


@pytest.mark.parametrize("worker", ["tabular", "script", "toy"])
def test_other_workers_refuse_it_and_name_those_that_do_not(worker):
    if worker == "toy":
        pytest.importorskip("mosaic.workers.toy")
    said = refusal(worker=worker, policies={"agent": {"gamma": 0.9}})
    assert f"The worker {worker} cannot honour training.policies=" in said
    assert "all its policies have the same settings. Workers that honour it: native, rllib" in said


@pytest.mark.parametrize("wrong", [{"agent": 3}, {"agent": {"network": 3}}, {"agent": {"algorithm": 3}}, ["agent"]])
def test_other_forms_are_refused(wrong):
    with pytest.raises(InputError, match=r"training\.policies"):
        config(policies=wrong)


def test_code_in_a_policys_settings_is_found():
    asked = config(policies={"agent": {"network": {"network": "python:own:Net"}}})
    assert "training.policies.agent.network.network: python:own:Net" in named_programs(asked)
