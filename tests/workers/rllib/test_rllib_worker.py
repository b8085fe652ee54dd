"""The worker as Mosaic sees it: what it refuses before a run exists, and how its process behaves."""

from __future__ import annotations

import signal
import subprocess
import sys

import pytest

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.runs.trainer import Trainer
from mosaic.store.checkpoints import find_checkpoint
from mosaic.testing import check_worker
from mosaic.workers.registry import load_worker
from mosaic.workers.resolution import resolve
from tests.workers.hosting import Hosted, new_folder, run_config

SMALL = {
    "num_env_runners": 0,
    "num_envs_per_env_runner": 4,
    "fcnet_hiddens": [8],
    "train_batch_size_per_learner": 200,
    "minibatch_size": 100,
    "num_epochs": 1,
    "report_every_steps": 1,
}
GAME, SPREAD = {"env_id": "classic/tictactoe_v3"}, {"env_id": "mpe/simple_spread_v3"}


def _refused(algorithm="ppo", params=None, **settings):
    training = {"algorithm": algorithm, **settings.pop("training", {})}
    with pytest.raises(InputError) as refused:
        resolve(run_config("rllib", params, training=training, **settings))
    assert refused.value.exit_code == 2
    return str(refused.value)


def test_more_runners_than_the_machine_has_cpus_are_refused_before_a_run_exists():
    said = _refused(resources={"num_env_runners": 999})
    assert said.startswith("999 env runners cannot be placed: this machine has ")
    assert "--num-env-runners" in said
    assert "--ray-address HOST:PORT" in said


def test_what_was_not_asked_for_is_no_reason_to_refuse(monkeypatch):
    monkeypatch.setattr("mosaic.workers.rllib.config.resources.available_cores", lambda: 1)
    assert resolve(run_config("rllib")).config.training.algorithm == "ppo"
    assert "2 env runners cannot be placed: this machine has 1 CPU" in _refused(resources={"num_env_runners": 2})


def test_gpus_that_are_missing_are_refused(monkeypatch):
    monkeypatch.setattr("mosaic.workers.rllib.config.resources._gpus_here", lambda: 1)
    assert "asks for 4 GPUs and this machine has 1" in _refused(resources={"num_gpus": 4})


def test_a_cluster_that_does_not_answer_is_refused():
    said = _refused(resources={"ray_address": "127.0.0.1:1"})
    assert said.startswith("No Ray cluster answers at 127.0.0.1:1")
    assert "is not the address of a Ray cluster" in _refused(resources={"ray_address": "nowhere"})


def test_other_runtimes_are_refused():
    assert _refused(resources={"runtime": "mpi"}) == "RLlib runs on Ray, not on the runtime 'mpi'. Leave --runtime out."


def test_what_an_algorithm_cannot_do_is_refused_with_what_can():
    said = _refused("dqn", environment=SPREAD, policy_configuration="shared_value_function")
    assert said.startswith("RLlib's dqn cannot train with shared_value_function")
    assert "--algo ppo" in said
    said = _refused("dqn", environment={"env_id": "gym/Pendulum-v1"})
    assert said.startswith("RLlib's dqn chooses among single actions, and the action of 'agent_0' is Box")


def test_what_only_a_begun_env_tells_is_refused_before_a_run_exists_too():
    said = _refused("sac", environment={"env_id": "classic/tictactoe_v3"}, policy_configuration="parameter_sharing")
    assert said == (
        "RLlib's sac knows no illegal actions, and classic/tictactoe_v3 has some. "
        "Use --algo ppo, appo, impala, a2c or dqn."
    )


def test_pictures_have_no_central_critic():
    pictures = {"env_id": "butterfly/cooperative_pong"}
    said = _refused(environment=pictures, policy_configuration="shared_value_function")
    assert "pictures are too wide for that. Use --policies parameter_sharing or independent." in said


def test_pictures_of_a_size_that_rllib_has_no_network_for_are_refused():
    pictures = {"env_id": "butterfly/cooperative_pong"}
    said = _refused(params={"picture_size": 50}, environment=pictures)
    assert said.startswith(
        "RLlib has networks of its own for pictures of 10, 42, 64, 84, 96 pixels, and picture_size is 50."
    )
    filters = [[16, 8, 4], [32, 4, 2]]
    assert resolve(run_config("rllib", {"picture_size": 50, "conv_filters": filters}, environment=pictures))


def test_a_policy_configuration_without_anybody_who_learns_is_refused():
    said = _refused(policies_to_train="python:operator:not_")  # of a name: false
    assert said == "policies_to_train leaves nothing to learn. Policies here: shared."


def test_a_missing_ray_says_what_to_type(monkeypatch):
    monkeypatch.setattr("mosaic.runtimes.ray.session.find_spec", lambda name: None)
    assert _refused() == "Ray is not installed. Type: pip install 'mosaic-rl[rllib]'"


def test_options_that_rllib_does_not_have_name_the_nearest():
    assert "Did you mean 'lambda_'" in _refused(params={"lambda": 0.9})


@pytest.mark.parametrize("words", [["workers"], ["schema", "rllib", "ppo"], ["--help"]])
def test_listing_and_schemas_do_not_import_ray(words):
    code = (
        "import sys\nfrom mosaic.ui.cli.main import main\n"
        f"sys.argv = ['mosaic', *{words!r}]\n"
        "try: main()\nexcept SystemExit: pass\n"
        "print('HEAVY', sorted({'ray', 'torch', 'numba'} & sys.modules.keys()))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.rstrip().endswith("HEAVY []")


def test_every_promise_has_an_algorithm():
    info = load_worker("rllib").info
    assert info.algorithms == ("ppo", "appo", "impala", "dqn", "sac", "a2c", "tqc", "bc", "marwil", "cql", "iql")
    assert info.upstream is not None
    assert info.upstream.startswith("ray ")


def _ray_processes(folder):
    return (folder.path / "ray.json").exists()


@pytest.mark.slow
def test_an_interrupt_saves_and_leaves_no_ray_behind(tmp_path):
    folder = new_folder(tmp_path, run_config("rllib", SMALL, training={"algorithm": "ppo", "total_timesteps": 10**9}))
    with Hosted(folder) as host:
        seen = host.event(lambda event: event["kind"] == "iteration")
        assert _ray_processes(folder)
        host.process.send_signal(signal.SIGINT)
        assert host.hear("stopped")["reason"] == "SIGINT"
        assert host.wait() == 3
    assert find_checkpoint(folder).env_steps >= seen["env_steps"]
    assert not _ray_processes(folder)
    stages = [event["message"] for event in host.events("stage")]
    assert stages == ["starting Ray", "building the algorithm", "collecting the first samples"]
    assert host.log() == ""  # no alarming lines


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["starting Ray", "building", "collecting the first samples"])
def test_a_stop_during_the_start_saves_nothing_and_leaves_no_ray_behind(tmp_path, stage):
    config = run_config("rllib", SMALL, training={"algorithm": "ppo", "total_timesteps": 10**9})
    run = Trainer(tmp_path).submit(config)
    next(event for event in run.events(follow=True) if event["kind"] == "stage" and event["message"].startswith(stage))
    run.stop()
    assert (run.state, run.record().attempts[-1].forced) == ("stopped", False)
    assert run.checkpoints() == [] or stage.startswith("collecting")  # it may have learned meanwhile
    assert not _ray_processes(run.folder)


@pytest.mark.slow
def test_pause_and_checkpoint_are_heard(tmp_path):
    folder = new_folder(tmp_path, run_config("rllib", SMALL, training={"algorithm": "ppo", "total_timesteps": 10**9}))
    with Hosted(folder) as host:
        host.event(lambda event: event["kind"] == "iteration")
        host.say("pause")
        host.hear("paused")
        before = len(host.events("iteration"))
        host.say("checkpoint")
        host.event(lambda event: event["kind"] == "checkpoint")
        assert len(host.events("iteration")) == before
        host.say("resume")
        host.hear("resumed")
        host.event(lambda event: event["kind"] == "iteration" and event["training_iteration"] > before)
        host.say("stop")
        host.hear("stopped")


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_rllib_keeps_every_promise(tmp_path):
    wanted = run_config(
        "rllib",
        SMALL,
        training={"algorithm": "ppo", "total_timesteps": 8000},
        checkpoint={"every_steps": 2000},
        evaluation={"episodes": 1},
    )
    others = {
        "independent": EnvironmentConfig(**SPREAD),
        "self_play": EnvironmentConfig(**GAME),
        "shared_value_function": EnvironmentConfig(**SPREAD),
    }
    report = check_worker("rllib", wanted, environments=others, home=tmp_path, patience_s=600)
    proofs = {proof.capability for proof in report.proofs}
    assert {"resume", "population", "pause", "stop", "checkpoints", "run: policies", "samples"} <= proofs
    assert {"resources", "agent mapping", "fixed opponent", "policies_to_train"} <= proofs
    assert {f"paradigm {kind}" for kind in (*others, "parameter_sharing")} <= proofs
    assert {f"dataset of {name}" for name in ("bc", "marwil", "cql", "iql")} <= proofs
