"""Small forms of the gates of benchmarks/imitation.py: a clone of perfect tic-tac-toe, and interventions."""

import numpy as np
import pytest

from mosaic.config.run import RunConfig
from mosaic.core.turn import Turn
from mosaic.envs.catalog import make_env
from mosaic.learners.dqn.build import assemble_dqn
from mosaic.learners.dqn.options import DqnOptions
from mosaic.policies.minimax import tictactoe
from mosaic.runners.local import LocalEnvRunner
from mosaic.runners.trajectories import TrajectoryRecorder
from tests.learners.bc.bc_cases import TICTACTOE, cloner

WORLD = {"env_id": "mosaic/gridworld", "options": {"map": "S..../.###./.#.../.#.#./...#G", "max_steps": 40}}
MOVES = {row * 5 + column: 1 for row in range(4) for column in (0, 4)} | dict.fromkeys(range(4), 2)


def record(env, seed, mapping, then, steps, **controllers):
    """Return the trajectories of an episode in which `then` takes every agent's place after some env steps."""
    runner, recorder = LocalEnvRunner(env, mapping, controllers=controllers), TrajectoryRecorder(env)
    for turn in runner.turns(seed):
        recorder.note(turn, runner.record)
        if 0 < runner.record.env_steps == steps:
            for agent in env.possible_agents:
                runner.set_policy_for_agent(agent, then)
    return recorder.trajectories()


def test_a_clone_of_minimax_plays_optimal_moves_in_games_that_it_has_not_seen():
    env = make_env(TICTACTOE)
    recorded = [
        (number, each)
        for number in range(120)
        for each in record(env, number, {"*": "random" if number % 4 else "minimax"}, "minimax", number % 4)
    ]
    weights = {"minimax": 1, "*": 0}
    with cloner(TICTACTOE, recorded, hidden=(64,), controller_weights=weights, held_out=0.2, n_epochs=30) as learner:
        while learner.finished() is None:
            learner.iterate()
        (clone,) = learner.clones
        held_out = clone.data.held_out
        chosen = clone._chosen(held_out)[:, 0].astype(int)
        boards, masks = np.asarray(clone.data.rows.obs[held_out]), clone.data.rows.mask[held_out]
    good = [
        move in tictactoe.judge(tictactoe.read_board(board.reshape(3, 3, 2)), mask.nonzero()[0].tolist()).moves
        for board, mask, move in zip(boards, masks, chosen, strict=True)
    ]
    assert len(good) > 50
    assert np.mean(good) > 0.8  # by chance 0.55; the benchmark demands 0.97 of 2,000 games


class Expert:
    """Person of the corridor: right along the top, then down."""

    def begin(self, agents, seed):
        pass

    def act(self, turn: Turn):
        return {agent: MOVES.get(int(seen), 2) for agent, seen in turn.observations.items()}

    def close(self):
        pass


def steps_to_goal(recorded, **options):
    given = {"hidden": (32,), "learning_rate": 1e-3, "learning_starts": 100, "train_freq": 1, "gamma": 0.97, **options}
    given["target_update_interval"] = 100
    config = {"seed": 1, "environment": WORLD, "training": {"total_timesteps": 8_000, "algorithm": "dqn"}}
    learner = assemble_dqn(RunConfig.model_validate(config), DqnOptions.model_validate(given), 0, recorded).learner
    while learner.env_steps < 8_000 and not (
        learner.progress().episodes >= 20 and learner.progress().return_mean > 0.8
    ):
        learner.iterate()
    learner.close()
    return learner.env_steps


@pytest.mark.slow
def test_interventions_need_a_third_of_the_steps():
    env = make_env(WORLD["env_id"], **WORLD["options"])
    recorded = [(n, each) for n in range(8) for each in record(env, n, {"*": "random"}, "human", 3, human=Expert())]
    assert any(each.total > 0 for _, each in recorded)
    taught = {"dataset": "demo:test", "controller_weights": {"human": 1, "*": 0}, "demo_pretrain": 300}
    helped = steps_to_goal(recorded, **taught, exploration_initial_eps=0.1)
    assert 3 * helped < steps_to_goal(())
