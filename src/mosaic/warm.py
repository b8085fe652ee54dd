"""Warm-up of the compiled caches: `python -m mosaic.warm`, part of `make test`."""

from __future__ import annotations

from time import perf_counter


def warm() -> float:
    """Compile everything that is compiled at first use; return the seconds it took, almost none with warm caches."""
    start = perf_counter()
    _search()
    _tables()
    _networks()
    return perf_counter() - start


def _search() -> None:
    from mosaic.policies.minimax.connect_four import EMPTY, best_moves

    best_moves(EMPTY, depth=1)


def _tables() -> None:
    from mosaic.config.sections import EnvironmentConfig
    from mosaic.envs.compiled.board_games.tictactoe import tictactoe_game
    from mosaic.envs.compiled.registry import find_twin
    from mosaic.learners.tabular.learner import TabularLearner
    from mosaic.learners.tabular.options import TabularOptions
    from mosaic.learners.tabular.training.twin import TwinTraining

    options, game = TabularOptions(), tictactoe_game()
    TwinTraining(game, "q_learning", options, 0).advance(10)
    TwinTraining(game, "q_learning", options, 0, "random").advance(10)
    for name in ("gym/FrozenLake-v1", "gym/Taxi-v3"):
        lake = find_twin(EnvironmentConfig.model_validate({"env_id": name}))
        assert lake is not None
        TwinTraining(lake, "q_learning", options, 0).advance(10)
    learner = TabularLearner(4, 2)
    learner.update(0, learner.select_action(0), 1.0, 1, False)


def _networks() -> None:
    """Compile rollout, update and one decision; envs with their own kernel add little."""
    from contextlib import closing

    from mosaic.config.run import RunConfig
    from mosaic.learners.dqn.build import assemble_dqn
    from mosaic.learners.dqn.options import DqnOptions
    from mosaic.learners.ppo.build import assemble
    from mosaic.learners.ppo.options import PpoOptions
    from mosaic.policies.network import NetworkPolicyController

    for name, paradigm in (("gym/CartPole-v1", "parameter_sharing"), ("classic/connect_four_v3", "self_play")):
        document = {"environment": {"env_id": name, "num_envs": 2}, "policy_configuration": paradigm}
        assembled = assemble(RunConfig.model_validate(document), PpoOptions(n_steps=4, batch_size=4, n_epochs=1))
        with closing(assembled.learner) as learner:
            learner.iterate()
            NetworkPolicyController(assembled.architectures[0], learner.weights(0), {}, {})
    cartpole = RunConfig.model_validate({"environment": {"env_id": "gym/CartPole-v1"}})
    with closing(assemble_dqn(cartpole, DqnOptions(learning_starts=4, batch_size=4, buffer_size=100)).learner) as dqn:
        dqn.iterate()


if __name__ == "__main__":
    print(f"compiled caches are warm ({warm():.1f} s)")
