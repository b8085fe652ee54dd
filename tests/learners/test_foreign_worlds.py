"""Envs and opponents that are nobody's twin: an engine in chess, agents that die one after another."""

import numpy as np
import pytest

from mosaic.policies.uci.options import INSTALL_STOCKFISH, find_program
from tests.learners.small_runs import learner, self_play

CHESS, KNIGHTS = "classic/chess_v6", "butterfly/knights_archers_zombies_v10"
ENGINE = "stockfish:depth=1"


@pytest.mark.slow
@pytest.mark.skipif(find_program("stockfish") is None, reason=f"Stockfish is not installed: {INSTALL_STOCKFISH}")
def test_stockfish_is_an_opponent_of_the_league():
    options = {"opponents": (ENGINE, "self@-1"), "selfplay_share": 0.25, "n_steps": 64}
    with self_play(options, CHESS) as made:
        before = made.weights(0)
        while made.env_steps < 1024:
            made.iterate()
        metrics = made.league.metrics()
        assert metrics[f"win_rate/{ENGINE}"] < 0.1
        assert metrics[f"rating/{ENGINE}"] > made.league.rating
        assert np.isfinite(made.weights(0)).all()
        assert not np.array_equal(made.weights(0), before)


@pytest.mark.slow
@pytest.mark.chosen
def test_agents_that_die_are_waited_for_and_teach_nothing_meanwhile():
    with learner(KNIGHTS, {"n_steps": 64}, envs=4) as made:
        vector, waited = made.workers[0].vector, 0
        step = vector.step

        def watched(act):
            nonlocal waited
            step(act)
            waited += int((vector.active == 0).sum())

        vector.step = watched
        while made.env_steps < 1024:
            made.iterate()
        progress = made.progress()
        still_waiting = int((vector.active == 0).sum())
        assert waited > still_waiting
        assert progress.agent_steps == 4 * progress.env_steps - (waited - still_waiting)
        assert progress.episodes > 0
        assert np.isfinite(made.weights(0)).all()
