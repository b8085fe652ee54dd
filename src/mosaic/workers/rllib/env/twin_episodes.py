"""Conversion of steps of many envs to RLlib's episodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer

from mosaic.workers.rllib.env.twin_view import Rows, TwinView

Scalar = TypeVar("Scalar", bound=np.generic)


class TwinStep(NamedTuple):
    """Step of all envs: [envs, agents, …]."""

    shown: NDArray[np.float32]  # before the step
    actions: NDArray[np.int64]
    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    final: NDArray[np.float32]  # last observations of truncated agents
    extras: Mapping[str, Mapping[str, NDArray[np.generic]]]  # by module: [envs, its agents, …]

    @property
    def over(self) -> NDArray[np.bool_]:
        ended: NDArray[np.bool_] = np.any(self.terminated | self.truncated, axis=1)
        return ended


class Piece(NamedTuple):
    """Steps of one env that belong to one episode: [steps, agents, …], with one more observation than steps."""

    env: int
    over: bool
    shown: NDArray[np.float32]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float32]
    terminated: NDArray[np.bool_]  # [agents], at its end
    truncated: NDArray[np.bool_]
    extras: Mapping[str, Mapping[str, NDArray[np.generic]]]

    @property
    def length(self) -> int:
        return len(self.actions)


def pieces_of(steps: Sequence[TwinStep], shown: NDArray[np.float32]) -> Iterator[Piece]:
    """Yield pieces env by env, in the order of time. `shown` is the observation after the last step."""
    if not steps:
        return
    looks = _by_env([*(step.shown for step in steps), shown])
    actions, rewards = _by_env([step.actions for step in steps]), _by_env([step.rewards for step in steps])
    over = np.stack([step.over for step in steps], axis=1)
    extras = {
        module: {name: _by_env([step.extras[module][name] for step in steps]) for name in columns}
        for module, columns in steps[0].extras.items()
    }
    for env, ends in enumerate(over):
        start = 0
        for end in [*np.flatnonzero(ends).tolist(), len(steps) - 1]:
            if end < start:  # the last step ended an episode
                continue
            seen = looks[env, start : end + 2]
            if ends[end]:
                seen = np.concatenate((seen[:-1], _last(steps[end], env)[np.newaxis]))
            yield Piece(
                env,
                bool(ends[end]),
                seen,
                actions[env, start : end + 1],
                rewards[env, start : end + 1],
                steps[end].terminated[env],
                steps[end].truncated[env] & ~steps[end].terminated[env],
                {
                    module: {name: column[env, start : end + 1] for name, column in columns.items()}
                    for module, columns in extras.items()
                },
            )
            start = end + 1


def _last(step: TwinStep, env: int) -> NDArray[np.float32]:
    """Return the last observations.

    Nothing is ever computed from the last observations of terminated agents, so the previous ones are used for them.
    """
    kept: NDArray[np.float32] = np.where(step.truncated[env][:, np.newaxis], step.final[env], step.shown[env])
    return kept


def _by_env(columns: Sequence[NDArray[Scalar]]) -> NDArray[Scalar]:
    return np.stack(columns, axis=1)


def episode_of(
    piece: Piece, id_: str, started: int, view: TwinView, groups: Mapping[str, Sequence[int]]
) -> MultiAgentEpisode:
    """Return the episode as RLlib's own runner would have built it, finished and in arrays."""
    spaces: tuple[Any, Any] = view.shown_spaces, view.chosen_spaces
    episode = MultiAgentEpisode(
        id_=id_,
        observation_space=spaces[0],
        action_space=spaces[1],
        agent_module_ids={view.names[k]: module for module, agents in groups.items() for k in agents},
        env_t_started=started,
        len_lookback_buffer=0,
    )
    episode.env_t = started + piece.length
    if piece.over:
        episode.is_truncated = bool(piece.truncated.any())
        episode.is_terminated = not episode.is_truncated
    for module, agents in groups.items():
        rows = view.rows(piece.shown, agents)
        for place, number in enumerate(agents):
            agent = view.names[number]
            extras = {name: _buffer(column[:, place]) for name, column in piece.extras[module].items()}
            episode.agent_t_started[agent] = started
            episode.env_t_to_agent_t[agent] = _buffer(list(range(started, started + piece.length + 1)))
            episode.agent_episodes[agent] = SingleAgentEpisode(
                id_=f"{id_}_{agent}",
                agent_id=agent,
                module_id=module,
                multi_agent_episode_id=id_,  # type: ignore[arg-type]  # RLlib's own ids are texts
                observation_space=view.shown_spaces[agent],
                action_space=view.chosen_spaces[agent],
                observations=_buffer(_of_agent(rows, place)),
                infos=_buffer([{}] * (piece.length + 1)),
                actions=_buffer(piece.actions[:, number]),
                rewards=_buffer(piece.rewards[:, number]),
                terminated=bool(piece.terminated[number]),
                truncated=bool(piece.truncated[number]),
                extra_model_outputs=extras,
                t_started=started,
                len_lookback_buffer=0,
            )
    return episode


def _of_agent(rows: Rows, place: int) -> Rows:
    return {key: part[:, place] for key, part in rows.items()} if isinstance(rows, dict) else rows[:, place]


def _buffer(data: Any) -> InfiniteLookbackBuffer:
    return InfiniteLookbackBuffer(data=data, lookback=0)
