"""Steps of trajectories as flat arrays, for learners."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.runners.trajectories import Rows, Trajectory, pick


@dataclass(frozen=True, slots=True)
class Steps:
    """Steps of trajectories as flat arrays with a row each, for learners."""

    observation_space: Space[object]
    action_space: Space[object]
    every_observation: Rows  # a row more per trajectory than there are steps
    place: NDArray[np.int64]  # of each step's observation among them; the next one follows
    actions: Rows
    rewards: NDArray[np.float64]
    every_mask: NDArray[np.bool_] | None  # a row per observation
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    controllers: NDArray[np.str_]  # the policy that chose each action
    trajectory: NDArray[np.int64]  # number of the trajectory, from 0
    env_steps: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def observations(self) -> Rows:
        return pick(self.every_observation, self.place)

    @property
    def next_observations(self) -> Rows:
        return pick(self.every_observation, self.place + 1)

    @property
    def masks(self) -> NDArray[np.bool_] | None:
        return None if self.every_mask is None else self.every_mask[self.place]

    @property
    def next_masks(self) -> NDArray[np.bool_] | None:
        return None if self.every_mask is None else self.every_mask[self.place + 1]


def flatten(trajectories: Sequence[Trajectory]) -> Steps:
    """Return the steps of trajectories with equal spaces, one trajectory after another."""
    if not trajectories:
        raise InputError("There is no step to learn from.")
    first = trajectories[0]
    for other in trajectories:
        if (other.observation_space, other.action_space) != (first.observation_space, first.action_space):
            raise InputError(f"'{first.agent}' and '{other.agent}' have different spaces: name one of these agents.")
    lengths = np.array([len(each) for each in trajectories])
    number = np.repeat(np.arange(len(trajectories)), lengths)
    last = np.cumsum(lengths) - 1
    terminated, truncated = np.zeros((2, len(number)), np.bool_)
    terminated[last] = [each.terminated for each in trajectories]
    truncated[last] = [each.truncated for each in trajectories]
    return Steps(
        observation_space=first.observation_space,
        action_space=first.action_space,
        every_observation=join([each.observations for each in trajectories]),
        place=np.arange(len(number)) + number,
        actions=join([each.actions for each in trajectories]),
        rewards=np.concatenate([each.rewards for each in trajectories]),
        every_mask=_all_masks(trajectories),
        terminated=terminated,
        truncated=truncated,
        controllers=np.array([label for each in trajectories for label in each.controllers]),
        trajectory=number,
        env_steps=np.concatenate([each.env_steps for each in trajectories]),
    )


def _all_masks(trajectories: Sequence[Trajectory]) -> NDArray[np.bool_] | None:
    size = next((each.masks.shape[1] for each in trajectories if each.masks is not None), None)
    if size is None:
        return None
    return np.concatenate(
        [np.ones((len(each) + 1, size), np.bool_) if each.masks is None else each.masks for each in trajectories]
    )


def join(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts, one after another."""
    first = parts[0]
    if isinstance(first, Mapping):
        return {key: join([part[key] for part in parts]) for key in first}
    if isinstance(first, tuple):
        return tuple(join([part[index] for part in parts]) for index in range(len(first)))
    return np.concatenate(parts)
