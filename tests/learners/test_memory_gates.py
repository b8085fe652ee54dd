"""Memory tasks need memory: a GRU reaches the known optimum, a minGRU what its docs say, a plain net its bound."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import numpy as np
import pytest

from mosaic.config.run import RunConfig
from mosaic.envs.catalog import make_env
from mosaic.envs.compiled.board_games.kuhn_poker import BET, NASH_VALUE, exploitability, game_value
from mosaic.envs.vector.encoding import action_code, row_code
from mosaic.learners.engines.fused_memory import FusedMemoryEngine
from mosaic.learners.ppo.build import assemble
from mosaic.models.architecture import Architecture
from mosaic.policies.torch_network import EnginePolicyController
from mosaic.workers.native.worker import NativePpoOptions
from mosaic.workers.resolution import resolve
from tests.envs.compiled.kuhn_strategies import strategy_of
from tests.learners.small_runs import learner

BATCH = {"n_steps": 64, "n_epochs": 4, "learning_rate": 4e-3, "learning_rate_schedule": "linear", "gamma": 0.5}
WITHOUT_MEMORY = {"recall": 1 / 2, "repeat_previous": 1 / 4, "reverse_sequence": 1 / 4, "count_recall": 5 / 18}
# Gates of a minGRU do not read its state: it hardly keeps the order in which symbols came.
MINGRU = {"recall": 0.95, "repeat_previous": 0.45, "reverse_sequence": 0.6, "count_recall": 0.75}


def reached(env_id: str, env_steps: int, memory: str | None, seed: int, goal: float = 2.0, **asked: Any) -> float:
    """Return the mean return of the last 100 episodes of training, at the latest after so many env steps."""
    options = {**BATCH, "batch_size": 256, "hidden": (32,), "memory": memory, "memory_size": 64}
    with learner(env_id, options, seed=seed, envs=32, total=env_steps, env_options=asked) as made:
        while made.env_steps < env_steps and (made.progress().return_mean or 0.0) < goal:
            made.iterate()
        return made.progress().return_mean or 0.0


@pytest.mark.parametrize(("memory", "low", "high"), [("gru", 0.95, 1.0), (None, 0.4, 0.62)])
def test_the_symbol_of_two_steps_ago(memory, low, high):
    assert low <= reached("mosaic/repeat_previous", 30_000, memory, 0, 0.95, lag=2, symbols=2) <= high


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("task", WITHOUT_MEMORY)
def test_a_gru_solves_every_task(task, seed):
    assert reached(f"mosaic/{task}", 300_000, "gru", seed, 0.95) >= 0.95


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("task", MINGRU)
def test_a_mingru_remembers_less(task, seed):
    assert reached(f"mosaic/{task}", 400_000, "mingru", seed, MINGRU[task]) >= MINGRU[task]


@pytest.mark.slow
@pytest.mark.parametrize("task", WITHOUT_MEMORY)
def test_no_plain_net_exceeds_what_is_possible_without_memory(task):
    """One deviation of a mean of 100 episodes with one question each is 0.05."""
    assert reached(f"mosaic/{task}", 100_000, None, 0) <= WITHOUT_MEMORY[task] + 0.15


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_kuhn_poker_is_played_near_its_equilibrium(seed):
    """The card is seen at the first decision alone, and the value of the game is exact, not played."""
    environment = {"env_id": "mosaic/kuhn_poker", "options": {"remember_card": True}}
    document = {"seed": seed, "environment": environment, "training": {"worker": "native"}}
    config = resolve(RunConfig.model_validate(document)).config  # with the preset, whose memory is a GRU
    made = assemble(config, NativePpoOptions.model_validate(config.training.params))
    with closing(made.learner) as trained:
        while trained.env_steps < config.training.total_timesteps:
            trained.iterate()
        bets = kuhn_strategy(made.architectures[0], trained.weights(0))
    assert game_value(bets) == pytest.approx(NASH_VALUE, abs=0.01)
    assert exploitability(bets) < 0.1


def kuhn_strategy(architecture: Architecture, weights: np.ndarray) -> np.ndarray:
    engine, spec = FusedMemoryEngine(architecture, 0), make_env("mosaic/kuhn_poker").spec
    engine.load(weights)
    rows = {agent: row_code(space) for agent, space in spec.observation_spaces.items()}
    actions = {agent: action_code(space) for agent, space in spec.action_spaces.items()}
    controller = EnginePolicyController(engine, rows, actions)

    def chance(agent, turns):
        controller.begin((agent,), 0)
        for turn in turns[:-1]:
            controller.act(turn)
        return controller.explain(turns[-1])[agent].probabilities[BET]

    return strategy_of(chance, remember_card=True)
