"""The learner against a league of its past, in RLlib's env runners."""

from contextlib import contextmanager

import numpy as np
import pytest

from mosaic.core.errors import MosaicError
from mosaic.workers.rllib.reporting.episodes import records_of
from mosaic.workers.rllib.self_play import LeagueManager
from tests.workers.rllib.rllib_setups import make_setup

TICTACTOE = "classic/tictactoe_v3"

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray")]


@contextmanager
def league(tmp_path, algorithm="ppo", state=None, runners=0, env=TICTACTOE, agents=None, **params):
    from mosaic.workers.rllib.config.build import configure

    params = {"snapshot_every_steps": 100, **({} if agents else {"selfplay_share": 0.2}), **params}
    said = {"policy_configuration": "self_play", "params": params, "agents": agents or {}}
    setup = make_setup(tmp_path, env, algorithm, runners, **said)
    self_play = LeagueManager(setup)
    algo = configure(setup, self_play.mapping()).build_algo()
    try:
        if state is None:
            self_play.begin(algo)
        yield self_play, algo
    finally:
        algo.stop()


def go_on(self_play, algo, iterations=1):
    for _ in range(iterations):
        result = algo.train()
        told = self_play.after_iteration(algo, result, steps_of(algo))
    return told


def steps_of(algo):
    return int(algo.metrics.peek(("env_runners", "num_env_steps_sampled_lifetime"), default=0))


def weights_of(algo, module):
    state = algo.env_runner.module[module].get_state(inference_only=True)
    return {name: value.copy() for name, value in state.items()}


def equal(first, second):
    return all(np.array_equal(first[name], second[name]) for name in first)


@pytest.mark.chosen
def test_snapshots_stay_as_they_were_while_the_learner_learns(tmp_path):
    with league(tmp_path) as (self_play, algo):
        first = weights_of(algo, "learner@0")
        assert equal(first, weights_of(algo, "learner"))
        told = go_on(self_play, algo)
        second = f"learner@{self_play.league.snapshots[-1].env_steps}"
        later = weights_of(algo, second)
        assert not equal(first, later)
        assert equal(later, weights_of(algo, "learner"))
        told = go_on(self_play, algo)
        assert equal(first, weights_of(algo, "learner@0"))
        assert equal(later, weights_of(algo, second))
        assert not equal(later, weights_of(algo, "learner"))
        assert set(algo.learner_group._learner.module.keys()) == {"learner"}
    assert told["league_size"] == 3
    assert told["league_ratings"][0] == 1500.0
    assert told["rating/learner"] == self_play.league.rating != 1500.0
    assert sum(snapshot.games for snapshot in self_play.league.snapshots) > 5


@pytest.mark.chosen
def test_what_snapshots_do_does_not_reach_the_learner(tmp_path):
    with league(tmp_path, selfplay_share=0.0) as (self_play, algo):
        learner = algo.learner_group._learner
        make, seen = learner._make_batch_if_necessary, []

        def watched(training_data):
            sat = [own.module_id for episode in training_data.episodes for own in episode.agent_episodes.values()]
            steps = sum(
                len(own)
                for episode in training_data.episodes
                for own in episode.agent_episodes.values()
                if own.module_id == "learner"
            )
            batch = make(training_data)
            seen.append(
                (set(sat), steps, {name: int(r["loss_mask"].sum()) for name, r in batch.policy_batches.items()})
            )
            return batch

        learner._make_batch_if_necessary = watched
        go_on(self_play, algo)
    ((sat, steps, rows),) = seen
    assert sat == {"learner", "learner@0"}
    assert rows == {"learner": steps}


def test_a_league_goes_on_where_it_was(tmp_path):
    with league(tmp_path) as (self_play, algo):
        go_on(self_play, algo, 2)
        kept = self_play.state()
        names = [name for name in algo.env_runner.module.keys() if name != "learner"]  # noqa: SIM118
        weights = {name: weights_of(algo, name) for name in names}
        algo.save_to_path(str(tmp_path / "kept"))
    with league(tmp_path, state=kept) as (again, algo):
        assert set(algo.env_runner.module.keys()) == {"learner"}
        algo.restore_from_path(str(tmp_path / "kept"))
        again.restore(algo, kept, steps_of(algo))
        assert again.league.facts() == self_play.league.facts()
        assert again.league.rating == self_play.league.rating
        assert all(equal(weights[name], weights_of(algo, name)) for name in names)
        before = len(again.league.snapshots)
        told = go_on(again, algo)
        assert told["league_size"] == before + 1, "steps are counted on, so that the next snapshot is due"


def test_a_snapshot_that_somebody_changes_is_noticed(tmp_path):
    import torch

    with league(tmp_path) as (self_play, algo):
        with torch.no_grad():
            next(algo.env_runner.module["learner@0"].pi.parameters()).add_(1e-3)
        with pytest.raises(MosaicError, match="The snapshot learner@0 has changed in an env runner"):
            go_on(self_play, algo)


def test_a_runner_that_was_started_anew_catches_up(tmp_path):
    with league(tmp_path) as (self_play, algo):
        kept = weights_of(algo, "learner@0")
        algo.env_runner.module.remove_module("learner@0")
        algo.env_runner.config.multi_agent(policy_mapping_fn=self_play.mapping())
        go_on(self_play, algo)
        assert equal(kept, weights_of(algo, "learner@0"))
        go_on(self_play, algo)
        assert self_play.league.snapshots[0].games > 0


def test_those_who_left_the_league_leave_the_runners_after_their_last_game(tmp_path):
    with league(tmp_path, league_size=2, league_sampling="latest") as (self_play, algo):
        go_on(self_play, algo, 4)
        newest = f"learner@{self_play.league.snapshots[-1].env_steps}"
        seated = {name for name in algo.env_runner.module.keys() if name != "learner"}  # noqa: SIM118
        assert newest in seated
        assert len(seated) <= 3, "the newest, and one more for each of the two games that go on"
        assert self_play.league.snapshots[0].env_steps == 0


@pytest.mark.parametrize("algorithm", ["ppo", "impala"])
def test_a_league_plays_in_processes_of_their_own(tmp_path, algorithm):
    with league(tmp_path, algorithm, runners=1, snapshot_every_steps=50) as (self_play, algo):
        for _ in range(300):  # some iterations of IMPALA come back with nothing
            go_on(self_play, algo)
            if sum(snapshot.games for snapshot in self_play.league.snapshots) > 3:
                break
        names = algo.env_runner_group.foreach_env_runner(
            lambda runner: set(runner.module.keys()), local_env_runner=False
        )
        assert "learner@0" in names[0]
        assert sum(snapshot.games for snapshot in self_play.league.snapshots) > 3


@pytest.mark.parametrize(("algorithm", "runners"), [("ppo", 0), ("impala", 1)])
def test_bound_agents_are_played_by_the_snapshot_of_their_age_in_every_episode(tmp_path, algorithm, runners):
    agents, seen, batches = {"agent_1": "self@-100", "agent_2": "self@-400"}, [], []
    with league(tmp_path, algorithm, runners=runners, env="mpe/simple_spread_v3", agents=agents) as (self_play, algo):
        for _ in range(300):
            begun = steps_of(algo)
            result = algo.train()
            seen += [(begun, record["policies"]) for record in records_of(result)]
            self_play.after_iteration(algo, result, steps_of(algo))
            batches.append(steps_of(algo) - begun)
            if begun > 1500 and len(seen) > 20:
                break
    assert len(seen) > 20
    assert {policies["agent_0"] for _, policies in seen} == {"learner"}
    episode, batch = 25, max(batches)  # of each of the two envs
    for agent, age in (("agent_1", 100), ("agent_2", 400)):
        for ended, policies in seen:
            name, _, taken = policies[agent].partition("@")
            assert name == "learner"
            assert taken == "0" or ended - int(taken) >= age - batch
            assert ended < age + 2 * batch or ended + batch - int(taken) <= 1.25 * age + 4 * batch + 2 * episode
        assert len({policies[agent] for _, policies in seen}) > 3
