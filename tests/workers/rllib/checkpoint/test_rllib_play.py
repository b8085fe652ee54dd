"""Exported policies play as RLlib's own inference does, without Ray."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.env.multi_agent_env_runner import MultiAgentEnvRunner
from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

from mosaic.core.turn import Turn
from mosaic.envs.catalog import make_env
from mosaic.policies.controller import PolicyController, PolicyRequest, Sampling
from mosaic.workers.rllib.checkpoint.controllers import FACTS, load_policy
from mosaic.workers.rllib.checkpoint.export import export_modules, export_policies
from mosaic.workers.rllib.checkpoint.module_controller import ModulePolicyController
from mosaic.workers.rllib.config.build import configure
from mosaic.workers.rllib.config.setup import RllibSetup
from mosaic.workers.rllib.env.encoding import agent_code
from tests.workers.rllib.rllib_setups import make_setup

BOARD, SPREAD, LAKE = "classic/tictactoe_v3", "mpe/simple_spread_v3", "gym/FrozenLake-v1"
MOVING = {"continuous_actions": True}
LSTM = {"use_lstm": True, "lstm_cell_size": 8, "max_seq_len": 5}
CASES: dict[str, tuple[str, dict[str, Any], bool]] = {  # env, what is said, whether a dense network plays
    "ppo": ("gym/CartPole-v1", {}, True),
    "ppo independent, masked": (BOARD, {"policy_configuration": "independent"}, True),
    "ppo shared layers": (BOARD, {"params": {"vf_share_layers": True}}, True),
    "ppo relu": (BOARD, {"params": {"fcnet_activation": "relu", "head_fcnet_hiddens": [8]}}, True),
    "ppo mixed activations": (BOARD, {"params": {"head_fcnet_hiddens": [8]}}, False),
    "ppo linear": (BOARD, {"params": {"fcnet_activation": "linear"}}, False),
    "ppo lstm": (BOARD, {"params": LSTM}, False),
    "ppo lstm shared layers": ("gym/CartPole-v1", {"params": LSTM | {"vf_share_layers": True}}, False),
    "ppo filter": (SPREAD, {"params": {"observation_filter": "MeanStdFilter"}}, True),
    "ppo filter, masked": (BOARD, {"params": {"observation_filter": "MeanStdFilter"}}, True),
    "ppo filter, alone": ("gym/CartPole-v1", {"params": {"observation_filter": "MeanStdFilter"}}, True),
    "ppo filter, lstm": (SPREAD, {"params": LSTM | {"observation_filter": "MeanStdFilter"}}, False),
    "ppo central": (SPREAD, {"policy_configuration": "shared_value_function"}, True),
    "ppo central, shared actor": (
        SPREAD,
        {"policy_configuration": "shared_value_function", "params": {"shared_actor": True}},
        True,
    ),
    "ppo central, lstm": (SPREAD, {"policy_configuration": "shared_value_function", "params": LSTM}, False),
    "ppo played": (BOARD, {"agents": {"player_2": "random"}}, True),
    "ppo box": (SPREAD, {"env_options": MOVING}, True),
    "ppo box, clipped": (
        SPREAD,
        {"env_options": MOVING, "params": {"normalize_actions": False, "clip_actions": True}},
        True,
    ),
    "ppo box, free": ("gym/Pendulum-v1", {"params": {"free_log_std": True}}, True),
    "ppo pictures": ("butterfly/cooperative_pong", {"env_options": {"max_cycles": 8}}, False),
    "ppo self-play": (BOARD, {"policy_configuration": "self_play"}, True),
    "dqn masked": (BOARD, {}, True),
    "dqn one stream": (
        LAKE,
        {"params": {"dueling": False, "head_fcnet_hiddens": [8], "fcnet_activation": "relu"}},
        True,
    ),
    "dqn two streams": (LAKE, {"params": {"head_fcnet_hiddens": [8], "fcnet_activation": "relu"}}, False),
    "dqn atoms": (LAKE, {"params": {"num_atoms": 5}}, False),
    "a2c masked": (BOARD, {}, True),
    "impala masked": (BOARD, {}, True),
    "appo masked": (BOARD, {}, True),
    "sac box": ("gym/Pendulum-v1", {}, True),
    "sac box, mixed activations": (
        "gym/Pendulum-v1",
        {"params": {"fcnet_activation": "tanh", "head_fcnet_hiddens": [8]}},
        False,
    ),
    "sac discrete": (LAKE, {}, True),
}


SLOW = ("ppo lstm", "ppo filter, lstm", "ppo central, lstm", "ppo pictures", "ppo box, clipped", "dqn two streams")


@pytest.fixture(autouse=True)
def _one_thread():
    """As in runs: networks are small, and threads that wait for each other take the time of everything else."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def setup_of(folder: Path, case: str) -> RllibSetup:
    env, said, _ = CASES[case]
    return make_setup(folder, env, case.split()[0], seed=3, **said)


def runner_of(setup: RllibSetup) -> Any:
    """RLlib's own, with its connectors, and new weights; what it filters by is no longer changed."""
    config = configure(setup)
    make: Any = SingleAgentEnvRunner if setup.single else MultiAgentEnvRunner
    runner = make(config=config, worker_index=0)
    if setup.options.observation_filter == "MeanStdFilter":
        runner.sample(num_timesteps=60)
    for connector in runner._env_to_module.connectors:
        if hasattr(connector, "_update_stats"):
            connector._update_stats = False
    return runner


def export_new(folder: Path, setup: RllibSetup, runner: Any) -> None:
    """As from a learner that has made its first step: weights of whole modules, of which the runner has a part."""
    modules = {name: runner.module if setup.single else runner.module[name] for name in setup.modules.values()}
    states = {}
    for name, module in modules.items():
        whole = RLModuleSpec.from_module(module)
        whole.inference_only = False
        states[name] = whole.build().get_state()
        module.set_state(states[name])
    export_modules(folder, setup, modules, states, runner._env_to_module)


def players_of(folder: Path, setup: RllibSetup, sampling: Sampling | None = None) -> dict[str, PolicyController]:
    return {
        agent: load_policy(folder, policy, PolicyRequest("tested", setup.spec, (agent,), sampling=sampling))
        for agent, policy in setup.policy_of.items()
    }


def compared(setup: RllibSetup, runner: Any, players: Mapping[str, PolicyController]) -> tuple[int, int]:
    """How many decisions of RLlib's episodes our players were asked for, and in how many they agreed."""
    env = runner.env.unwrapped.envs[0].unwrapped
    own = hasattr(env, "view")
    inner = env.view.env if own else env
    count = agreed = 0
    turn = Turn({}, {}, {}, {}, {}, {}, {})
    reset, step = inner.reset, inner.step

    def shown(answer: Any) -> Turn:
        return answer if own else Turn({"agent_0": answer[0]}, {}, {}, {}, {}, {}, {})

    def on_reset(*given: Any, **also: Any) -> Any:
        nonlocal turn
        answer = reset(*given, **also)
        turn = shown(answer)
        for agent, player in players.items():
            player.begin((agent,), 0)
        return answer

    def on_step(actions: Any) -> Any:
        nonlocal turn, count, agreed
        for agent, player in players.items():
            if agent in turn.observations:
                ours = player.act(turn.only((agent,)))[agent]
                count += 1
                agreed += int(np.allclose(ours, actions[agent] if own else actions, atol=1e-4))
        answer = step(actions)
        turn = shown(answer)
        return answer

    inner.reset, inner.step = on_reset, on_step
    try:
        runner.sample(num_episodes=4, explore=False)
    finally:
        inner.reset, inner.step = reset, step
    return count, agreed


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow) if case in SLOW else case for case in CASES]
)
def test_a_policy_plays_as_rllib_infers(case: str, tmp_path: Path):
    setup = setup_of(tmp_path, case)
    runner = runner_of(setup)
    try:
        export_new(tmp_path, setup, runner)
        players = players_of(tmp_path, setup)
        for player in players.values():
            assert isinstance(player, ModulePolicyController) != CASES[case][2]
        count, agreed = compared(setup, runner, players)
        assert count >= 4
        assert agreed == count
    finally:
        runner.stop()


SAMPLED = (
    "ppo",
    "ppo mixed activations",
    "ppo box",
    "ppo box, free",
    "sac box",
    "sac box, mixed activations",
    "sac discrete",
)


@pytest.mark.parametrize("case", SAMPLED)
def test_samples_are_those_of_rllibs_distribution(case: str, tmp_path: Path):
    """At a temperature that leaves neither the best action alone nor a uniform choice; `sample` is temperature 1."""
    count, temperature = 600, 0.5
    setup = setup_of(tmp_path, case)
    runner = runner_of(setup)
    env = make_env(setup.config.environment)
    try:
        export_new(tmp_path, setup, runner)
        turn = env.reset(3)
        agent = next(iter(turn.observations))
        space = setup.spec.action_spaces[agent]
        drawn = {}
        for said in (1.0, temperature):
            player = players_of(tmp_path, setup, Sampling(said))[agent]
            draws = []
            for seed in (1, 1, 2):
                player.begin((agent,), seed)
                draws.append([np.ravel(player.act(turn.only((agent,)))[agent]) for _ in range(count // 2)])
            assert np.array_equal(draws[0], draws[1])
            drawn[said] = np.concatenate([draws[1], draws[2]]).astype(float)
        inputs = _distribution_inputs(setup, runner, agent, turn)
        if isinstance(space, spaces.Box):
            mean, log_std = torch.chunk(inputs, 2)
            scale = (space.high - space.low) / 2
            for said, found in drawn.items():
                noise = log_std.exp().numpy() * said * np.random.default_rng(0).standard_normal((20_000, len(mean)))
                raw = mean.numpy() + noise
                wanted = np.tanh(raw) if case.startswith("sac") else np.clip(raw, -1, 1)
                wanted = wanted * scale + (space.high + space.low) / 2
                np.testing.assert_allclose(found.mean(0), wanted.mean(0), atol=0.15 * scale.max())
                np.testing.assert_allclose(found.std(0), wanted.std(0), atol=0.1 * scale.max())
        else:
            for said, found in drawn.items():
                shares = np.bincount(found[:, 0].astype(int), minlength=int(space.n)) / len(found)
                np.testing.assert_allclose(shares, torch.softmax(inputs / said, -1).numpy(), atol=0.09)
    finally:
        env.close()
        runner.stop()


def _distribution_inputs(setup: RllibSetup, runner: Any, agent: str, turn: Turn) -> torch.Tensor:
    module = runner.module if setup.single else runner.module[setup.modules[setup.policy_of[agent]]]
    seat = agent_code(setup.spec.observation_spaces[agent], setup.spec.action_spaces[agent], setup.options.picture_size)
    row = torch.from_numpy(seat.read(turn.observations[agent])[np.newaxis])
    if setup.masked and seat.choices:
        mask = turn.action_masks.get(agent, np.ones(seat.choices, bool))
        row = {"observation": row, "action_mask": torch.from_numpy(mask[np.newaxis].astype(np.int8))}
    with torch.no_grad():
        return module.forward_exploration({"obs": row})["action_dist_inputs"][0]


def test_dqn_explores_with_the_rate_of_training(tmp_path: Path):
    setup = setup_of(tmp_path, "dqn atoms")
    runner = runner_of(setup)
    env = make_env(setup.config.environment)
    try:
        export_new(tmp_path, setup, runner)
        turn = env.reset(3)

        def shares(sampling: Sampling | None) -> np.ndarray:
            (player,) = players_of(tmp_path, setup, sampling).values()
            player.begin(("agent_0",), 1)
            return np.bincount([player.act(turn)["agent_0"] for _ in range(400)], minlength=4) / 400

        assert shares(None).max() == 1.0
        np.testing.assert_allclose(shares(Sampling()), 0.25, atol=0.1)  # no step was trained: epsilon is 1
        np.testing.assert_allclose(shares(Sampling(1e6)), 0.25, atol=0.1)
        facts = json.loads((tmp_path / FACTS).read_text())
        (policy,) = facts["policies"].values()
        assert policy["epsilon"] == 1.0
        policy["epsilon"] = 0.0
        (tmp_path / FACTS).write_text(json.dumps(facts))
        assert shares(Sampling()).max() == 1.0
    finally:
        env.close()
        runner.stop()


@pytest.mark.slow
@pytest.mark.chosen
def test_a_trained_policy_plays_as_rllib_infers(tmp_path: Path, ray: Any):
    setup = setup_of(tmp_path, "ppo independent, masked")
    algo = configure(setup).build_algo()
    try:
        before = {name: algo.get_module(name).get_state() for name in setup.modules.values()}
        algo.train()
        export_policies(tmp_path, setup, algo)
        for name, state in before.items():
            after = algo.get_module(name).get_state()
            assert any(not np.array_equal(state[key], after[key]) for key in state)
        count, agreed = compared(setup, algo.env_runner, players_of(tmp_path, setup))
        assert count >= 4
        assert agreed == count
    finally:
        algo.stop()


def test_a_dense_policy_plays_where_there_is_neither_ray_nor_torch(tmp_path: Path):
    setup = setup_of(tmp_path, "ppo played")
    runner = runner_of(setup)
    export_new(tmp_path, setup, runner)
    runner.stop()
    code = f"""
import sys
sys.modules["ray"] = sys.modules["torch"] = None
from pathlib import Path
from mosaic.envs.catalog import make_env
from mosaic.policies.controller import PolicyRequest
from mosaic.workers.rllib.checkpoint.controllers import load_policy
from mosaic.workers.rllib.env.encoding import agent_code
env = make_env("{BOARD}")
player = load_policy(Path({str(tmp_path)!r}), "shared", PolicyRequest("tested", env.spec, ("player_1",)))
player.begin(("player_1",), 0)
print(player.act(env.reset(0))["player_1"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert 0 <= int(done.stdout) < 9
