"""Tables are examined on seeds that training never sees, the same every time, in every seat."""

import pytest

from mosaic.config.run import RunConfig
from mosaic.core.seeding import child_seed
from mosaic.policies.registry import load_policy
from mosaic.runners.local import LocalEnvRunner
from mosaic.workers.evaluation import evaluate_learners
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
