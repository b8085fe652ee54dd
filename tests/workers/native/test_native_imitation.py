"""Cloned policies in runs: trained, resumed, played, exported, fine-tuned near the clone, and what is refused."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.evaluation.evaluate import evaluate
from mosaic.models.weights_file import load_weights
from mosaic.policies.registry import load_policy
from mosaic.runs.trainer import Trainer
from tests.store.demos.demo_cases import record_games
from tests.workers.hosting import run_config

GAME = "classic/tictactoe_v3"
RULES = {"minimax": 1, "*": 0}


@pytest.fixture
def home(tmp_path, monkeypatch, runs_here):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def games(home):
    return record_games(home, mapping={"player_1": "minimax", "player_2": "random"}, episodes=16)


def native(algorithm="bc", params=None, steps=3_000, **settings):
    given = {"dataset": "demo:games", "hidden": [16], "controller_weights": RULES} if params is None else params
    training = {"total_timesteps": steps, "algorithm": algorithm, "preset": False, **settings.pop("training", {})}
    return run_config("native", given, environment={"env_id": GAME}, training=training, **settings)


def finished(home, wanted):
    run = Trainer(home).submit(wanted)
    assert run.wait(120) == "finished", run.log()
    return run


def weights_of(run):
    return load_weights(run.checkpoints()[-1].path / "policy_0.safetensors").flat


def test_a_clone_is_evaluated_saved_played_and_its_accuracy_reported(home, games):
    evaluation = {"every_steps": 1_000, "episodes": 2, "opponents": ["random"]}
    run = finished(home, native(evaluation=evaluation))
    events = list(run.events())
    assert len([event for event in events if event["kind"] == "evaluation"]) == 3
    last = [event for event in events if event["kind"] == "iteration"][-1]
    losses = last["policies"]["shared"]["learner"]
    assert 3_000 <= last["env_steps"] == last["agent_steps"] < 3_500
    assert 0 < losses["held_out_accuracy"] <= 1
    assert last["episode_reward_mean"] is None
    assert run.folder.read_config().policy_configuration == "parameter_sharing"  # not self-play, the game's default
    env = make_env(GAME)
    policy = load_policy(f"run:{run.id}", env.spec)
    policy.begin(env.possible_agents, 0)
    turn = env.reset(0)
    assert policy.act(turn)["player_1"] in range(9)
    result = evaluate(GAME, {"player_1": f"run:{run.id}", "player_2": "random"}, episodes=4)
    assert result.to_json()["episodes"] == 4


def test_a_stopped_clone_continues_with_the_same_numbers(home, games):
    whole = finished(home, native())
    half = finished(home, native(steps=1_200))
    half.resume(settings=["training.total_timesteps=3000"])
    assert half.wait(120) == "finished", half.log()
    assert (weights_of(half) == weights_of(whole)).all()


@pytest.mark.slow
@pytest.mark.chosen
@pytest.mark.parametrize("final", [None, 0.0])
def test_fine_tuning_stays_near_the_clone_and_continues_exactly(home, games, final):
    clone = finished(home, native())
    start = weights_of(clone)
    small = {"hidden": [16], "n_steps": 16, "batch_size": 64, "n_epochs": 4, "learning_rate": 0.01}
    settings = {"policy_configuration": "parameter_sharing", "training": {"init": f"run:{clone.id}"}}

    def tuned(strength, steps=1_024):
        anchored = {"kl_anchor": strength, **({} if final is None or not strength else {"kl_anchor_final": final})}
        wanted = native("ppo", {**small, **anchored}, steps, **settings)
        return finished(home, wanted.model_copy(update={"environment": wanted.environment.model_copy()}))

    free, near = tuned(0.0), tuned(10.0)
    last = [event for event in near.events() if event["kind"] == "iteration"][-1]["policies"]["shared"]["learner"]
    assert 0 <= last["anchor_kl"] < 0.5
    assert np.linalg.norm(weights_of(near) - start) < np.linalg.norm(weights_of(free) - start)
    state = load_file(near.checkpoints()[-1].path / "training.safetensors")
    assert (state["shared/anchor"] == start).all()
    if final is None:
        half = tuned(10.0, 512)
        half.resume(settings=["training.total_timesteps=1024"])
        assert half.wait(120) == "finished", half.log()
        assert (weights_of(half) == weights_of(near)).all()


@pytest.mark.slow
@pytest.mark.chosen
def test_dagger_runs_and_continues_with_the_same_numbers(home):
    params = {"expert": "minimax", "hidden": [16], "rollout_steps": 50}
    whole = finished(home, native("dagger", params, 300))
    half = finished(home, native("dagger", params, 50))  # a whole round: a limit within one would end it early
    half.resume(settings=["training.total_timesteps=300"])
    assert half.wait(120) == "finished", half.log()
    last = [event for event in half.events() if event["kind"] == "iteration"][-1]
    assert last["episode_reward_mean"] is not None
    assert last["policies"]["shared"]["learner"]["labels"] == last["agent_steps"]
    assert half.checkpoints()[-1].manifest.env_steps == whole.checkpoints()[-1].manifest.env_steps
    assert (weights_of(half) == weights_of(whole)).all()


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"params": {"dataset": "demo:game"}}, "There is no demonstration named 'game'"),
        ({"params": {}}, "bc learns from a dataset: add --demo NAME"),
        ({"training": {"stop_reward": 1.0}}, "so training.stop_reward has no effect. Leave it out."),
        ({"resources": {"num_env_runners": 2}}, "so resources.num_env_runners has no effect. Leave it out."),
        (
            {"policy_configuration": "self_play"},
            "bc does not support self_play: add --policies parameter_sharing or independent, or use --algo ppo.",
        ),
        (
            {"algorithm": "ppo", "params": {"kl_anchor": 1.0}},
            "and this run starts with new weights. Add --init run:ID, or leave it out.",
        ),
        (
            {"algorithm": "ppo", "params": {"kl_anchor": 1.0, "normalize_observations": True}, "init": "run:latest"},
            "Leave out kl_anchor or normalize_observations.",
        ),
        (
            {"algorithm": "ppo", "params": {"kl_anchor_final": 1.0}},
            "'kl_anchor_final' is the end of a schedule that 'kl_anchor' begins",
        ),
        ({"params": {"dataset": "demo:games", "patience": 2, "held_out": 0}}, "set 'held_out' above 0"),
    ],
)
def test_what_cannot_be_honoured_is_refused_before_the_run(home, wanted, text):
    training = {"init": wanted.pop("init")} if "init" in wanted else {}
    asked = {**wanted, "training": {**training, **wanted.pop("training", {})}}
    with pytest.raises(InputError) as caught:
        Trainer(home).submit(native(**{**wanted, **asked}), start=False)
    assert text in str(caught.value)


def test_a_dataset_of_another_env_is_refused_before_the_run(home, games):
    wanted = native()
    cartpole = wanted.environment.model_copy(update={"family": "gym", "env_id": "CartPole-v1"})
    with pytest.raises(InputError, match="dataset=demo:games has no step of agent_0, from which 'shared' would learn"):
        Trainer(home).submit(wanted.model_copy(update={"environment": cartpole}), start=False)


@pytest.mark.slow
@pytest.mark.chosen
def test_exported_clones_agree(home, games, tmp_path):
    pytest.importorskip("onnx")
    from mosaic.exports.export import export

    run = finished(home, native(steps=500))
    (made,) = export(run.id, tmp_path / "clone.onnx")
    assert made.parity.action_agreement == 1.0
