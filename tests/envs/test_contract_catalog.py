"""Every installed env keeps the contract."""

from __future__ import annotations

import pytest

from mosaic.envs.adapters.pettingzoo import from_pettingzoo
from mosaic.envs.catalog import make_env
from mosaic.envs.env import EnvFacts
from mosaic.testing import check_env
from mosaic.testing.toys import Alternating, Fading
from tests.envs.env_cases import IDS, WATERWORLD, steps_for


def test_the_catalog_is_installed():
    assert len(IDS) >= 40


@pytest.mark.parametrize("env_id", IDS)
def test_contract(env_id):
    steps = steps_for(env_id, 25, 120)
    report = check_env(lambda: make_env(env_id), steps=steps)
    assert report.env_id == env_id
    assert 1 <= report.env_steps <= steps
    assert (report.picture is None) == (env_id == "classic/hanabi_v5")
    masked = (env_id.startswith("classic/") and env_id != "classic/rps_v2") or env_id == "mosaic/tictactoe"
    assert report.masked == masked
    assert report.reproducible == (env_id != WATERWORLD)


def test_the_report_tells_of_each_agent():
    report = check_env(Fading)
    rows = [(row.agent, row.env_steps, row.episode_return, row.end) for row in report.agents]
    assert rows == [("a", 2, 3.0, "terminated"), ("b", 4, 10.0, "truncated"), ("c", 3, 9.0, "terminated")]
    assert {(row.observation, row.action) for row in report.agents} == {("Discrete(100)", "Discrete(3)")}
    assert (report.env_steps, report.episodes_ended, report.picture) == (4, 2, (4, 6))
    assert report.env_id == "python:mosaic.testing.toys:Fading"
    assert not report.turn_based
    assert not report.masked


def test_an_agent_that_outlives_the_check_has_no_end():
    report = check_env(Alternating, steps=1)
    assert [(row.env_steps, row.end) for row in report.agents] == [(1, None), (0, None)]
    assert report.episodes_ended == 0
    assert report.turn_based
    assert report.competitive


@pytest.mark.parametrize(("face", "steps"), [("generated_agents_parallel_v0", 400), ("generated_agents_env_v0", 1500)])
def test_agents_without_names_ahead_are_born_and_die(face, steps):
    from pettingzoo.test import example_envs

    module = getattr(example_envs, face)
    raw = getattr(module, "parallel_env", None) or module.env
    facts = EnvFacts(turn_based=not hasattr(module, "parallel_env"), reproducible=False)  # reset(None) re-seeds itself
    report = check_env(lambda: from_pettingzoo(raw(), facts), steps=steps, seeds=(1,))
    ends = [row.end for row in report.agents]
    assert len(ends) > 15
    assert ends.count("terminated") > 5
