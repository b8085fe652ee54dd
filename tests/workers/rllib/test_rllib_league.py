"""When snapshots are taken, who sits where, and what games say: without Ray."""

from collections import Counter
from types import SimpleNamespace

import numpy as np
import pytest

from mosaic.core.errors import MosaicError
from mosaic.workers.rllib.self_play import LeagueManager, ModuleMapping, checksum
from tests.workers.rllib.rllib_setups import make_setup

AGENTS = ("player_1", "player_2")
NOTHING = np.zeros(0, np.float32)


def self_play_of(tmp_path, **said):
    self_play = LeagueManager(make_setup(tmp_path, "classic/tictactoe_v3", policy_configuration="self_play", **said))
    self_play.league.add(0, np.zeros(4, np.float32), NOTHING, NOTHING)
    return self_play


def game(winner, chair="player_1", rival="learner@0"):
    returns = {agent: 0.0 if winner is None else 1.0 if agent == winner else -1.0 for agent in AGENTS}
    policies = {agent: "learner" if agent == chair else rival for agent in AGENTS}
    return {"length": 7, "returns": returns, "played": {}, "policies": policies}


def episode():
    return SimpleNamespace(_custom_data={})


def test_without_rivals_the_learner_sits_everywhere():
    seats = ModuleMapping("learner", AGENTS, (), share=0.0)
    assert {seats(agent, episode()) for agent in AGENTS} == {"learner"}


def test_the_learner_plays_itself_in_its_share_and_else_changes_chairs():
    seats = ModuleMapping("learner", AGENTS, ("learner@0", "learner@9"), share=0.25, seed=3)
    seen = Counter()
    for _ in range(2000):
        one = episode()
        seen[tuple(seats(agent, one) for agent in AGENTS)] += 1
    assert seen.keys() == {
        ("learner", "learner"),
        *((("learner"), rival) for rival in ("learner@0", "learner@9")),
        *((rival, "learner") for rival in ("learner@0", "learner@9")),
    }
    assert 400 < seen["learner", "learner"] < 600
    assert all(300 < count < 450 for pair, count in seen.items() if pair != ("learner", "learner"))


def test_an_episode_keeps_its_seats():
    seats = ModuleMapping("learner", AGENTS, ("learner@0",), share=0.0)
    one = episode()
    first = [seats(agent, one) for agent in AGENTS]
    seats("player_1", episode())
    assert [seats(agent, one) for agent in AGENTS] == first


def test_the_same_seed_draws_the_same_seats():
    def drawn(seed):
        seats = ModuleMapping("learner", AGENTS, ("learner@0", "learner@9"), share=0.5, seed=seed)
        return [seats("player_1", episode()) for _ in range(50)]

    assert drawn(1) == drawn(1) != drawn(2)


def test_games_against_a_snapshot_are_booked_from_either_chair(tmp_path):
    self_play = self_play_of(tmp_path)
    self_play.book([game("player_1"), game("player_2", chair="player_2"), game(None), game("player_2")])
    assert self_play.league.snapshots[0].score.tolist() == [2.0, 1.0, 1.0]
    assert self_play.league.rating > 1500


def test_games_against_itself_and_against_those_who_left_say_nothing(tmp_path):
    self_play = self_play_of(tmp_path)
    self_play.book([game("player_1", rival="learner"), game("player_1", rival="learner@77")])
    assert self_play.league.snapshots[0].games == 0
    assert self_play.league.rating == 1500


def test_a_snapshot_is_due_after_a_twentieth_of_the_run(tmp_path):
    self_play = self_play_of(tmp_path)
    assert not self_play.is_due(99)
    assert self_play.is_due(100)


def test_steps_are_the_runs_own_since_rllibs_begin_anew_when_runners_are_lost(tmp_path, monkeypatch):
    self_play, taken = self_play_of(tmp_path), []
    monkeypatch.setattr(self_play, "_add", lambda algo, now: taken.append(now))
    monkeypatch.setattr(self_play, "_set_opponents", lambda algo, now: None)
    self_play.after_iteration(None, {"env_runners": {"num_env_steps_sampled_lifetime": 8}}, 108)
    assert taken == [108]


def test_a_snapshot_is_due_when_the_learner_wins_often_enough(tmp_path):
    self_play = self_play_of(tmp_path, params={"snapshot_win_rate": 0.75})
    self_play.book([game("player_1")] * 19)
    assert not self_play.is_due(10_000), "nineteen games are too few, and steps do not count where a rate is asked"
    self_play.book([game("player_2")] * 11)
    assert not self_play.is_due(10_000), "19 of 30"
    self_play.book([game("player_1")] * 14)
    assert self_play.is_due(10_000), "33 of 44"


SPREAD = ("agent_0", "agent_1", "agent_2")
BOUND = {"agent_1": "self@-100", "agent_2": "self@-1000"}


def test_agents_are_bound_to_the_snapshot_of_their_age_in_every_episode(tmp_path, monkeypatch):
    self_play = LeagueManager(
        make_setup(tmp_path, "mpe/simple_spread_v3", policy_configuration="self_play", agents=BOUND)
    )
    sent = []
    monkeypatch.setattr("ray.put", lambda weights: weights)
    monkeypatch.setattr(self_play, "_send", lambda algo, opponents: sent.append(opponents))
    monkeypatch.setattr("mosaic.workers.rllib.self_play.after_restore", lambda algo, action: action())
    for now in range(0, 2001, 100):
        self_play.league.add(now, np.zeros(4, np.float32), NOTHING, NOTHING)
        self_play._set_opponents(None, now)
    assert len(sent) == 2 * 21, "once more where a runner was restarted"
    for place, opponents in enumerate(sent):
        now = place // 2 * 100
        mapping, modules = opponents.mapping(3), set()
        for _ in range(50):
            one = episode()
            modules.add(tuple(mapping(agent, one) for agent in SPREAD))
        if now % 125 == 0 or now < 1000:
            old = f"learner@{max(0, now - 1000)}"
            assert modules == {("learner", f"learner@{max(0, now - 100)}", old)}
        ((_, near, far),) = modules
        assert set(opponents.rivals) == {near, far}
        assert now < 1000 or 1000 <= now - int(far.partition("@")[2]) <= 1250


def test_ages_take_snapshots_often_enough(tmp_path):
    agents = {"player_2": "self@-80"}
    assert self_play_of(tmp_path, agents=agents).is_due(10)
    assert not self_play_of(tmp_path, agents=agents).is_due(9)
    rate = self_play_of(tmp_path, agents=agents, params={"snapshot_win_rate": 0.75})
    assert rate.is_due(10)


def test_several_rivals_in_one_game_are_rated_each_by_itself(tmp_path):
    self_play = self_play_of(tmp_path)
    self_play.league.add(9, np.zeros(4, np.float32), NOTHING, NOTHING)
    policies = {"a": "learner", "b": "learner", "c": "learner@0", "d": "learner@9"}
    returns = {"a": 1.0, "b": 3.0, "c": 2.0, "d": 4.0}
    self_play.book([{"length": 7, "returns": returns, "played": {}, "policies": policies}])
    assert [snapshot.score.tolist() for snapshot in self_play.league.snapshots] == [[1, 0, 0], [0, 0, 1]]


def test_a_snapshot_that_changed_is_an_error(tmp_path):
    self_play = self_play_of(tmp_path)
    self_play._shapes = {"weight": (2, 2)}
    kept = checksum({"weight": np.zeros((2, 2), np.float32)})
    self_play._check_frozen({"learner@0": kept})
    with pytest.raises(MosaicError, match="The snapshot learner@0 has changed in an env runner"):
        self_play._check_frozen({"learner@0": kept + 1})
