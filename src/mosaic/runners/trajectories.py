"""Trajectories: an agent's observations, actions and rewards in one episode, as arrays.

A step of an agent lasts from its action to its next observation or its end; the rewards paid in between are summed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.core.episode import Episode
from mosaic.core.errors import FormatError, InputError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.envs.env import Env, EnvSpec
from mosaic.envs.spaces import kept

Rows: TypeAlias = Any  # an array with a row per step, or a dict or tuple of Rows, as the space is built


@dataclass(frozen=True, slots=True)
class Trajectory:
    """An agent's part of one episode: T steps, and T + 1 observations and masks."""

    agent: AgentID
    observation_space: Space[object]  # without the mask
    action_space: Space[object]
    observations: Rows
    actions: Rows
    rewards: NDArray[np.float64]
    masks: NDArray[np.bool_] | None  # None where the agent's actions were never restricted
    terminated: bool  # by its last step
    truncated: bool
    controllers: tuple[PolicyID, ...]  # the policy that chose each action
    env_steps: NDArray[np.int64]  # number of the env step in which each action was taken, from 0

    def __len__(self) -> int:
        return len(self.rewards)

    @property
    def total(self) -> float:
        """Return the sum of its rewards."""
        return float(self.rewards.sum())

    def part(self, start: int, stop: int) -> Trajectory:
        """Return the steps `start` … `stop` - 1, truncated where more follow."""
        whole = stop >= len(self)
        return replace(
            self,
            observations=pick(self.observations, slice(start, stop + 1)),
            actions=pick(self.actions, slice(start, stop)),
            rewards=self.rewards[start:stop],
            masks=None if self.masks is None else self.masks[start : stop + 1],
            terminated=whole and self.terminated,
            truncated=self.truncated if whole else True,
            controllers=self.controllers[start:stop],
            env_steps=self.env_steps[start:stop],
        )


class TrajectorySink(Protocol):
    """Receiver of recorded episodes; may be sent to the processes that play them."""

    def add(self, number: int, record: Episode, trajectories: Sequence[Trajectory]) -> None: ...


Recorder: TypeAlias = Callable[
    [EnvSpec], AbstractContextManager[TrajectorySink]
]  # opens a sink for episodes of the env


@dataclass(slots=True)
class _Course:
    """Observations and actions of an agent so far."""

    observations: list[Observation] = field(default_factory=list)
    masks: list[Mask | None] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    controllers: list[PolicyID] = field(default_factory=list)
    env_steps: list[int] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False

    def see(self, observation: Observation, mask: Mask | None) -> None:
        self.observations.append(observation)
        self.masks.append(mask)


class TrajectoryRecorder:
    """Recorder of the trajectories of one episode after another; it is shown every Turn."""

    def __init__(self, env: Env) -> None:
        self._env = env
        self._courses: dict[AgentID, _Course] = {}
        self.bytes_seen = 0  # of the observations of this episode

    def note(self, turn: Turn, record: Episode, step: int | None = None) -> None:
        """Take the Turn after a reset or a step; `step` is how many there were, by default as many as recorded."""
        step = record.env_steps if step is None else step
        if step == 0:
            self._courses, self.bytes_seen = {}, 0
        else:
            for agent, action in record.actions[step - 1].items():
                course = self._courses[agent]
                course.actions.append(kept(action))
                course.rewards.append(0.0)
                course.controllers.append(record.policy_of(agent, step - 1))
                course.env_steps.append(step - 1)
        for agent, reward in turn.rewards.items():
            course = self._courses.setdefault(agent, _Course())
            if course.rewards:
                course.rewards[-1] += reward
        for agent, observation in turn.observations.items():
            self._courses.setdefault(agent, _Course()).see(observation, turn.action_masks.get(agent))
            self.bytes_seen += _bytes(observation)
        for agent, observation in turn.final_observations.items():
            course = self._courses.setdefault(agent, _Course())
            course.see(observation, None)
            course.terminated, course.truncated = bool(turn.terminated[agent]), bool(turn.truncated[agent])

    def seen(self, agent: AgentID) -> list[Turn]:
        """Return what the agent has observed until now: a Turn for each of its observations."""
        course = self._courses.get(agent, _Course())
        shown = zip(course.observations, course.masks, strict=True)
        return [Turn({agent: seen}, {} if mask is None else {agent: mask}, {}, {}, {}, {}, {}) for seen, mask in shown]

    def trajectories(self) -> list[Trajectory]:
        """Return the trajectories of the agents that acted.

        Where the episode was cut, an agent that was waiting loses its last step, whose outcome is not known.
        """
        found = []
        for agent, course in self._courses.items():
            steps = min(len(course.actions), len(course.observations) - 1)
            if steps > 0:
                found.append(self._trajectory(agent, course, steps))
        return found

    def _trajectory(self, agent: AgentID, course: _Course, steps: int) -> Trajectory:
        observation_space, action_space = self._env.observation_spaces[agent], self._env.action_spaces[agent]
        return Trajectory(
            agent=agent,
            observation_space=observation_space,
            action_space=action_space,
            observations=stack(observation_space, course.observations[: steps + 1], f"observation of '{agent}'"),
            actions=stack(action_space, course.actions[:steps], f"action of '{agent}'"),
            rewards=np.array(course.rewards[:steps], np.float64),
            masks=_masks(course.masks[: steps + 1]),
            terminated=course.terminated,
            truncated=course.truncated or not course.terminated,
            controllers=tuple(course.controllers[:steps]),
            env_steps=np.array(course.env_steps[:steps], np.int64),
        )


def _bytes(observation: Observation) -> int:
    if isinstance(observation, Mapping):
        return sum(map(_bytes, observation.values()))
    if isinstance(observation, tuple):
        return sum(map(_bytes, observation))
    return observation.nbytes if isinstance(observation, np.ndarray) else 64


def _masks(masks: Sequence[Mask | None]) -> NDArray[np.bool_] | None:
    """Return a row per observation; all actions are allowed where there is no mask."""
    size = next((len(mask) for mask in masks if mask is not None), None)
    if size is None:
        return None
    return np.array([np.ones(size, np.bool_) if mask is None else mask for mask in masks], np.bool_)


def stack(space: Space[object], values: Sequence[Any], what: str) -> Rows:
    """Return members of a space as arrays with a row each; texts as an array of objects."""
    match space:
        case spaces.Dict():
            return {key: stack(part, [value[key] for value in values], what) for key, part in space.spaces.items()}
        case spaces.Tuple():
            parts = enumerate(space.spaces)
            return tuple(stack(part, [value[index] for value in values], what) for index, part in parts)
        case spaces.Text():
            return np.array(list(values), object)
        case spaces.Discrete() | spaces.Box() | spaces.MultiDiscrete() | spaces.MultiBinary():
            assert space.dtype is not None
            assert space.shape is not None
            try:
                return _cast(np.array(values), space.dtype).reshape((len(values), *space.shape))
            except (TypeError, ValueError) as error:
                raise FormatError(f"An {what} is not one of {space}: {error}.") from error
    raise InputError(
        f"Members of {type(space).__name__} spaces cannot be recorded, as in each {what}. "
        "Spaces that can: Box, Discrete, MultiDiscrete, MultiBinary, Text, and Dict and Tuple of these."
    )


def _cast(rows: NDArray[np.generic], dtype: np.dtype[np.generic]) -> NDArray[np.generic]:
    """Return the rows with this type; raise ValueError if integers would change."""
    with np.errstate(invalid="ignore"):
        cast = rows.astype(dtype)
    if dtype.kind != "f" and not np.array_equal(cast, rows):
        raise ValueError(f"{rows.dtype} numbers that {dtype} does not have")
    return cast


def pick(rows: Rows, index: object) -> Rows:
    """Return the rows that an index, a slice or an array of indices selects."""
    if isinstance(rows, Mapping):
        return {key: pick(part, index) for key, part in rows.items()}
    if isinstance(rows, tuple):
        return tuple(pick(part, index) for part in rows)
    return rows[index]
