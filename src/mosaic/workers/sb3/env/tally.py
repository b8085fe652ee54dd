"""Tally of a VecEnv: steps, episodes and returns, and the time that envs take."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from time import perf_counter
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnvWrapper
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

from mosaic.core.ids import AgentID
from mosaic.runners.screen import Shot
from mosaic.telemetry.events.info_numbers import InfoNumbers
from mosaic.workers.sb3.env.gym import GymVecEnv
from mosaic.workers.sb3.env.slots import SlotVecEnv

AgentVecEnv: TypeAlias = GymVecEnv | SlotVecEnv
StateArrays: TypeAlias = Mapping[str, NDArray[np.generic]]

_SUM_EVERY = 64  # steps; adding up at every step would take as long as a step of a small env


class TallyVecEnv(VecEnvWrapper):
    """Wrapper that counts, passes everything through unchanged, and is the camera's scene."""

    def __init__(self, venv: AgentVecEnv, window: int) -> None:
        super().__init__(venv)
        self.source = venv
        self.envs = venv.envs_count
        self.freezes = venv.freezes
        self.env_steps = self.agent_steps = self.episodes = 0
        self.env_s = 0.0
        self.numbers = InfoNumbers()
        self.recent_returns: dict[AgentID, deque[float]] = {}  # of each agent: in turn-based games some end more often
        self.recent_lengths: deque[int] = deque(maxlen=window)
        self._returns, self._lengths = np.zeros(venv.num_envs), np.zeros(self.envs, np.int64)
        self._paid: NDArray[np.generic] = np.zeros(venv.num_envs)  # rewards of the last step
        self._rewards: list[NDArray[np.generic]] = []  # of the steps that are not in returns and lengths yet
        self._steps: list[NDArray[np.int64]] = []  # of the envs in the same steps; none: one in each

    def reset(self) -> VecEnvObs:
        self._rewards.clear()
        self._steps.clear()
        self._returns[:] = 0
        self._lengths[:] = 0
        return self.venv.reset()

    def step_wait(self) -> VecEnvStepReturn:
        began_s, source = perf_counter(), self.source
        _, self._paid, dones, infos = result = self.venv.step_wait()
        self._rewards.append(self._paid)
        if source.steps is None:
            self.env_steps += self.envs
        else:
            self._steps.append(source.steps.copy())
            self.env_steps += int(source.steps.sum())
        self.agent_steps += source.acted_count
        if source.ended:
            self._add_up()
            self._paid = self._paid.copy()  # SB3 adds the value of what was truncated to the array itself
            for slot in np.flatnonzero(dones & source.acted):
                self._returns_of(self._agent(int(slot))).append(float(self._returns[slot]))
                self.numbers.add(infos[slot])
            self.episodes += int(np.count_nonzero(source.finished))
            self.recent_lengths.extend(self._lengths[source.finished].tolist())
            self._returns[dones], self._lengths[source.finished] = 0, 0
        elif len(self._rewards) >= _SUM_EVERY:
            self._add_up()
        self.env_s += perf_counter() - began_s
        return result

    def _add_up(self) -> None:
        """Bring returns and lengths up to date."""
        if self._rewards:
            self._returns += np.sum(self._rewards, axis=0, dtype=np.float64)
            self._lengths += np.sum(self._steps, axis=0) if self._steps else len(self._rewards)
            self._rewards.clear()
            self._steps.clear()

    def _agent(self, slot: int) -> AgentID:
        slots = self.num_envs // self.envs
        return self.source.acting(slot // slots)[slot % slots]

    def _returns_of(self, agent: AgentID) -> deque[float]:
        return self.recent_returns.setdefault(agent, deque(maxlen=self.recent_lengths.maxlen))

    def return_mean(self) -> float | None:
        """Return the mean over the learning agents of the mean of each."""
        means = [sum(returns) / len(returns) for returns in tuple(self.recent_returns.values())]
        return sum(means) / len(means) if means else None

    def count_on(self, before: TallyVecEnv) -> None:
        """Continue the counters of another tally, whose episodes are forgotten."""
        self.env_steps, self.agent_steps, self.episodes = before.env_steps, before.agent_steps, before.episodes
        self.numbers = before.numbers

    def shoot(self, index: int) -> Shot:
        self._add_up()
        slots = self.num_envs // self.envs
        first = index * slots
        return Shot(
            draw=self.source.draw(index),
            env=index,
            env_steps=self.env_steps,
            episode=self.episodes,
            reward=float(self._paid[first]),
            returns=dict(zip(self.source.acting(index), self._returns[first : first + slots].tolist(), strict=True)),
        )

    def state(self) -> dict[str, NDArray[np.generic]]:
        """Return the counters and recent episodes, and what the episodes under way have earned so far."""
        self._add_up()
        return {
            "tally.counters": np.array([self.env_steps, self.agent_steps, self.episodes], np.int64),
            "tally.recent_returns": np.array([each for _, each in self._recent()], np.float64),
            "tally.recent_agents": np.array([agent for agent, _ in self._recent()], np.int64),
            "tally.recent_lengths": np.array(self.recent_lengths, np.int64),
            "tally.returns": self._returns.copy(),
            "tally.lengths": self._lengths.copy(),
        }

    def _recent(self) -> list[tuple[int, float]]:
        """Return the recent returns, each with the number of its agent."""
        agents = self.source.agents
        return [(agents.index(agent), each) for agent, returns in self.recent_returns.items() for each in returns]

    def load(self, state: StateArrays, *, episodes_continue: bool) -> None:
        self.env_steps, self.agent_steps, self.episodes = (int(each) for each in state["tally.counters"])
        returns, agents = state["tally.recent_returns"].tolist(), self.source.agents
        if "tally.recent_agents" in state or len(agents) == 1:  # earlier versions did not save whose returns they are
            for number, each in zip(state.get("tally.recent_agents", [0] * len(returns)), returns, strict=True):
                self._returns_of(agents[int(number)]).append(each)
        self.recent_lengths.extend(state["tally.recent_lengths"].tolist())
        if episodes_continue:
            self._returns[:] = state["tally.returns"]
            self._lengths[:] = state["tally.lengths"].reshape(self.envs, -1).max(axis=1)  # earlier versions: of slots
