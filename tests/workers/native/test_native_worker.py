"""Networks as runs: what the worker declares, saves, goes on from and plays."""

import numpy as np
import pytest
from safetensors.numpy import load_file

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import InputError
from mosaic.envs.catalog import make_env
from mosaic.models.weights_file import load_weights
from mosaic.policies.registry import load_policy
from mosaic.runs.trainer import Trainer
from mosaic.telemetry.events.event import TimeSplit
from mosaic.testing import check_worker
from mosaic.testing.toys import uneven
from mosaic.workers.host import STOPPED
from tests.in_process import trained_here
from tests.workers.hosting import run_config

CARTPOLE = {"env_id": "gym/CartPole-v1", "num_envs": 8}
GAME = {"env_id": "classic/tictactoe_v3", "num_envs": 8}
SPREAD = {"env_id": "mpe/simple_spread_v3", "num_envs": 4}
SMALL = {"hidden": [8], "n_steps": 32, "n_epochs": 2, "batch_size": 64, "threads": 1}
PLAIN = {key: value for key, value in SMALL.items() if key != "threads"}


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("MOSAIC_HOME", str(tmp_path))
    return tmp_path


def config(environment, params=None, steps=2048, training=None, **settings):
    training = {"total_timesteps": steps, "algorithm": "ppo", "preset": False, **(training or {})}
    return run_config("native", {**PLAIN, **(params or {})}, environment=environment, training=training, **settings)


def finished(home, wanted):
    run = trained_here(home, wanted)
    assert run.state == "finished", run.log()
    return run


def last_event(run):
    return [event for event in run.events() if event["kind"] == "iteration"][-1]


def weights_of(run, policy=0):
    return load_weights(run.checkpoints()[-1].path / f"policy_{policy}.safetensors")


def refusal(wanted, home):
    with pytest.raises(InputError) as caught:
        Trainer(home).submit(wanted)
    return str(caught.value)


@pytest.mark.slow
@pytest.mark.chosen
def test_every_declared_capability_is_proven(short_runs_here):
    wanted = config(
        CARTPOLE,
        {"threads": 1, "report_every_steps": 8192},
        steps=600_000,
        checkpoint={"every_steps": 65_536},
        evaluation={"episodes": 2},
    )
    others = {"independent": SPREAD, "shared_value_function": SPREAD, "self_play": GAME}
    short = config(CARTPOLE, steps=4000, checkpoint={"every_steps": 500, "keep_last": 10})
    environments = {kind: EnvironmentConfig(**env) for kind, env in others.items()}
    report = check_worker("native", wanted, environments=environments, short=short, patience_s=120)
    proofs = {proof.capability: proof.seen for proof in report.proofs}
    assert proofs["resume"].endswith("same curve")
    assert {"seeds", "population", "pause", "stop", "checkpoints", "run: policies", "samples"} <= proofs.keys()
    assert {"resources", "agent mapping", "fixed opponent", "policies_to_train"} <= proofs.keys()
    assert {f"paradigm {kind}" for kind in (*others, "parameter_sharing")} <= proofs.keys()
    assert {"dataset of bc", "dataset of cql", "dataset of dqn", "expert of dagger", "external_envs"} <= proofs.keys()


@pytest.mark.slow
@pytest.mark.chosen
def test_what_was_learned_is_saved_before_the_last_evaluation_which_a_stop_cuts_short(home):
    run = Trainer(home).submit(config(CARTPOLE, steps=512, evaluation={"episodes": 1_000_000}))
    next(event for event in run.events(follow=True) if event["kind"] == "checkpoint")
    run.stop(patience_s=60)
    assert run.record().state == "stopped"
    assert "evaluation" not in [event["kind"] for event in run.events()]
    assert run.record().attempts[-1].exit == STOPPED, run.log()  # by itself, not by a signal


@pytest.mark.slow
@pytest.mark.chosen
def test_a_run_that_ends_by_its_episodes_reports_the_last_iteration(home):
    limits = {"total_timesteps": None, "episodes": 3}
    run = finished(home, config(CARTPOLE, training=limits, evaluation={"episodes": 1}))
    assert last_event(run)["episodes_total"] >= 3
    assert last_event(run)["episode_reward_mean"] > 0
    assert last_event(run)["time_split"].keys() == TimeSplit.__annotations__.keys()
    assert run.summary().env_steps == run.checkpoints()[-1].env_steps


@pytest.mark.slow
@pytest.mark.chosen
def test_self_play_reports_ratings_and_plays_through_run(home):
    from mosaic import evaluate

    wanted = config(
        GAME,
        {"opponents": ["random", "minimax:depth=1", "self@-512"], "selfplay_share": 0.25},
        policy_configuration="self_play",
    )
    run = finished(home, wanted)
    event = last_event(run)
    custom = event["custom_metrics"]
    assert custom["league_size"] == len(custom["league_ratings"]) >= 3
    assert {"rating/random", "win_rate/random", "score/random", "win_rate/minimax:depth=1"} <= custom.keys()
    assert isinstance(event["policies"]["learner"]["rating"], float)
    assert "approx_kl" in event["policies"]["learner"]["learner"]
    evaluation = next(each for each in run.events() if each["kind"] == "evaluation")
    assert evaluation["opponent"] == "league"
    assert {agent: facts["policy"] for agent, facts in evaluation["agents"].items()} == {
        "player_1": "learner",
        "player_2": "learner",
    }
    manifest = run.checkpoints()[-1].manifest
    assert (manifest.best_by, manifest.rating) == ("rating", event["policies"]["learner"]["rating"])
    assert "2 of them against minimax:depth=1" in run.log()
    result = evaluate(
        GAME["env_id"], {"player_1": f"run:{run.id}", "player_2": "random"}, episodes=10, seed=1
    ).to_json()
    assert result["agents"]["player_1"]["episodes"] == 10
    again = config(GAME, {"opponents": [f"run:{run.id}"]}, steps=512, policy_configuration="self_play")
    assert f"win_rate/run:{run.id}" in last_event(finished(home, again))["custom_metrics"]


@pytest.mark.parametrize(
    ("algorithm", "params"),
    [("ppo", {}), ("dqn", {"hidden": [8], "n_steps": None, "n_epochs": None, "batch_size": 32})],
)
def test_steps_in_which_only_others_act_are_env_steps(home, algorithm, params):
    environment = {**uneven(turn_based=True).model_dump(mode="json"), "num_envs": 2}
    params = {key: value for key, value in {**PLAIN, **params}.items() if value is not None}
    training = {"total_timesteps": 600, "algorithm": algorithm, "preset": False}
    wanted = run_config("native", params, environment=environment, training=training, agents={"a": "random"})
    event = last_event(finished(home, wanted))
    assert event["episode_reward_mean"] == 8.0
    assert event["episode_len_mean"] == 9.0
    assert 0 <= event["env_steps"] - 9 * event["episodes_total"] < 2 * 9
    assert 600 <= event["env_steps"] < 700


@pytest.mark.slow
@pytest.mark.chosen
def test_a_saved_policy_acts_as_the_training_one_and_others_start_from_it(home):
    """The scaler is part of it: without, other actions follow."""
    normalised = {"normalize_observations": True}
    first = finished(home, config(CARTPOLE, {**normalised, "learning_rate": 0.01}))
    saved, state = weights_of(first), training_state(first)
    np.testing.assert_array_equal(saved.extra["shift"], state["shared/seen.mean"].astype(np.float32))
    assert np.abs(saved.extra["shift"]).sum() > 0
    assert first.checkpoints()[-1].manifest.policies["shared"].normalized is True
    play_by_hand(f"run:{first.id}", saved)

    then = finished(home, config(CARTPOLE, {**normalised, "learning_rate": 1e-12}, 256, {"init": f"run:{first.id}"}))
    np.testing.assert_allclose(weights_of(then).flat, saved.flat, atol=1e-6)
    assert [training_state(run)["shared/seen.count"][0] for run in (first, then)] == [2048, 2048 + 256]

    carried = finished(home, config(CARTPOLE, normalised, 256, {"init": f"run:{first.id},optimizer=true"}))
    updates = [int(training_state(run)["shared/optimiser.count"][0]) for run in (first, then, carried)]
    assert updates[2] == updates[0] + updates[1]

    with pytest.raises(InputError, match="was trained with normalize_observations true, this run has false: set"):
        trained_here(home, config(CARTPOLE, {}, 256, {"init": f"run:{first.id}"}))


def training_state(run):
    return load_file(run.checkpoints()[-1].path / "training.safetensors")


def play_by_hand(reference, saved):
    env = make_env(CARTPOLE["env_id"])
    player = load_policy(reference, env.spec)
    turn = env.reset(3)
    player.begin(env.spec.possible_agents, 0)
    for _ in range(8):
        row = (turn.observations["agent_0"] - saved.extra["shift"]) * saved.extra["scale"]
        action = player.act(turn)
        assert action["agent_0"] == _likeliest(saved, np.clip(row, -10, 10))
        turn = env.step(action)
    env.close()


def _likeliest(saved, row):
    layers = load_dense(saved)
    hidden = np.tanh(row @ layers["policy.0.weight"] + layers["policy.0.bias"])
    return int(np.argmax(hidden @ layers["policy.1.weight"] + layers["policy.1.bias"]))


def load_dense(saved):
    from mosaic.models.layout import tensors

    return {tensor.name: tensor.of(saved.flat) for tensor in tensors(saved.architecture)}


@pytest.mark.slow
@pytest.mark.chosen
@pytest.mark.parametrize(("memory", "engine"), [("gru", "fused engine (dense layers and a GRU)"),
                                                ("lstm", "torch engine (an LSTM)")])  # fmt: skip
def test_a_net_with_memory_plays_through_run(home, memory, engine):
    from mosaic import evaluate

    run = finished(home, config(CARTPOLE, {"memory": memory, "memory_size": 8}, 512))
    assert engine in run.log()
    result = evaluate(CARTPOLE["env_id"], {"*": f"run:{run.id}"}, episodes=2, seed=1).to_json()
    assert result["agents"]["agent_0"]["return_mean"] > 0


OWN_NETWORK = """
import torch
from torch import nn


class Narrow(nn.Module):
    def __init__(self, architecture):
        super().__init__()
        self.body = nn.Linear(architecture.observation, 3)
        self.policy = nn.Linear(3, architecture.head.width)
        self.value = nn.Linear(3, 1)

    def forward(self, obs, critic_obs=None):
        seen = torch.relu(self.body(obs))
        return self.policy(seen), self.value(seen).squeeze(-1)
"""


@pytest.mark.slow
@pytest.mark.chosen
def test_a_network_of_ones_own_is_saved_and_played(home, monkeypatch):
    from mosaic import evaluate

    (home / "own_network.py").write_text(OWN_NETWORK)
    monkeypatch.syspath_prepend(str(home))
    monkeypatch.setenv("PYTHONPATH", str(home))
    run = finished(home, config(CARTPOLE, {"network": "python:own_network:Narrow"}, 512))
    saved = weights_of(run)
    assert saved.flat.size == (4 * 3 + 3) + (3 * 2 + 2) + (3 + 1)
    assert saved.architecture.plain
    result = evaluate(CARTPOLE["env_id"], {"*": f"run:{run.id}"}, episodes=2, seed=1).to_json()
    assert result["agents"]["agent_0"]["return_mean"] > 0


@pytest.mark.slow
@pytest.mark.chosen
def test_policies_of_different_spaces_are_saved_and_played_apart(home):
    from mosaic import evaluate

    tag = {"env_id": "mpe/simple_tag_v3", "num_envs": 4}
    run = finished(home, config(tag, steps=512))
    policies = run.checkpoints()[-1].manifest.policies
    assert {name: entry.agents for name, entry in policies.items()} == {
        "adversary": ("adversary_0", "adversary_1", "adversary_2"),
        "agent": ("agent_0",),
    }
    assert weights_of(run, 0).architecture.observation != weights_of(run, 1).architecture.observation
    seats = {"adversary_*": f"run:{run.id}/adversary", "agent_0": f"run:{run.id}/agent"}
    assert evaluate(tag["env_id"], seats, episodes=1, seed=1).to_json()["agents"]["agent_0"]["episodes"] == 1


def test_what_cannot_be_trained_is_refused_before_the_run(home):
    assert refusal(config(GAME, agents={"player_2": "human"}), home).startswith(
        "A person cannot play player_2 while a policy trains: training plays thousands of steps in a second."
    )
    self_play = {"policy_configuration": "self_play"}
    assert refusal(config(GAME, {"opponents": ["human"]}, **self_play), home).startswith(
        "opponents: a person cannot play while a policy trains"
    )
    assert "Did you mean 'minimax'?" in refusal(config(GAME, {"opponents": ["minmax"]}, **self_play), home)
    sharing = config(GAME, {"opponents": ["random"]}, policy_configuration="parameter_sharing")
    assert refusal(sharing, home).startswith("The option opponents belongs to self-play")


DIVERGING = """
import gymnasium
import numpy as np

class Env(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        reward = 1.0 if self.steps < 200 else float("nan")
        return np.ones(2, np.float32), reward, self.steps % 10 == 0, False, {}
"""


@pytest.mark.slow
@pytest.mark.chosen
def test_weights_that_become_nan_end_the_run_with_the_reason(home, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "diverging.py").write_text(DIVERGING)
    wanted = config({"env_id": "python:diverging:Env", "num_envs": 2}, {"report_every_steps": 64}, steps=1_000_000_000)
    run = trained_here(home, wanted)
    assert run.state == "failed"
    assert "weights of 'shared' are not finite" in run.reason
    assert "smaller learning_rate" in run.reason
