"""A program, a server and a language model take any agent's place: they play, are evaluated and play tournaments."""

from __future__ import annotations

import pytest

import mosaic
from mosaic.testing.duel import CONSTANT, Duel, duel
from mosaic.testing.worker.opponents import served_opponents

AGENTS = ("a", "b", "c", "d")


@pytest.fixture(scope="module")
def opponents(tmp_path_factory):
    with served_opponents(tmp_path_factory.mktemp("opponents")) as made:
        yield made


def test_they_play_one_episode_together_with_a_policy_of_this_process(opponents):
    mapping = dict(zip(AGENTS, (*opponents, CONSTANT), strict=True))
    episode = mosaic.play_episode(Duel(agents=4), mapping, seed=1)
    assert dict(episode.policies) == mapping
    assert episode.actions == [dict.fromkeys(AGENTS, 2)] * 4
    assert set(episode.returns.values()) == {4 * (2 + 3 * 20)}


def test_they_are_evaluated(opponents):
    policies = dict(zip(AGENTS, (*opponents, "random"), strict=True))
    result = mosaic.evaluate(duel(agents=4), policies, episodes=2)
    assert {agent: row.policy for agent, row in result.agents.items()} == policies
    assert result.agents["d"].returns.mean >= 4 * 3 * 20
    assert not result.reproducible
    assert [agent for agent, row in result.agents.items() if row.reports] == ["c"]
    assert {"illegal", "retries", "latency_s"} <= result.agents["c"].reports.keys()


def test_they_play_a_tournament(opponents):
    """Of rock, paper, scissors, in which all of them play scissors: only their errors or other moves would score."""
    result = mosaic.tournament("classic/rps_v2", [*opponents], games=1).to_json()
    assert {(pair["first"], pair["second"], pair["score_mean"]) for pair in result["pairs"]} == {
        (first, second, 0.5) for first in opponents for second in opponents if first != second
    }
    reports = {row["policy"]: row["reports"] for row in result["policies"]}
    illegal = reports[opponents[2]]["illegal"]
    assert (illegal["total"], illegal["ci95"][0], illegal["ci95"][1] > 0) == (0, 0.0, True)
    assert reports[opponents[0]] == reports[opponents[1]] == {}
