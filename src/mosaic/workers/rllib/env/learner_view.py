"""Env as seen by the agents that learn, with controllers playing the others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.seeding import SEED_LIMIT, child_seed
from mosaic.core.turn import Action, Observation, Turn
from mosaic.envs.env import Env
from mosaic.envs.spaces import MASK, objection
from mosaic.runners.fixed_policies import ControllerOthers
from mosaic.workers.rllib.config.support import no_central_pictures
from mosaic.workers.rllib.env.spaces import PICTURE_SIZE, AgentCode, agent_code

OBSERVATION, STATE = "observation", "state"
_MOST_EPISODES_WITHOUT_US = 1000  # this many in a row mean that the learners never get a turn


class LearnerStep(NamedTuple):
    """Result of one step for the learners, which lasts until one of them must act again."""

    seen: dict[AgentID, Any]  # of those that must act or have ended
    rewards: dict[AgentID, float]
    terminated: dict[AgentID, bool]
    truncated: dict[AgentID, bool]
    over: bool


class LearnerView:
    """Owner of an env that steps it for its learners.

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
    ) -> None:
        self.env, self.learners = env, learners
        self._others = ControllerOthers(env.spec, played, seed or 0) if played else None
        self._seed = int(np.random.default_rng().integers(SEED_LIMIT)) if seed is None else seed
        self._runner, self._episode = runner, 0
        self.played_returns: dict[AgentID, float] = {}
        self._codes = {
            agent: agent_code(env.observation_spaces[agent], env.action_spaces[agent], picture_size)
            for agent in learners
        }
        self._objections = {agent: objection(env.action_spaces[agent]) for agent in learners}
        self._masked = bool(env.reset(0).action_masks)
        self._state = _StateRow(self._codes) if state else None
        self.observation_spaces = {agent: self._space(code) for agent, code in self._codes.items()}
        self.action_spaces = {agent: code.action_space for agent, code in self._codes.items()}
        self._living: set[AgentID] = set()
        self._turn: Turn

    def begin(self, seed: int | None = None) -> LearnerStep:
        """Return the first Turn in which a learner must act. Without a seed: of the next episode of the stream."""
        for _ in range(_MOST_EPISODES_WITHOUT_US):
            turn = self._first(seed)
            while not turn.over and self._codes.keys().isdisjoint(turn.observations):
                turn = self._step({}, turn)
                self._living -= turn.final_observations.keys()
            if turn.observations:
                self._turn = turn
                return LearnerStep(self._see(turn.observations, turn), {}, {}, {}, False)
            seed = None
        raise MosaicError(
            f"{_MOST_EPISODES_WITHOUT_US} episodes of {self.env.spec.env_id} went by without a turn of "
            f"{', '.join(self.learners)}: there is nothing to learn."
        )

    def step(self, chosen: Mapping[AgentID, Any]) -> LearnerStep:
        turn = self._step({agent: self._action(agent, action) for agent, action in chosen.items()}, self._turn)
        codes = self._codes
        rewards = {agent: reward for agent, reward in turn.rewards.items() if agent in codes}
        terminated = {agent: flag for agent, flag in turn.terminated.items() if agent in codes}
        truncated = {agent: flag for agent, flag in turn.truncated.items() if agent in codes}
        last = {agent: seen for agent, seen in turn.final_observations.items() if agent in codes}
        self._living -= last.keys()
        while self._living and codes.keys().isdisjoint(turn.observations):
            turn = self._step({}, turn)
            for agent in turn.rewards.keys() & codes.keys():
                rewards[agent] = rewards.get(agent, 0.0) + turn.rewards[agent]
                terminated[agent], truncated[agent] = turn.terminated[agent], turn.truncated[agent]
            ended = {agent: seen for agent, seen in turn.final_observations.items() if agent in codes}
            last |= ended
            self._living -= ended.keys()
        self._turn = turn
        return LearnerStep(
            self._see({**turn.observations, **last}, turn), rewards, terminated, truncated, not self._living
        )

    def close(self) -> None:
        if self._others is not None:
            self._others.close()
        self.env.close()

    def _first(self, seed: int | None) -> Turn:
        """Reset the env. RLlib's seeds of neighbouring runners overlap, so the runner's index is mixed in."""
        if seed is not None:
            self._seed, self._episode = child_seed(seed, "runner", self._runner), 0
        self._episode += 1
        if self._others is not None:
            self._others.begin(0, child_seed(self._seed, "others", self._episode))
            self.played_returns = dict.fromkeys(self._others.agents, 0.0)
        self._living = set(self.learners)
        return self.env.reset(child_seed(self._seed, "episode", self._episode))

    def _step(self, actions: dict[AgentID, Action], turn: Turn) -> Turn:
        if self._others is not None:
            actions.update(self._others.act(0, turn))
        turn = self.env.step(actions)
        for agent in self.played_returns.keys() & turn.rewards.keys():
            self.played_returns[agent] += turn.rewards[agent]
        return turn

    def _action(self, agent: AgentID, chosen: Any) -> Action:
        action, mask = self._codes[agent].act(chosen), self._turn.action_masks.get(agent)
        problem = None if mask is None else self._objections[agent](action, mask)
        if problem is not None:
            raise MosaicError(f"RLlib chose for {agent} in {self.env.spec.env_id}: {problem}.")
        return action

    def _see(self, observations: Mapping[AgentID, Observation], turn: Turn) -> dict[AgentID, Any]:
        codes = self._codes
        rows = {agent: codes[agent].read(seen) for agent, seen in observations.items() if agent in codes}
        if not self._masked and self._state is None:
            return rows
        seen: dict[AgentID, Any] = {agent: {OBSERVATION: row} for agent, row in rows.items()}
        if self._masked:
            for agent, parts in seen.items():
                if codes[agent].choices:
                    parts[MASK] = _mask(turn, agent, codes[agent].choices)
        if self._state is not None:
            for agent, row in self._state.read(rows).items():
                seen[agent][STATE] = row
        return seen

    def _space(self, code: AgentCode) -> Space[Any]:
        parts: dict[str, Space[Any]] = {OBSERVATION: code.observation_space}
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
