"""Every setting of a run's configuration is honoured, refused or declared not applicable by every worker."""

import sys
from random import Random

import pytest

from mosaic.config.run import RunConfig
from mosaic.config.validation import list_settings
from mosaic.core.errors import InputError
from mosaic.core.plugins import plugins
from mosaic.runs.trainer import Trainer
from mosaic.testing.worker import WorkerContractError, settings
from mosaic.testing.worker.contract_setup import ContractSetup
from mosaic.testing.worker.settings import BY_MOSAIC, ELSEWHERE, TRIED, check_settings
from mosaic.workers.registry import load_worker
from mosaic.workers.resolution import resolve
from mosaic.workers.toy import ToyWorker
from tests.workers import liars
from tests.workers.hosting import run_config

NETWORK = {"hidden": [8], "n_steps": 64, "n_epochs": 2, "batch_size": 64, "learning_rate": 0.01}
RLLIB = {
    "num_env_runners": 0,
    "fcnet_hiddens": [8],
    "train_batch_size_per_learner": 200,
    "minibatch_size": 100,
    "num_epochs": 2,
}
PROGRAM = 'for n in range(1, 9): print(\'@METRIC {"env_steps": %d, "episodes_total": %d}\' % (n, n))'
COMMAND = {"command": [sys.executable, "-c", PROGRAM]}
GAME = {"env_id": "classic/tictactoe_v3"}
MASKED = {"sb3": "maskable_ppo"}  # default algorithm where actions may be illegal


def proofs(tmp_path, worker, params=None, steps=2000, patience_s=300.0, **said):
    training = {"total_timesteps": steps, **said.pop("training", {})}
    config = run_config(worker, params, training=training, **said)
    setup = ContractSetup(load_worker(worker), config, tmp_path, patience_s, 0.5, Random(0))
    with setup.at_home():
        found = check_settings(setup, config)
    return {proof.capability.removeprefix("setting "): proof.seen for proof in found}


HONOURED = {"settings", *TRIED} - {"training.init"}


def test_every_setting_is_classified_once():
    parts = [*BY_MOSAIC, *ELSEWHERE, *TRIED]
    assert sorted(parts) == sorted(name for name, _ in list_settings(RunConfig))


def test_a_setting_that_is_not_classified_is_found(tmp_path, monkeypatch):
    monkeypatch.delitem(settings.BY_MOSAIC, "tags")
    with pytest.raises(WorkerContractError, match="worker toy, setting tags: nothing says who honours it"):
        proofs(tmp_path, "toy")


@pytest.mark.parametrize("worker", sorted(plugins("mosaic.workers")))
def test_defaults_are_never_refused(worker):
    params = COMMAND if worker == "script" else None
    chosen = resolve(run_config(worker, params, environment=GAME)).config.training
    assert (chosen.worker, chosen.algorithm) == (worker, MASKED.get(worker, chosen.algorithm))


NO_EVALUATION = "it does not evaluate policies. Workers that honour it: native, rllib, sb3, tabular. Leave it out"
NO_INIT = "it always starts with new weights. Workers that honour it: native, rllib, sb3. Leave it out"
OWN_SAVES = "the program decides when it saves. Workers that honour it: native, rllib, sb3, tabular, toy. Leave it out"


@pytest.mark.parametrize(
    ("worker", "section", "asked", "text"),
    [
        ("toy", "evaluation", {"every_steps": 500}, f"evaluation.every_steps=500: {NO_EVALUATION}"),
        ("toy", "evaluation", {"episodes": 3}, f"evaluation.episodes=3: {NO_EVALUATION}"),
        ("toy", "training", {"init": "run:latest"}, f"training.init=run:latest: {NO_INIT}"),
        ("script", "evaluation", {"every_steps": 500}, f"evaluation.every_steps=500: {NO_EVALUATION}"),
        ("script", "checkpoint", {"every_steps": 500}, f"checkpoint.every_steps=500: {OWN_SAVES}"),
        ("script", "checkpoint", {"every_iterations": 2}, f"checkpoint.every_iterations=2: {OWN_SAVES}"),
        ("script", "checkpoint", {"every_minutes": 0.5}, f"checkpoint.every_minutes=0.5: {OWN_SAVES}"),
        ("script", "checkpoint", {"at_end": False}, f"checkpoint.at_end=false: {OWN_SAVES}"),
        ("script", "telemetry", {"report_every_s": 9.0}, "telemetry.report_every_s=9.0: the program decides when"),
        ("script", "training", {"init": "run:latest"}, f"training.init=run:latest: {NO_INIT}"),
    ],
)
def test_settings_that_a_worker_does_not_honour_are_refused(worker, section, asked, text):
    with pytest.raises(InputError) as caught:
        resolve(run_config(worker, COMMAND if worker == "script" else None, **{section: asked}))
    assert f"The worker {worker} cannot honour {text}" in str(caught.value)


def test_toy(tmp_path, runs_here):
    seen = proofs(tmp_path, "toy", {"steps_per_iteration": 50})
    assert seen.keys() == {"settings", *(name for name in TRIED if name.startswith(("training", "checkpoint")))} - {
        "training.init"
    }
    assert seen["settings"].startswith("refused: evaluation.every_steps, evaluation.episodes, evaluation.opponents")


def test_a_program(tmp_path, runs_here):
    assert proofs(tmp_path, "script", COMMAND).keys() == {"settings", "training.episodes", "training.stop_reward"}


def test_tables(tmp_path, runs_here):
    assert proofs(tmp_path, "tabular", {"report_every_steps": 100}).keys() == HONOURED - {"environment.curriculum"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_networks(tmp_path, runs_here):
    environment = {"env_id": "gym/CartPole-v1", "num_envs": 4}
    said = {"environment": environment, "training": {"preset": False}}
    seen = proofs(tmp_path, "native", NETWORK, steps=4000, **said)
    assert seen.keys() == {*HONOURED, "training.init"}
    assert seen["settings"] == "refused: none"


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_sb3(tmp_path, runs_here):
    params = {"n_steps": 64, "batch_size": 64, "n_epochs": 1, "net_arch": [8]}
    environment = {"env_id": "gym/CartPole-v1", "num_envs": 2}
    seen = proofs(tmp_path, "sb3", params, steps=2000, environment=environment, training={"preset": False})
    assert seen.keys() == {*HONOURED, "training.init"}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_rllib(tmp_path):
    seen = proofs(tmp_path, "rllib", RLLIB, steps=2000, training={"algorithm": "ppo"})
    assert seen.keys() == {*HONOURED, "training.init"}


def test_a_plug_in_that_ignores_what_it_declares_is_caught(tmp_path, runs_here, installed_liars):
    with pytest.raises(WorkerContractError, match=r"setting evaluation\.every_steps: evaluations every .* and 0 made"):
        proofs(tmp_path, "unexamined", {"iteration_s": 0.0}, steps=400)
    with pytest.raises(WorkerContractError, match=r"setting environment\.options: .* no event tells their length"):
        proofs(tmp_path, "homeless", {"iteration_s": 0.0}, steps=400)
    with pytest.raises(WorkerContractError, match=r"setting environment\.curriculum: stage 2 .* and there were \[\]"):
        proofs(tmp_path, "unschooled", {"iteration_s": 0.0}, steps=400)
    assert liars.WORKERS["unexamined"].info.evaluates


def test_a_worker_that_saves_against_its_orders_is_caught(tmp_path, runs_here, installed_liars):
    with pytest.raises(WorkerContractError, match=r"setting checkpoint\.at_end: 1 checkpoints of a run"):
        proofs(tmp_path, "eager", {"iteration_s": 0.0}, steps=400)


def test_misspelt_declarations_are_found(tmp_path, monkeypatch):
    info = ToyWorker.info.model_copy(update={"not_applicable": {"enviroment": "no such section"}})
    monkeypatch.setattr(ToyWorker, "info", info)
    with pytest.raises(WorkerContractError, match="setting enviroment: there is no such setting"):
        proofs(tmp_path, "toy")


@pytest.mark.parametrize("folder", [".", "elsewhere"])
def test_settings_of_a_resumed_run_are_checked_too(tmp_path, monkeypatch, runs_here, folder):
    run = Trainer(tmp_path / "home").submit(run_config("toy", training={"total_timesteps": 100}))
    assert run.wait(60) == "finished"
    (tmp_path / folder).mkdir(exist_ok=True)
    monkeypatch.chdir(tmp_path / folder)
    with pytest.raises(InputError, match=r"The worker toy cannot honour evaluation\.every_steps=5"):
        run.resume(settings=["training.total_timesteps=500", "evaluation.every_steps=5"])
    assert run.config.evaluation.every_steps is None
