"""Recurrent states at the beginning of pieces of episodes."""

from __future__ import annotations

from itertools import cycle
from typing import ClassVar

import numpy as np
import pytest

pytest.importorskip("ray.rllib")

from ray.rllib.connectors.common.add_states_from_episodes_to_batch import AddStatesFromEpisodesToBatch
from ray.rllib.core.columns import Columns
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode

from mosaic.workers.rllib.learner.first_states import FirstStates

STEPS = 14
INITIAL = -1.0


class Counting:
    """Module whose state is the number of env steps before its action, and -1 at the beginning."""

    model_config: ClassVar = {"max_seq_len": 20}

    def is_stateful(self) -> bool:
        return True

    def get_initial_state(self) -> dict[str, np.ndarray]:
        return {"h": np.array([INITIAL], np.float32)}


class Modules(dict):
    def is_stateful(self) -> bool:
        return any(module.is_stateful() for module in self.values())


def second_piece(*, agents: int, cut_after: int, horizon: int, as_arrays: bool) -> MultiAgentEpisode:
    """Play a game in turns, cut it, and return what follows."""
    names = [f"player_{number}" for number in range(agents)]
    episode = MultiAgentEpisode(agent_to_module_mapping_fn=lambda agent, episode: "learner")
    turns = cycle(names)
    acting = next(turns)
    episode.add_env_reset(observations={acting: np.zeros(1, np.float32)}, infos={})
    for step in range(STEPS):
        mover, acting = acting, next(turns)
        episode.add_env_step(
            observations={acting: np.full(1, step, np.float32)},
            actions={mover: step},
            rewards={mover: 0.0},
            infos={},
            extra_model_outputs={mover: {Columns.STATE_OUT: {"h": np.array([step], np.float32)}}},
        )
        if step + 1 == cut_after:
            episode = episode.cut(len_lookback_buffer=horizon)
    return episode.to_numpy() if as_arrays else episode


def first_states(episode: MultiAgentEpisode) -> dict[str, float]:
    """Return the state with which RLlib's connector lets each agent's piece begin."""
    modules = Modules(learner=Counting())
    batch = FirstStates()(rl_module=modules, batch={}, episodes=[episode])
    batch = AddStatesFromEpisodesToBatch(as_learner_connector=True)(
        rl_module=modules, batch=batch, episodes=[episode], shared_data={}, explore=False
    )
    items = {key[1]: found for key, found in batch[Columns.STATE_IN].items()}
    return {agent: float(np.ravel(_first(found))[0]) for agent, found in items.items()}


def _first(found: list) -> np.ndarray:
    item = found[0]
    return item.values["h"] if hasattr(item, "values") and not isinstance(item, dict) else item["h"]


@pytest.mark.parametrize("as_arrays", [True, False])
@pytest.mark.parametrize("cut_after", [5, 6])
def test_pieces_without_a_known_state_begin_with_the_initial_one(cut_after, as_arrays):
    episode = second_piece(agents=2, cut_after=cut_after, horizon=1, as_arrays=as_arrays)
    assert first_states(episode) == {"player_0": INITIAL, "player_1": INITIAL}


@pytest.mark.parametrize("as_arrays", [True, False])
@pytest.mark.parametrize("agents", [2, 3])
@pytest.mark.parametrize("cut_after", [6, 7, 8])
def test_memory_continues_where_twice_as_many_steps_as_agents_are_kept(cut_after, agents, as_arrays):
    episode = second_piece(agents=agents, cut_after=cut_after, horizon=2 * agents, as_arrays=as_arrays)
    first_action = {agent: int(np.ravel(own.get_actions(0))[0]) for agent, own in episode.agent_episodes.items()}
    assert first_states(episode) == {agent: action - agents for agent, action in first_action.items()}
