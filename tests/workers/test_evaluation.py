"""Tables are examined on seeds that training never sees, the same every time, in every seat."""

import pytest

from mosaic.config.run import RunConfig
from mosaic.core.seeding import child_seed
from mosaic.learners.episode_mapping import EpisodeMapping
from mosaic.policies.registry import load_policy
from mosaic.runners.local import LocalEnvRunner
from mosaic.testing.worker.plays import missing_names
from mosaic.workers.evaluation import LeaguePlayers, PoliciesByEpisode, evaluate_learners, spread
from mosaic.workers.loop import is_due


def config(env_id, **evaluation):
    return RunConfig.model_validate({"environment": {"env_id": env_id}, "seed": 5, "evaluation": evaluation})


@pytest.fixture
def seeds(monkeypatch):
    """Of the episodes that were played, and who sat where."""
    played = []
    turns = LocalEnvRunner.turns

    def listening(self, seed, **more):
        yield from turns(self, seed, **more)
        played.append((seed, dict(self.record.policies)))

    monkeypatch.setattr(LocalEnvRunner, "turns", listening)
    return played


def random_player(spec, agent):
    return load_policy("random", spec, (agent,), seed=1)


def test_seeds_are_fixed_distinct_and_none_of_trainings(seeds):
    asked = config("gym/FrozenLake-v1", episodes=6)
    first, again = list(evaluate_learners(asked, random_player)), list(evaluate_learners(asked, random_player))
    assert first == again
    assert first[0]["episodes"] == 6
    numbers = [seed for seed, _ in seeds]
    assert numbers[:6] == numbers[6:]
    assert len(set(numbers)) == 6
    assert not set(numbers) & {child_seed(5, "tabular", "train", episode) for episode in range(10_000)}
    more = config("gym/FrozenLake-v1", episodes=8)
    list(evaluate_learners(more, random_player))
    assert [seed for seed, _ in seeds][12:18] == numbers[:6]  # more episodes are the same ones and others


def test_each_opponent_is_met_from_every_seat(seeds):
    asked = config("classic/tictactoe_v3", episodes=5, opponents=["random", "minimax"])
    records = list(evaluate_learners(asked, random_player))
    assert [record["opponent"] for record in records] == ["random", "minimax"]
    assert [record["wins"] + record["draws"] + record["losses"] for record in records] == [5, 5]
    assert records[1]["wins"] == 0
    seats = [next(agent for agent, policy in policies.items() if "learns" in policy) for _, policies in seeds]
    assert seats == ["player_1"] * 3 + ["player_2"] * 2 + ["player_1"] * 3 + ["player_2"] * 2
    assert sorted(seed for seed, _ in seeds[:5]) == sorted(seed for seed, _ in seeds[5:])


def test_opponents_take_the_places_of_fixed_policies_where_one_agent_learns(seeds):
    asked = config("classic/tictactoe_v3", episodes=2, opponents=["minimax"])
    (record,) = evaluate_learners(asked, random_player, {"player_1": "random"})
    assert record["opponent"] == "minimax"
    assert [policies["player_1"] for _, policies in seeds] == ["minimax", "minimax"]


def test_without_an_opponent_the_tables_play_each_other(seeds):
    (record,) = evaluate_learners(config("classic/tictactoe_v3", episodes=2), random_player)
    assert "opponent" not in record
    assert all("learns" in policy for _, policies in seeds for policy in policies.values())


@pytest.mark.parametrize("opponents", [[], ["random", "minimax"]])
def test_a_stop_ends_it_between_two_steps_and_nothing_is_told(seeds, opponents):
    asked, steps = config("classic/tictactoe_v3", episodes=5, opponents=opponents), []
    assert list(evaluate_learners(asked, random_player, stopped=lambda: steps.append(1) or len(steps) > 12)) == []
    assert len(seeds) in (1, 2)  # whole games among twelve positions
    assert len(steps) < 20


def test_it_is_due_at_the_same_places_for_a_run_that_was_left():
    assert not is_due(0, 9, 10)
    assert is_due(9, 10, 10)
    assert is_due(5, 25, 10)
    assert not is_due(10, 19, 10)
    assert not is_due(0, 10**9, None)


def test_every_agent_and_policy_is_named_with_its_rewards():
    asked = config("mpe/simple_tag_v3", episodes=2)
    policy_of = {"adversary_0": "hunters", "adversary_1": "hunters", "agent_0": "prey"}
    (record,) = evaluate_learners(asked, random_player, {"adversary_2": "random"}, policy_of=policy_of)
    assert {agent: facts["policy"] for agent, facts in record["agents"].items()} == {
        **policy_of,
        "adversary_2": "random",
    }
    assert record["agents"]["agent_0"]["others"] == {
        "adversary_0": "hunters",
        "adversary_1": "hunters",
        "adversary_2": "random",
    }
    assert {name: facts["episodes"] for name, facts in record["policies"].items()} == {
        "random": 2,
        "hunters": 4,
        "prey": 2,
    }
    means = {agent: facts["reward_mean"] for agent, facts in record["agents"].items()}
    assert record["policies"]["hunters"]["reward_mean"] == pytest.approx(
        (means["adversary_0"] + means["adversary_1"]) / 2
    )
    assert record["policies"]["prey"]["reward_mean"] == means["agent_0"] != means["adversary_0"]
    learning = [means[agent] for agent in policy_of]
    assert record["episode_reward_mean"] == pytest.approx(sum(learning) / 3)


def in_turns(agent, episode):
    """Let `even` meet `random`, and `odd` meet `minimax`."""
    return (("even", "random"), ("odd", "minimax"))[episode % 2][agent == "player_2"]


def by_episode(made):
    mapping = f"python:{__name__}:in_turns"

    def make(spec, agent, policy):
        made.append((agent, policy))
        return random_player(spec, agent)

    return PoliciesByEpisode(
        EpisodeMapping(mapping, {"player_1": ("even", "odd")}),
        EpisodeMapping(mapping, {"player_2": ("random", "minimax")}),
        make,
    )


def test_policies_are_those_of_each_episode_and_the_record_names_all_that_played(seeds):
    made = []
    fixed, names = {"player_2": "random"}, {"player_1": "even"}
    asked = config("classic/tictactoe_v3", episodes=5)
    (record,) = evaluate_learners(asked, random_player, fixed, policy_of=names, by_episode=by_episode(made))
    assert made == [("player_1", "even"), ("player_1", "odd")]
    assert {name: facts["episodes"] for name, facts in record["policies"].items()} == {
        "even": 3, "random": 3, "odd": 2, "minimax": 2,
    }  # fmt: skip
    assert record["policies"]["odd"]["wins"] == 0 < record["policies"]["minimax"]["wins"]
    first = record["agents"]["player_1"]
    assert (first["policy"], first["policies"], first["episodes"]) == ("even, odd", ["even", "odd"], 5)
    assert first["others"] == {"player_2": "random, minimax"}
    assert missing_names(record, ("player_1", "player_2"), ("even", "odd")) == []
    played = {(policies["player_1"], policies["player_2"]) for _, policies in seeds}
    assert played == {
        ("even, which learns, for player_1", "random"),
        ("odd, which learns, for player_1", "minimax"),
    }


def test_an_opponent_of_the_evaluation_replaces_the_fixed_policies_of_all_episodes():
    asked = config("classic/tictactoe_v3", episodes=4, opponents=["minimax"])
    fixed, names = {"player_2": "random"}, {"player_1": "even"}
    (record,) = evaluate_learners(asked, random_player, fixed, policy_of=names, by_episode=by_episode([]))
    assert {name: facts["episodes"] for name, facts in record["policies"].items()} == {
        "even": 2, "odd": 2, "minimax": 4,
    }  # fmt: skip


def test_names_come_from_the_mapping_where_the_worker_gives_none():
    (record,) = evaluate_learners(config("classic/tictactoe_v3", episodes=1), random_player)
    assert {facts["policy"] for facts in record["agents"].values()} == {"shared"}


def test_an_agents_own_results_are_of_the_episodes_in_which_it_learns():
    asked = config("classic/tictactoe_v3", episodes=5, opponents=["minimax"])
    (record,) = evaluate_learners(asked, random_player)
    first, second = record["agents"]["player_1"], record["agents"]["player_2"]
    assert (first["policy"], first["others"], first["episodes"]) == ("shared", {"player_2": "minimax"}, 3)
    assert (second["policy"], second["others"], second["episodes"]) == ("shared", {"player_1": "minimax"}, 2)
    assert first["losses"] + second["losses"] == record["losses"] > 0
    assert record["policies"]["minimax"]["wins"] == record["losses"]
    assert record["win_rate"] == record["policies"]["shared"]["win_rate"] == record["against"]["minimax"]["win_rate"]
    assert record["policies"]["minimax"]["win_rate"] > 0.5


def self_play(**evaluation):
    return config("classic/tictactoe_v3", **evaluation).model_copy(update={"policy_configuration": "self_play"})


def snapshots(names, made, bound=None):
    def make(spec, agent, name):
        made.append((name, agent))
        return load_policy("minimax", spec, (agent,))

    return LeaguePlayers(names, make, bound or {})


def test_self_play_is_evaluated_against_the_league(seeds):
    made = []
    (record,) = evaluate_learners(self_play(episodes=7), random_player, league=snapshots(["a", "b", "c", "d"], made))
    assert record["opponent"] == "league"
    assert {agent: facts["policy"] for agent, facts in record["agents"].items()} == {
        "player_1": "learner",
        "player_2": "learner",
    }
    assert record["agents"]["player_2"]["others"] == {"player_1": "league"}
    assert record["policies"].keys() == {"learner", "league"}
    assert [entry["snapshot"] for entry in record["snapshots"]] == ["a", "b", "c", "d"]
    assert sum(entry["episodes"] for entry in record["snapshots"]) == record["episodes"] == 7
    assert [sum("learns" in policy for policy in policies.values()) for _, policies in seeds] == [1] * 7
    assert sorted(made) == sorted([(name, "player_2") for name in "abcd"] + [(name, "player_1") for name in "abd"])


def test_without_a_league_self_play_is_evaluated_against_random(seeds):
    for league in (None, snapshots([], [])):
        (record,) = evaluate_learners(self_play(episodes=2), random_player, league=league)
        assert record["opponent"] == "random"
        assert record["policies"].keys() == {"learner", "random"}
    assert [list(policies.values()).count("random") for _, policies in seeds] == [1] * 4


def test_a_given_opponent_replaces_the_league():
    made = []
    asked = self_play(episodes=2, opponents=["minimax", "random"])
    records = list(evaluate_learners(asked, random_player, league=snapshots(["a"], made)))
    assert [record["opponent"] for record in records] == ["minimax", "random"]
    assert made == []


@pytest.mark.parametrize(("opponents", "policy"), [([], "self@-500"), (["random"], "random")])
def test_bound_agents_are_played_by_their_snapshot_or_by_the_given_opponent(opponents, policy):
    made = []
    league = snapshots(["a", "b"], made, {"player_1": ("self@-500", "a")})
    (record,) = evaluate_learners(self_play(episodes=3, opponents=opponents), random_player, league=league)
    assert {agent: facts["policy"] for agent, facts in record["agents"].items()} == {
        "player_1": policy,
        "player_2": "learner",
    }
    assert record["agents"]["player_2"]["episodes"] == 3
    assert made == ([] if opponents else [("a", "player_1")])


def test_snapshots_of_all_ages_play():
    names = [str(number) for number in range(20)]
    assert spread(names, 5) == ["0", "4", "9", "14", "19"]
    assert spread(names, 1) == spread(names, 0) == ["19"]
    assert spread(names[:3], 9) == names[:3]
