"""Does the learner learn? Known envs to their known scores, with the presets that users get.

One seed of each runs in `make test`, all of them in `make test-all`; the lander and whole presets only there.
"""

from __future__ import annotations

from contextlib import closing
from statistics import fmean

import numpy as np
import pytest

from mosaic.config.run import RunConfig
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.board_games.tictactoe import tictactoe_game
from mosaic.envs.vector.encoding import action_code, row_code
from mosaic.learners.base import Assembled
from mosaic.learners.ppo.build import assemble
from mosaic.learners.ppo.options import PpoOptions
from mosaic.learners.tabular.optimal import prove
from mosaic.models.fused import build_model, make_scratch, probabilities
from mosaic.policies.network import NetworkPolicyController
from mosaic.runners.local import LocalEnvRunner
from mosaic.workers.native.worker import NativePpoOptions
from mosaic.workers.presets import with_preset


def prepared(env_id: str, seed: int, **training) -> tuple[RunConfig, PpoOptions]:
    document = {"environment": {"env_id": env_id}, "seed": seed, "training": training}
    config = with_preset(RunConfig.model_validate(document), "native", "ppo")
    competitive = env_id.startswith("classic/")
    config = config.model_copy(update={"policy_configuration": "self_play" if competitive else "parameter_sharing"})
    return config, NativePpoOptions.model_validate(config.training.params)


def trained(env_id: str, seed: int, until: float | None = None, share: float = 1.0, **training) -> Assembled:
    """Train until the mean return is `until`, at most that share of the steps that the schedules are made for."""
    config, options = prepared(env_id, seed, **training)
    assembled = assemble(config, options)
    learner = assembled.learner
    total = config.training.total_timesteps
    assert total is not None
    while learner.env_steps < share * total:
        learner.iterate()
        mean = learner.progress().return_mean
        if until is not None and mean is not None and mean >= until:
            break
    return assembled


def greedy_return(assembled: Assembled, env_id: str, episodes: int = 50) -> float:
    """Mean return of an agent in the reference env, on seeds that training never saw."""
    learner, spec = assembled.learner, assembled.spec
    moments = learner.scaler(0)
    controller = NetworkPolicyController(
        assembled.architectures[0],
        learner.weights(0),
        {agent: row_code(spec.observation_spaces[agent]) for agent in spec.possible_agents},
        {agent: action_code(spec.action_spaces[agent]) for agent in spec.possible_agents},
        None if moments is None else (moments.shift, moments.scale),
    )
    config = RunConfig.model_validate({"environment": {"env_id": env_id}}).environment
    with closing(make_env(config)) as env:
        runner = LocalEnvRunner(env, dict.fromkeys(spec.possible_agents, "net"), controllers={"net": controller})
        return fmean(fmean(runner.run(900_000 + seed).returns.values()) for seed in range(episodes))


def seeds(count: int) -> list:
    """The first one in `make test`, the others in `make test-all`."""
    return [pytest.param(0, marks=pytest.mark.chosen), *range(1, count)]


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(8))
def test_cartpole_reaches_475(seed):
    with closing(trained("gym/CartPole-v1", seed, until=475).learner) as learner:
        assert learner.progress().return_mean >= 475


@pytest.mark.slow
@pytest.mark.parametrize(
    ("env_id", "gate", "seed", "until"),
    [
        ("gym/Acrobot-v1", -85.0, 0, None),
        ("gym/Acrobot-v1", -85.0, 1, None),
        ("gym/Acrobot-v1", -85.0, 2, None),
        pytest.param("gym/Pendulum-v1", -200.0, 0, -170.0, marks=pytest.mark.chosen),
        ("gym/Pendulum-v1", -200.0, 1, None),
        ("gym/Pendulum-v1", -200.0, 2, None),
    ],
)
def test_classic_control_reaches_its_gate(env_id, gate, seed, until):
    """With the whole preset; the chosen one stops once its mean return is well above the gate."""
    assembled = trained(env_id, seed, until)
    with closing(assembled.learner):
        assert greedy_return(assembled, env_id, episodes=100) >= gate


@pytest.mark.slow
@pytest.mark.timeout(900)  # half a minute of a core; a crowded machine needs longer
def test_lunar_lander_lands():
    assembled = trained("gym/LunarLander-v3", 0)
    with closing(assembled.learner):
        assert greedy_return(assembled, "gym/LunarLander-v3") >= 200


def losing_lines(assembled: Assembled) -> int:
    """Lines of play in which the greedy network loses at tic-tac-toe, from either side, whatever the other does."""
    game = tictactoe_game()
    states = np.arange(len(game.legal))
    cells = np.stack([(states // 3**cell) % 3 for cell in range(9)], axis=1)
    rows = np.stack([cells == 1, cells == 2], axis=2).reshape(len(states), 18).astype(np.float32)
    legal = game.legal.astype(np.uint8)
    legal[legal.sum(axis=1) == 0] = 1  # boards that are full
    model = build_model(assembled.architectures[0])
    shares = np.zeros((len(states), 9), np.float32)
    scratch = make_scratch(model, len(states))
    probabilities(assembled.learner.weights(0), model, rows, np.ascontiguousarray(legal), scratch, shares)
    return prove(game, shares).lost


@pytest.mark.slow
@pytest.mark.parametrize("seed", seeds(8))
def test_tictactoe_cannot_be_beaten_after_self_play(seed):
    config, options = prepared("classic/tictactoe_v3", seed)
    assembled = assemble(config, options)
    with closing(assembled.learner) as learner:
        lost = losing_lines(assembled)
        assert lost > 0, "an untrained network must lose somewhere"
        while lost and learner.env_steps < 2 * config.training.total_timesteps:
            for _ in range(50):
                learner.iterate()
            lost = losing_lines(assembled)
        assert lost == 0


def score_at_connect_four(assembled: Assembled, opponent: str, games: int) -> tuple[float, int]:
    """Share of games that the greedy network wins, assignment alternating, and how many of them were different."""
    learner, spec = assembled.learner, assembled.spec
    first, second = spec.possible_agents
    controller = NetworkPolicyController(
        assembled.architectures[0],
        learner.weights(0),
        {agent: row_code(spec.observation_spaces[agent]) for agent in spec.possible_agents},
        {agent: action_code(spec.action_spaces[agent]) for agent in spec.possible_agents},
    )
    won, seen = 0, set()
    with closing(make_env(spec.facts.config)) as env:
        for seat, other in ((first, second), (second, first)):
            runner = LocalEnvRunner(env, {seat: "net", other: opponent}, controllers={"net": controller})
            for seed in range(games // 2):
                episode = runner.run(seed)
                won += episode.returns[seat] > 0
                seen.add((seat, str(episode.actions)))
            runner.controllers.close()
    return won / games, len(seen)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_connect_four_beats_random_and_a_search_of_four_plies():
    assembled = trained("classic/connect_four_v3", 0)
    with closing(assembled.learner):
        assert score_at_connect_four(assembled, "random", 200)[0] >= 0.99
        wins, different = score_at_connect_four(assembled, "minimax:depth=4", 400)
        assert wins >= 0.75
        assert different >= 300
        strong, _ = score_at_connect_four(assembled, "minimax:depth=4,leaf=lines", 400)
        print(f"wins against the search that counts open lines: {strong:.0%}")


@pytest.mark.slow
def test_connect_four_learns_to_beat_random():
    """The beginning of a short run; the whole preset is checked in the test above."""
    assembled = trained("classic/connect_four_v3", 0, share=0.4, total_timesteps=3_000_000)
    with closing(assembled.learner):
        assert score_at_connect_four(assembled, "random", 100)[0] >= 0.95


@pytest.mark.slow
def test_spread_agents_learn_to_share_the_landmarks():
    """The beginning of a short run (the first rollout has -26); the whole preset is checked in the next test."""
    assembled = trained("mpe/simple_spread_v3", 0, share=0.5, total_timesteps=600_000)
    with closing(assembled.learner):
        assert greedy_return(assembled, "mpe/simple_spread_v3") >= -20


@pytest.mark.slow
def test_spread_agents_reach_the_gate():
    assembled = trained("mpe/simple_spread_v3", 0)
    with closing(assembled.learner):
        assert greedy_return(assembled, "mpe/simple_spread_v3", episodes=200) >= -9.5


@pytest.mark.slow
def test_predators_learn_against_learning_prey():
    """Predators catch more at the end than at the beginning, although the prey has learned to flee meanwhile."""
    config, options = prepared("mpe/simple_tag_v3", 0, total_timesteps=800_000)
    config = config.model_copy(update={"environment": config.environment.model_copy(update={"num_envs": 64})})
    options = options.model_copy(update={"n_steps": 25, "batch_size": 1200, "n_epochs": 4, "learning_rate": 1e-3,
                                         "gamma": 0.95, "ent_coef": 0.01, "activation": "relu"})  # fmt: skip
    assembled = assemble(config, options)
    with closing(assembled.learner) as learner:
        assert learner.plan.names == ("adversary", "agent")
        learner.iterate()
        before = [float(returns.mean()) for returns in learner.progress().returns]
        while learner.env_steps < 400_000:  # the prey has fled better since three quarters of it
            learner.iterate()
        after = [float(returns.mean()) for returns in learner.progress().returns]
    assert after[0] > before[0] + 5, f"predators: {before[0]} → {after[0]}"
