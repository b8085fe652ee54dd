"""Pictures of the particle worlds: each agent's person sees what that agent may know, and drawing changes nothing."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from mosaic import make_env
from mosaic.core.ids import AgentID
from mosaic.envs.agent_places import agent_places
from mosaic.envs.env import Env, innermost
from mosaic.envs.private_pictures import draws_for_agents, picture_for

SEES_ALL = {
    "mpe/simple_adversary_v3": {"agent_0", "agent_1"},
    "mpe/simple_push_v3": {"agent_0"},
    "mpe/simple_crypto_v3": {"alice_0"},
    "mpe/simple_reference_v3": set[str](),
    "mpe/simple_speaker_listener_v4": {"speaker_0"},
}


def drawn(env: Env, agent: AgentID | None) -> NDArray[np.uint8]:
    picture = picture_for(env, agent)
    assert picture is not None
    return picture


@pytest.mark.parametrize("env_id", SEES_ALL)
def test_secret_goals_are_drawn_for_those_who_know_them(env_id: str) -> None:
    env = make_env(env_id)
    env.reset(3)
    assert draws_for_agents(env)
    assert env.spec.facts.hidden_information
    before = env.render()
    for agent in (None, *env.possible_agents):
        assert np.array_equal(drawn(env, agent), before) == (agent in SEES_ALL[env_id]), agent
    assert np.array_equal(env.render(), before)
    env.close()


def test_what_is_drawn_does_not_depend_on_the_secret() -> None:
    env = make_env("mpe/simple_speaker_listener_v4")
    env.reset(0)
    world = innermost(env).world
    pictures = []
    for landmark in world.landmarks:
        world.agents[1].color = landmark.color + 0.45
        pictures.append(drawn(env, "listener_0"))
    env.close()
    assert np.array_equal(pictures[0], pictures[1])
    assert np.array_equal(pictures[1], pictures[2])


def test_words_that_are_said_to_others_are_not_drawn() -> None:
    env = make_env("mpe/simple_crypto_v3")
    env.reset(0)
    eve, bob, alice = innermost(env).world.agents
    pictures = {}
    for speaker in (eve, bob, alice):
        quiet = drawn(env, "eve_0")
        speaker.state.c = np.eye(4)[1]
        pictures[speaker.name] = np.array_equal(drawn(env, "eve_0"), quiet)
    env.close()
    assert pictures == {"eve_0": False, "bob_0": True, "alice_0": False}


def test_agents_in_a_forest_are_hidden_from_those_outside() -> None:
    env = make_env("mpe/simple_world_comm_v3")
    env.reset(0)
    raw = innermost(env)
    leader, hunter, prey = raw.world.agents[0], raw.world.agents[1], raw.world.agents[-1]
    hunter.state.p_pos = np.array([-0.9, -0.9])
    forest = raw.world.forests[0]
    prey.state.p_pos = forest.state.p_pos + np.array([0.0, forest.size + prey.size / 2])
    assert not raw.scenario.is_collision(hunter, forest)
    pixel = tuple(int(700 * each) for each in middle(agent_places(env)[prey.name]))
    viewers = (leader.name, hunter.name, prey.name, None)
    seen = {name: drawn(env, name)[pixel[1], pixel[0]].tolist() for name in viewers}
    env.close()
    assert seen[leader.name] == seen[prey.name]
    assert seen[hunter.name] == seen[None] != seen[leader.name]


def middle(place: tuple[float, float, float, float]) -> tuple[float, float]:
    left, top, width, height = place
    return left + width / 2, top + height / 2
