"""Encoding of envs for RLlib: each agent's observations and actions, and the learner view that shows them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray
from PIL import Image

from mosaic.core.errors import InputError, MosaicError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.seeding import SEED_LIMIT, child_seed
from mosaic.core.turn import Action, Observation, Turn
from mosaic.envs.env import Env
from mosaic.envs.learner_view import LearnerView
from mosaic.envs.spaces import MASK, objection
from mosaic.envs.vector.encoding import ActionCode, RowCode, action_code, row_code
from mosaic.envs.wrappers.images import resize
from mosaic.learners.episode_mapping import EpisodeMapping
from mosaic.runners.fixed_policies import ChangingPolicies, ControllerOthers
from mosaic.telemetry.events.info_numbers import numbers_in
from mosaic.workers.rllib.config.support import no_central_pictures
from mosaic.workers.rllib.episode_modules import ToldNumber

OBSERVATION, STATE = "observation", "state"
PICTURE_SIZE = 64  # pixels; RLlib has default convolutions for 42, 64, 84 and 96


def own_part(space: Space[object]) -> Space[object]:
    """Return an agent's own observation, without mask and state."""
    return space[OBSERVATION] if isinstance(space, spaces.Dict) else space


@dataclass(frozen=True, slots=True)
class AgentCode:
    """Conversion of one agent's spaces.

    RLlib reads float32 rows or square pictures of 0..1, and acts in Discrete, MultiDiscrete and flat Box spaces.
    """

    observation_space: spaces.Box
    action_space: Space[object]
    read: Callable[[Observation], NDArray[np.float32]]  # a new array
    act: Callable[[Action], Action]  # converts RLlib's action to the env's
    choices: int  # entries of an action mask, over all parts of an action; 0 if actions are numbers

    @property
    def width(self) -> int:
        return int(np.prod(self.observation_space.shape))

    @property
    def is_picture(self) -> bool:
        return len(self.observation_space.shape) == 3


def agent_code(observation: Space[object], action: Space[object], picture_size: int = PICTURE_SIZE) -> AgentCode:
    acts = action_code(action)
    space, act = _actions(acts, action)
    seen, read = _observations(observation, picture_size)
    return AgentCode(seen, space, read, act, acts.head.width if acts.head.kind == "categorical" else 0)


def is_taken_as_is(observation: Space[object], action: Space[object]) -> bool:
    """Return whether RLlib can use these spaces unchanged, with the same result as `agent_code`."""
    rows = isinstance(observation, spaces.Box) and len(observation.shape) == 1 and observation.dtype == np.float32
    if isinstance(action, spaces.Discrete):
        return rows and action.start == 0
    return rows and isinstance(action, spaces.Box) and len(action.shape) == 1 and action.dtype == np.float32


def _observations(
    space: Space[object], picture_size: int
) -> tuple[spaces.Box, Callable[[Observation], NDArray[np.float32]]]:
    code = row_code(space)
    if not any(part.picture for part in code.parts):
        return spaces.Box(-np.inf, np.inf, (code.width,), np.float32), _row_reader(code)
    if len(code.parts) > 1:
        raise InputError(
            f"RLlib's default networks read either a picture or numbers, but here is {space}. Show one of them, or use "
            "the worker 'native', which reads both."
        )
    shape = (picture_size, picture_size, code.parts[0].shape[2])
    return spaces.Box(0, 1, shape, np.float32), _picture_reader(picture_size)


def _row_reader(code: RowCode) -> Callable[[Observation], NDArray[np.float32]]:
    width, write = code.width, code.write

    def read(observation: Observation) -> NDArray[np.float32]:
        row = np.empty(width, np.float32)
        write(observation, row)
        return row

    return read


def _picture_reader(size: int) -> Callable[[Observation], NDArray[np.float32]]:
    def read(observation: Observation) -> NDArray[np.float32]:
        small = resize(np.asarray(observation, np.uint8), (size, size), Image.Resampling.BOX)
        picture: NDArray[np.float32] = np.divide(small, np.float32(255), dtype=np.float32)
        return picture

    return read


def _actions(code: ActionCode, space: Space[object]) -> tuple[Space[object], Callable[[Action], Action]]:
    head = code.head
    if head.kind == "gaussian":
        assert isinstance(space, spaces.Box)
        low, high = (np.ravel(bound).astype(np.float32) for bound in (space.low, space.high))
        return spaces.Box(low, high, dtype=np.float32), _from_row(code)
    if isinstance(space, spaces.Discrete):
        start = int(space.start)
        return spaces.Discrete(head.width), (lambda action: int(action) + start)
    return spaces.MultiDiscrete(list(head.sizes)), _from_row(code)


def _from_row(code: ActionCode) -> Callable[[Action], Action]:
    return lambda action: code.action(np.asarray(action, np.float32))


class LearnerStep(NamedTuple):
    """Result of one step for the learners, which lasts until one of them must act again."""

    seen: dict[AgentID, Observation]  # of those that must act or have ended
    rewards: dict[AgentID, float]
    terminated: dict[AgentID, bool]
    truncated: dict[AgentID, bool]
    over: bool
    infos: dict[AgentID, dict[str, float]]  # numbers in the infos of those that have ended


@dataclass(slots=True)
class EpisodeSoFar:
    """Learners of an episode that have not ended, and what the episode has counted."""

    number: int  # in the stream, from 1
    living: set[AgentID]
    played_returns: dict[AgentID, float]  # of the agents that do not learn
    env_steps: int = 0
    others_steps: int = 0  # part of the last step of the learners: no learner acted in them
    told_steps: int = 0  # env_steps after that step


class EncodedView:
    """Owner of an env that steps it for its learners, while controllers play the others.

    `state` adds what a central critic reads: all learners' observations, and which of them is the observer. An agent
    that has ended has no restriction in its mask, and others see zeros for it: RLlib computes with last observations
    too.
    """

    def __init__(
        self,
        env: Env,
        learners: tuple[AgentID, ...],
        played: Mapping[AgentID, PolicyID],
        *,
        state: bool = False,
        seed: int | None = None,
        runner: int = 0,
        picture_size: int = PICTURE_SIZE,
        changing: EpisodeMapping | None = None,
    ) -> None:
        self.env, self.learners, self.told = env, learners, ToldNumber()
        chosen = None if changing is None else ChangingPolicies(changing.policy, self.told)
        others = ControllerOthers(env.spec, played, seed or 0, changing=chosen) if played else None
        self._view = LearnerView(env, learners, others)
        self._seed = int(np.random.default_rng().integers(SEED_LIMIT)) if seed is None else seed
        self._runner = runner
        self.episode = EpisodeSoFar(0, set(learners), {})
        self._codes = {
            agent: agent_code(env.observation_spaces[agent], env.action_spaces[agent], picture_size)
            for agent in learners
        }
        self._objections = {agent: objection(env.action_spaces[agent]) for agent in learners}
        self._masked = bool(env.reset(0).action_masks)
        self._state = _StateRow(self._codes) if state else None
        self.observation_spaces = {agent: self._space(code) for agent, code in self._codes.items()}
        self.action_spaces = {agent: code.action_space for agent, code in self._codes.items()}

    def begin(self, seed: int | None = None) -> LearnerStep:
        """Return the first Turn in which a learner must act. Without a seed: of the next episode of the stream."""
        if seed is not None:  # RLlib's seeds of neighbouring runners overlap, so the runner's index is mixed in
            self._seed, self.episode.number = child_seed(seed, "runner", self._runner), 0
        view = self._view
        while True:
            self._begin_episode()
            for turn in view.others_steps():
                self._book(turn)
            if view.turn.observations:
                return LearnerStep(self._see(view.turn.observations, view.turn), {}, {}, {}, False, {})

    def step(self, chosen: Mapping[AgentID, Action]) -> LearnerStep:
        view, codes, episode = self._view, self._codes, self.episode
        turn = view.step({agent: self._action(agent, action) for agent, action in chosen.items()})
        last, infos = self._book(turn), self._infos(turn)
        rewards = {agent: reward for agent, reward in turn.rewards.items() if agent in codes}
        terminated = {agent: flag for agent, flag in turn.terminated.items() if agent in codes}
        truncated = {agent: flag for agent, flag in turn.truncated.items() if agent in codes}
        if episode.living:  # otherwise the episode is over for RLlib, although others may play on
            for turn in view.others_steps():
                for agent in turn.rewards.keys() & codes.keys():
                    rewards[agent] = rewards.get(agent, 0.0) + turn.rewards[agent]
                    terminated[agent], truncated[agent] = turn.terminated[agent], turn.truncated[agent]
                last |= self._book(turn)
                infos |= self._infos(turn)
                if not episode.living:
                    break
        turn = view.turn
        over = not episode.living or turn.over
        episode.others_steps, episode.told_steps = episode.env_steps - episode.told_steps - 1, episode.env_steps
        seen = self._see({**turn.observations, **last}, turn)
        return LearnerStep(seen, rewards, terminated, truncated, over, infos)

    def close(self) -> None:
        if self._view.others is not None:
            self._view.others.close()
        self.env.close()

    def _begin_episode(self) -> None:
        others = self._view.others
        played = () if others is None else others.agents
        number = self.episode.number + 1
        self.episode = EpisodeSoFar(number, set(self.learners), dict.fromkeys(played, 0.0))
        self._view.begin(child_seed(self._seed, "episode", number), child_seed(self._seed, "others", number))

    def _book(self, turn: Turn) -> dict[AgentID, Observation]:
        """Record the step, the others' rewards and who still lives; return the last observations of ended learners."""
        episode = self.episode
        episode.env_steps += 1
        for agent in episode.played_returns.keys() & turn.rewards.keys():
            episode.played_returns[agent] += turn.rewards[agent]
        ended = {agent: seen for agent, seen in turn.final_observations.items() if agent in self._codes}
        episode.living -= ended.keys()
        return ended

    def _infos(self, turn: Turn) -> dict[AgentID, dict[str, float]]:
        ended = turn.final_observations.keys() & self._codes.keys() & turn.infos.keys()
        found = {agent: numbers_in(turn.infos[agent]) for agent in ended if turn.infos[agent]}
        return {agent: numbers for agent, numbers in found.items() if numbers}

    def _action(self, agent: AgentID, chosen: Action) -> Action:
        action, mask = self._codes[agent].act(chosen), self._view.turn.action_masks.get(agent)
        problem = None if mask is None else self._objections[agent](action, mask)
        if problem is not None:
            raise MosaicError(f"RLlib chose for {agent} in {self.env.spec.env_id}: {problem}.")
        return action

    def _see(self, observations: Mapping[AgentID, Observation], turn: Turn) -> dict[AgentID, Observation]:
        codes = self._codes
        rows = {agent: codes[agent].read(seen) for agent, seen in observations.items() if agent in codes}
        if not self._masked and self._state is None:
            return rows
        seen: dict[AgentID, Observation] = {agent: {OBSERVATION: row} for agent, row in rows.items()}
        if self._masked:
            for agent, parts in seen.items():
                if codes[agent].choices:
                    parts[MASK] = _mask(turn, agent, codes[agent].choices)
        if self._state is not None:
            for agent, row in self._state.read(rows).items():
                seen[agent][STATE] = row
        return seen

    def _space(self, code: AgentCode) -> Space[object]:
        parts: dict[str, Space[object]] = {OBSERVATION: code.observation_space}
        if self._masked and code.choices:
            parts[MASK] = spaces.Box(0, 1, (code.choices,), np.int8)
        if self._state is not None:
            parts[STATE] = self._state.space
        return spaces.Dict(parts) if self._masked or self._state is not None else code.observation_space


def _mask(turn: Turn, agent: AgentID, choices: int) -> NDArray[np.int8]:
    mask = turn.action_masks.get(agent)
    return np.ones(choices, np.int8) if mask is None else mask.astype(np.int8)


class _StateRow:
    """Input of a central critic: the learners' observations in their order, then a one-hot code of the observer."""

    def __init__(self, codes: Mapping[AgentID, AgentCode]) -> None:
        if any(code.is_picture for code in codes.values()):
            raise no_central_pictures()
        ends = np.cumsum([code.width for code in codes.values()])
        self._places = {
            agent: (slice(int(end) - code.width, int(end)), int(ends[-1]) + number)
            for number, ((agent, code), end) in enumerate(zip(codes.items(), ends, strict=True))
        }
        self._width = int(ends[-1]) + len(codes)
        self.space = spaces.Box(-np.inf, np.inf, (self._width,), np.float32)

    def read(self, rows: Mapping[AgentID, NDArray[np.float32]]) -> dict[AgentID, NDArray[np.float32]]:
        together = np.zeros(self._width, np.float32)
        for agent, row in rows.items():
            together[self._places[agent][0]] = row
        states = {}
        for agent in rows:
            states[agent] = together.copy()
            states[agent][self._places[agent][1]] = 1
        return states
