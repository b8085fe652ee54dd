"""The contract of mapping and resources, proven for every worker that comes with Mosaic and for a plug-in."""

import sys
from random import Random

import pytest

from mosaic.learners.tabular.statistics import AgentReturns
from mosaic.testing.worker import WorkerContractError
from mosaic.testing.worker.check import check_resources
from mosaic.testing.worker.contract_setup import ContractSetup
from mosaic.testing.worker.mapping import check_mapping
from mosaic.testing.worker.policy_settings import check_policy_settings
from mosaic.testing.worker.returns import check_returns
from mosaic.workers.api import PolicyOptions
from mosaic.workers.registry import load_worker
from mosaic.workers.sb3.env.tally import TallyVecEnv
from mosaic.workers.tabular.worker import TabularWorker
from mosaic.workers.toy import ToyWorker
from tests.workers import liars
from tests.workers.hosting import run_config

SAVES = {"every_steps": 500, "keep_last": 20}
NETWORK = {"hidden": [8], "n_steps": 64, "n_epochs": 2, "batch_size": 64, "learning_rate": 0.01}
RLLIB = {
    "num_env_runners": 0,
    "fcnet_hiddens": [8],
    "train_batch_size_per_learner": 200,
    "minibatch_size": 100,
    "num_epochs": 2,
}
PROGRAM = [sys.executable, "-c", "print('@METRIC {\"env_steps\": 1}')"]


def setup(tmp_path, worker, params=None, steps=2000, patience_s=120.0, **settings):
    training, known = {"total_timesteps": steps, **settings.pop("training", {})}, load_worker(worker)
    if known.info.checkpoints:
        settings["checkpoint"] = SAVES
    if known.info.evaluates:
        settings["evaluation"] = {"episodes": 1}
    return ContractSetup(
        known, run_config(worker, params, training=training, **settings), tmp_path, patience_s, 0.5, Random(0)
    )


def proofs(made):
    with made.at_home():
        found = [*check_resources(made), *check_mapping(made, made.config), *check_policy_settings(made, made.config)]
        found += check_returns(made, made.config)
    return {proof.capability: proof.seen for proof in found}


HONOURED = {"resources", "agent mapping", "fixed opponent", "env metrics", "policies_to_train"}
HONOURED |= {"opponent in another process", "returns of several agents"}


def test_tables(tmp_path, runs_here):
    seen = proofs(setup(tmp_path, "tabular", {"report_every_steps": 400}))
    assert seen.keys() == HONOURED
    assert "refused: num_envs, num_cpus, num_gpus" in seen["resources"]


@pytest.mark.slow
def test_networks(tmp_path, runs_here):
    settings = {"environment": {"env_id": "gym/CartPole-v1", "num_envs": 4}, "training": {"preset": False}}
    seen = proofs(setup(tmp_path, "native", NETWORK, steps=4000, **settings))
    assert seen.keys() == {*HONOURED, "policy settings"}
    assert seen["policy settings"].startswith("hidden=[3]: ")
    assert "refused: num_cpus, ray_address" in seen["resources"]


def test_sb3(tmp_path, runs_here):
    params = {"n_steps": 64, "batch_size": 64, "n_epochs": 1, "net_arch": [8]}
    environment = {"env_id": "gym/CartPole-v1", "num_envs": 2}
    seen = proofs(setup(tmp_path, "sb3", params, steps=1000, environment=environment, training={"preset": False}))
    assert seen.keys() == HONOURED
    assert "refused: num_cpus, runtime, ray_address" in seen["resources"]


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_rllib(tmp_path):
    seen = proofs(setup(tmp_path, "rllib", RLLIB, steps=1500, patience_s=300, training={"algorithm": "ppo"}))
    assert seen.keys() == {*HONOURED, "policy settings"}
    assert seen["policy settings"].startswith("fcnet_hiddens=[3]: ")


@pytest.mark.parametrize(("worker", "params"), [("toy", None), ("script", {"command": PROGRAM})])
def test_workers_that_map_nobody_refuse_every_rule(tmp_path, runs_here, worker, params):
    seen = proofs(setup(tmp_path, worker, params))
    assert seen.keys() == {"resources", "agent mapping"}


def test_a_plug_in_that_declares_nothing_refuses_every_rule(tmp_path, runs_here, installed_liars):
    assert proofs(setup(tmp_path, "modest")).keys() == {"resources", "agent mapping"}


def test_a_plug_in_that_ignores_what_it_declares_is_caught(tmp_path, runs_here, installed_liars):
    with pytest.raises(WorkerContractError, match=r"worker blind, fixed opponent: with .* an agent was paid 0\."):
        proofs(setup(tmp_path, "blind", {"iteration_s": 0.0}, steps=200))
    with pytest.raises(WorkerContractError, match=r"worker boastful, resources: a run with .* was accepted"):
        proofs(setup(tmp_path, "boastful"))
    assert liars.WORKERS["blind"].info.agent_mapping


def test_a_worker_that_does_not_report_numbers_of_infos_is_caught(tmp_path, monkeypatch, runs_here):
    monkeypatch.setattr("mosaic.workers.tabular.training.policy_metrics", lambda *_: {})
    with pytest.raises(WorkerContractError, match=r"env metrics: .*say place=1, and its policy reports \[\]"):
        proofs(setup(tmp_path, "tabular", {"report_every_steps": 400}))


def test_a_worker_that_reports_the_return_of_one_agent_is_caught(tmp_path, monkeypatch, runs_here):
    def first_alone(self, returns, steps):
        add(self, [*returns][:1], steps)

    add = AgentReturns.add_episode
    monkeypatch.setattr(AgentReturns, "add_episode", first_alone)
    made = setup(tmp_path, "tabular", {"report_every_steps": 400})
    with pytest.raises(WorkerContractError, match=r"at once, a gets 0, b gets 10, and the last iteration reports 0\."):
        check_returns(made, made.config)


def test_a_worker_in_which_agents_that_end_early_count_more_is_caught(tmp_path, monkeypatch, runs_here):
    monkeypatch.setattr(TallyVecEnv, "_agent", lambda self, slot: "a")
    params = {"n_steps": 64, "batch_size": 64, "n_epochs": 1, "net_arch": [8]}
    made = setup(tmp_path, "sb3", params, training={"preset": False})
    with pytest.raises(WorkerContractError, match=r"by turns, a gets 0, b gets 8, and the last iteration reports 1\."):
        check_returns(made, made.config)


def test_a_worker_that_counts_turns_of_learners_as_env_steps_is_caught(tmp_path, monkeypatch, runs_here):
    monkeypatch.setattr("mosaic.workers.sb3.env.slots.step_counts", lambda vector: None)
    params = {"n_steps": 64, "batch_size": 64, "n_epochs": 1, "net_arch": [8]}
    made = setup(tmp_path, "sb3", params, training={"preset": False})
    with pytest.raises(
        WorkerContractError, match=r"episodes of 9 steps, in which agents act by turns, are \d+ env steps"
    ):
        check_returns(made, made.config)


def test_every_worker_that_maps_agents_reports_numbers_of_infos():
    infos = [load_worker(name).info for name in ("native", "rllib", "sb3", "tabular")]
    assert all(info.env_metrics for info in infos if info.agent_mapping)


def test_the_check_sees_a_table_that_ignores_its_opponent(tmp_path, monkeypatch, runs_here):
    monkeypatch.setattr(TabularWorker, "check", lambda *_: None)
    monkeypatch.setattr(TabularWorker, "complete", lambda self, config, options, spec: (config, options))
    made = setup(tmp_path, "tabular", {"report_every_steps": 400})
    with pytest.raises(WorkerContractError, match=r"worker tabular, unknown agent: a run with .* was accepted"):
        check_mapping(made, made.config)


def test_a_worker_that_declares_settings_of_policies_and_ignores_them_is_caught(tmp_path, monkeypatch):
    promised = {ToyWorker.info.algorithms[0]: PolicyOptions(options=("iteration_s",))}
    changes = {"policy_options": promised, "agent_mapping": True, "paradigms": ("parameter_sharing",)}
    monkeypatch.setattr(ToyWorker, "info", ToyWorker.info.model_copy(update=changes))
    made = setup(tmp_path, "toy")
    with pytest.raises(WorkerContractError, match=r"a run with .*no_such_policy.* was accepted"), made.at_home():
        check_policy_settings(made, made.config)
