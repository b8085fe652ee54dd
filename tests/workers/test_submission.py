"""What a worker does not honour is refused before there is a run: mapping, resources, mirrors, opponents, options."""

import pytest

from mosaic.config.sections import ResourcesConfig
from mosaic.core.errors import InputError
from mosaic.learners.dqn.options import DqnOptions
from mosaic.learners.ppo.options import PpoOptions
from mosaic.learners.resources import with_resources
from mosaic.runs.trainer import Trainer
from mosaic.workers.resolution import resolve
from tests.workers.hosting import run_config

GAME = {"env_id": "classic/tictactoe_v3"}
CARTPOLE = {"env_id": "gym/CartPole-v1"}
COMMAND = {"command": ["true"]}


def refusal(worker, params=None, **settings):
    with pytest.raises(InputError) as caught:
        resolve(run_config(worker, params, **settings))
    return str(caught.value)


def resources(worker, params=None, environment=CARTPOLE, **asked):
    return refusal(worker, params, environment=environment, resources=asked)


@pytest.mark.parametrize(
    ("worker", "params", "name", "value"),
    [
        ("native", None, "num_cpus", 2),
        ("native", None, "ray_address", "127.0.0.1:1"),
        ("tabular", None, "num_gpus", 1.0),
        ("tabular", None, "num_cpus", 2),
        ("toy", None, "num_gpus", 1.0),
        ("toy", None, "runtime", "mpi"),
        ("toy", None, "ray_address", "127.0.0.1:1"),
        ("script", COMMAND, "runtime", "parallel"),
        ("script", COMMAND, "ray_address", "127.0.0.1:1"),
    ],
)
def test_resources_that_a_worker_does_not_meet(worker, params, name, value):
    said = resources(worker, params, GAME if worker == "tabular" else CARTPOLE, **{name: value})
    shown = f"{value:g}" if isinstance(value, float) else value
    assert said.startswith(f"The worker {worker} cannot meet resources.{name}={shown}; it meets ")
    assert said.endswith("Leave it out, or train with another worker. Type: mosaic workers")


@pytest.mark.parametrize(("worker", "params"), [("toy", None), ("script", COMMAND), ("tabular", None)])
def test_envs_side_by_side_that_a_worker_does_not_step(worker, params):
    said = refusal(worker, params, environment={**GAME, "num_envs": 8})
    assert said.startswith(f"The worker {worker} cannot meet environment.num_envs=8; it meets ")


def test_without_a_worker_one_is_picked_that_meets_what_is_asked():
    def picked(**settings):
        return resolve(run_config(None, **settings)).config.training.worker

    assert picked(environment=GAME) == "tabular"
    assert picked(environment={**GAME, "num_envs": 8}) == "native"


def test_what_one_process_has_anyway_is_met():
    for worker, params in (("toy", None), ("script", COMMAND), ("native", None)):
        assert resolve(run_config(worker, params, environment=CARTPOLE, resources={"num_env_runners": 1}))
        assert resolve(run_config(worker, params, environment=CARTPOLE, resources={"runtime": "single"}))


def test_resources_of_the_native_worker():
    assert "the runtime is single or parallel, not mpi" in resources("native", runtime="mpi")
    assert "one GPU or none, and resources.num_gpus is 4" in resources("native", num_gpus=4.0)
    assert "one GPU or none, and resources.num_gpus is 0.5" in resources("native", num_gpus=0.5)
    assert "Type: --runtime parallel" in resources("native", runtime="single", num_env_runners=2)
    assert "resources ask for 2 env runners, and training.params.threads is 3" in resources(
        "native", {"threads": 3}, num_env_runners=2
    )
    said = refusal("native", environment=CARTPOLE, training={"algorithm": "dqn"}, resources={"num_env_runners": 2})
    assert "DQN steps a compiled env in one thread" in said
    assert "99 threads cannot share" in refusal(
        "native", environment={**CARTPOLE, "num_envs": 4}, resources={"num_env_runners": 99}
    )


def test_workers_of_the_native_worker_are_threads_or_processes():
    ppo, four = PpoOptions(), ResourcesConfig(num_env_runners=4)
    assert with_resources(ppo, four, compiled=True).threads == 4
    assert with_resources(ppo, four, compiled=False).env_processes == 4
    assert with_resources(DqnOptions(), four, compiled=False).env_processes == 4
    assert with_resources(ppo, ResourcesConfig(runtime="parallel"), compiled=True).threads == 2
    one = with_resources(ppo, ResourcesConfig(runtime="single"), compiled=True)
    assert (one.threads, one.env_processes) == (1, 0)
    assert with_resources(ppo, ResourcesConfig(num_gpus=1), compiled=True).device == "cuda"
    met = with_resources(ppo, four, compiled=True)
    assert with_resources(met, four, compiled=True) == met
    with pytest.raises(InputError, match=r"training\.params\.device is cpu"):
        with_resources(PpoOptions(device="cpu"), ResourcesConfig(num_gpus=1), compiled=True)


def test_what_resources_decide_is_stored_with_the_run():
    stored = resolve(run_config("native", environment=CARTPOLE, resources={"num_env_runners": 2})).config
    assert stored.training.params["threads"] == 2
    assert resolve(stored).config.training.params == stored.training.params
    lander = {"env_id": "gym/LunarLander-v3"}
    stored = resolve(run_config("native", environment=lander, resources={"num_env_runners": 2})).config
    assert stored.training.params["env_processes"] == 2


def test_a_run_keeps_the_number_of_learners_that_its_checkpoints_have(tmp_path):
    run = Trainer(tmp_path).submit(run_config("native", environment=CARTPOLE, training={"preset": False}), start=False)
    run.stop()
    with pytest.raises(InputError, match=r"training\.params\.threads would be 2, .* were made with 1"):
        run.resume(resources={"num_env_runners": 2})


def test_workers_of_a_table_need_a_runtime():
    assert "Type --runtime parallel (threads), ray or mpi." in resources("tabular", environment=GAME, num_env_runners=4)
    assert "Type: --runtime ray" in resources("tabular", environment=GAME, ray_address="127.0.0.1:1")


def test_gpus_that_are_not_there(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert "The run asks for 1 GPUs and this machine has 0." in resources("script", COMMAND, num_gpus=1.0)


@pytest.mark.parametrize(("worker", "params"), [("toy", None), ("script", COMMAND)])
@pytest.mark.parametrize(
    ("settings", "what"),
    [
        ({"agents": {"*": "random"}}, "agents (--agent)"),
        ({"agents": "python:nowhere:f"}, "agents (--agent)"),
        ({"policies_to_train": ["learner"]}, "policies_to_train"),
        ({"evaluation": {"opponents": ["random"]}}, "evaluation.opponents"),
    ],
)
def test_workers_without_a_mapping_refuse_one(worker, params, settings, what):
    said = refusal(worker, params, environment=GAME, **settings)
    assert f"The worker {worker} itself decides which policy plays each agent, and cannot honour {what}." in said


@pytest.mark.parametrize("worker", ["toy", "tabular", "native"])
def test_mirrors_that_do_not_exist(worker):
    said = refusal(worker, environment=GAME, telemetry={"mirrors": ["tensorbord"]})
    assert said.startswith("There is no mirror named 'tensorbord'. Did you mean 'tensorboard'?")


@pytest.mark.parametrize("worker", ["tabular", "native"])
@pytest.mark.parametrize(
    ("opponent", "text"),
    [
        ("minmax", "There is no policy named 'minmax'. Did you mean 'minimax'?"),
        ("minimax:dept=2", "there is no option 'dept'. Did you mean 'depth'?"),
        ("stockfish", "classic/chess_v6 only"),
        ("human", "a person cannot play while a policy trains"),
    ],
)
def test_opponents_of_an_evaluation_that_cannot_play(worker, opponent, text):
    assert text in refusal(worker, environment=GAME, evaluation={"opponents": ["random", opponent]})


def test_an_evaluation_of_one_agent_has_no_opponents():
    said = refusal("native", environment=CARTPOLE, evaluation={"opponents": ["random"]})
    assert "gym/CartPole-v1 has one agent, and no opponent" in said


@pytest.mark.parametrize(
    ("environment", "text"),
    [
        ({**CARTPOLE, "options": {"gravit": 3}}, "gravit"),
        ({**CARTPOLE, "wrappers": ["frame_stack:numb=3"]}, "there is no option 'numb'"),
        ({**CARTPOLE, "wrappers": ["frame_stak"]}, "frame_stak"),
    ],
)
def test_options_of_envs_and_wrappers_that_do_not_exist(environment, text):
    assert text in refusal("native", environment=environment)


@pytest.mark.parametrize(("worker", "algorithm"), [("native", "dqn"), ("native", "ppo"), ("rllib", "dqn")])
def test_the_usual_policies_are_ones_that_the_algorithm_can_train(worker, algorithm):
    asked = run_config(worker, environment=GAME, training={"algorithm": algorithm, "total_timesteps": 100})
    chosen = resolve(asked).config.policy_configuration
    assert chosen == ("self_play" if algorithm == "ppo" else "parameter_sharing")


def test_a_policy_that_a_run_does_not_have(tmp_path, runs_here):
    trainer = Trainer(tmp_path)
    run = trainer.submit(run_config("toy", training={"total_timesteps": 200}))
    assert run.wait(60) == "finished"
    wanted = run_config("native", environment=GAME, agents={"player_2": f"run:{run.id}/walker"})
    with pytest.raises(InputError, match=r"There is no policy of run '.*' named 'walker'. .*Known: learner"):
        trainer.submit(wanted)
