"""Episodes of external programs: which decisions are learned from, with which rewards, and what is dropped."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from gymnasium import spaces

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.turn import Turn
from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.learners.external.episodes import AgentRows, ExternalEpisodes, OpenDecision, RecordedDecision
from mosaic.policies.serving.messages import CallError

AGENTS = ("a", "b")


def spec() -> EnvSpec:
    seen = {"a": spaces.Box(-9, 9, (2,)), "b": spaces.Discrete(3, start=1)}
    acts = {"a": spaces.Discrete(2), "b": spaces.Discrete(4, start=1)}
    return EnvSpec(EnvFacts(EnvironmentConfig(env_id="external:5555")), AGENTS, seen, acts)


class Chooser:
    """Decisions that are numbered: the log-probability of the first is 0, of the second 1, …"""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, seen: Sequence[OpenDecision]) -> list[RecordedDecision]:
        made = []
        for each in seen:
            made.append(
                RecordedDecision(each.policy, each.obs, each.mask, np.ones(1, np.float32), logp=float(self.made))
            )
            self.made += 1
        return made


def episodes(*, whole: bool = False) -> ExternalEpisodes:
    return ExternalEpisodes(AgentRows(spec(), AGENTS), Chooser(), lambda: (0, 1), whole=whole)


def turn(
    observations: dict[str, object],
    rewards: dict[str, float] | None = None,
    *,
    terminated: Sequence[str] = (),
    truncated: Sequence[str] = (),
    finals: dict[str, object] | None = None,
) -> Turn:
    agents = AGENTS
    return Turn(
        observations,
        {},
        {agent: (rewards or {}).get(agent, 0.0) for agent in agents},
        {agent: agent in terminated for agent in agents},
        {agent: agent in truncated for agent in agents},
        {agent: (finals or {}).get(agent) for agent in (*terminated, *truncated)},
        {},
    )


SEES_A = {"a": np.array([1.0, 2.0], np.float32)}
SEES_B = {"b": 2}


def test_a_reward_belongs_to_the_last_decision_of_its_agent() -> None:
    played = episodes()
    played.start("x", 0, learns=True)
    played.act([("x", turn(SEES_A, {"a": 100.0}))])  # before its first decision: nothing earned it
    played.act([("x", turn(SEES_B, {"a": 1.0}))])
    played.act([("x", turn(SEES_A, {"a": 2.0, "b": 5.0}))])
    played.end("x", turn({}, {"a": 4.0, "b": 7.0}, terminated=AGENTS))

    taken = played.take()

    assert {each.of.agent: [one.reward for one in each.decisions] for each in taken.fragments} == {
        0: [3.0, 4.0],
        1: [12.0],
    }
    assert [each.paid for each in taken.ended[0].trajectories] == [7.0, 12.0]
    assert (taken.env_steps, taken.ended[0].steps) == (3, 3)


def test_actions_and_rows_are_those_of_the_agents_spaces() -> None:
    played = episodes()
    played.start("x", 0, learns=True)

    (answer,) = played.act([("x", turn({**SEES_A, **SEES_B}))])

    assert answer == {"a": 1, "b": 2}  # the same row: b's actions begin at 1
    played.act([("x", turn(SEES_B))])
    rows = [each.decisions[0] for each in played.take().fragments]
    assert [row.obs.tolist() for row in rows] == [[0.0, 1.0, 0.0]]  # b's 2 is the second of three; a has no outcome yet
    assert [row.mask.tolist() for row in rows] == [[1, 1, 1, 1]]


def test_a_decision_without_an_outcome_waits_for_it_over_an_update() -> None:
    played = episodes()
    played.start("x", 0, learns=True)
    played.act([("x", turn(SEES_A))])
    played.act([("x", turn(SEES_A, {"a": 1.0}))])

    first = played.take()
    played.act([("x", turn(SEES_A, {"a": 2.0}))])
    second = played.take()

    assert [[one.logp for one in each.decisions] for each in (*first.fragments, *second.fragments)] == [[0.0], [1.0]]
    assert [each.following.logp for each in (*first.fragments, *second.fragments) if each.following] == [1.0, 2.0]
    assert second.fragments[0].decisions[0].reward == 2.0
    assert (first.env_steps, second.env_steps, played.open_steps) == (1, 1, 0)


def test_an_episode_that_breaks_off_is_not_counted_and_its_rest_is_not_learned_from() -> None:
    played = episodes()
    for name in ("lost", "kept"):
        played.start(name, 0, learns=True)
        played.act([(name, turn(SEES_A))])
        played.act([(name, turn(SEES_A, {"a": 1.0}))])
    played.drop("lost")
    played.end("kept", turn({}, {"a": 1.0}, terminated=AGENTS))

    taken = played.take()

    assert (len(taken.fragments), len(taken.ended), taken.env_steps) == (1, 1, 2)
    assert [one.logp for one in taken.fragments[0].decisions] == [2.0, 3.0]
    assert len(played) == 0
    (refused,) = played.act([("lost", turn(SEES_A))])
    assert isinstance(refused, CallError)
    assert (refused.code, refused.retry) == ("episode_lost", "episode")


def test_whole_episodes_are_taken_when_they_are_over() -> None:
    played = episodes(whole=True)
    played.start("x", 0, learns=True)
    for _ in range(3):
        played.act([("x", turn(SEES_A, {"a": 1.0}))])

    assert played.open_steps == 0
    assert played.take() == ([], [], 0)
    assert played.longest == 2
    played.end("x", turn({}, {"a": 1.0}, terminated=AGENTS))
    assert played.open_steps == 3
    assert len(played.take().fragments[0].decisions) == 3


def test_a_truncated_agent_is_valued_by_its_last_observation_and_a_terminated_one_is_not() -> None:
    played = episodes()
    played.start("x", 0, learns=True)
    played.act([("x", turn({**SEES_A, **SEES_B}))])
    played.act([("x", turn(SEES_A, terminated=("b",), finals={"b": None}))])
    played.end("x", turn({}, truncated=("a",), finals={"a": np.array([3.0, 4.0], np.float32)}))

    finals = {each.of.agent: each.of.final for each in played.take().fragments}

    assert finals[0] is not None
    assert finals[0].tolist() == [3.0, 4.0, 0.0]
    assert finals[1] is None


def test_an_episode_that_is_not_for_training_gets_actions_and_nothing_else() -> None:
    played = episodes()
    played.start("x", 0, learns=False)
    assert played.act([("x", turn(SEES_A))]) == [{"a": 1}]
    played.act([("x", turn(SEES_A, {"a": 1.0}))])
    assert played.open_steps == 0
    played.end("x", turn({}, {"a": 1.0}, terminated=AGENTS))
    assert played.take() == ([], [], 0)


@pytest.mark.parametrize(
    ("observations", "problem"),
    [
        ({"a": np.array([np.inf, 0.0])}, "observation.a: a number that is not finite."),
        ({"b": 9}, r"observation.b: 9 is not in Discrete\(3, start=1\)."),
        ({"b": 0}, r"observation.b: 0 is not in Discrete\(3, start=1\)."),
    ],
)
def test_an_observation_outside_of_its_space_books_nothing(observations: dict[str, object], problem: str) -> None:
    played = episodes()
    played.start("x", 0, learns=True)
    played.act([("x", turn(SEES_A))])

    (refused,) = played.act([("x", turn(observations, {"a": 5.0}))])

    with pytest.raises(CallError, match=problem):
        raise refused if isinstance(refused, CallError) else AssertionError(refused)
    assert played.open_steps == 0
    played.act([("x", turn(SEES_A, {"a": 1.0}))])
    assert played.take().fragments[0].decisions[0].reward == 1.0


def test_logged_actions_are_rows_of_the_learner() -> None:
    played = episodes()
    played.start("x", 0, learns=True)
    played.log("x", turn(SEES_B), {"b": 4})
    played.end("x", turn({}, {"b": 1.0}, terminated=AGENTS))
    (fragment,) = played.take().fragments
    assert [one.act.tolist() for one in fragment.decisions] == [[3.0]]
    assert fragment.of.policy == 1


def test_places_of_ended_episodes_are_used_again() -> None:
    played = episodes()
    for name in ("x", "y", "z"):
        played.start(name, 0, learns=True)
    played.drop("y")
    played.start("w", 0, learns=True)
    assert sorted(episode.place for episode in played._running.values()) == [0, 1, 2]
