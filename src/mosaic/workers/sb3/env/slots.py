"""Mosaic's vector envs behind SB3's VecEnv interface: one SB3 env for each agent that learns.

An agent that ends before its episode does leaves an idle slot. SB3 chooses an action for it like for all others, which
is not read; its transitions carry no reward, are marked as ended, and `acted` tells buffers to leave them out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Space
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID
from mosaic.envs.compiled.vector import CompiledVector
from mosaic.envs.vector.decoding import observation_decoder
from mosaic.envs.vector.layout import HasInfos, VectorEnv, step_counts
from mosaic.runners.screen import Draw

MASKS = "action_masks"  # name of the method that MaskablePPO calls


class SlotVecEnv(VecEnv):
    """VecEnv over a vector env whose agents have equal spaces.

    In turn-based games every env has one slot, whose agent never changes: others play the rest.
    """

    def __init__(self, vector: VectorEnv, observation_space: Space[Any], action_space: Space[Any]) -> None:
        self.vector = vector
        shape = vector.shape
        self.envs_count = shape.envs
        self.freezes = isinstance(vector, CompiledVector)  # whether `draw` may be called later
        self.acted, self.acted_count = np.ones(shape.slots, bool), shape.slots  # slots that acted in the last step
        self.finished, self.ended = np.zeros(shape.envs, bool), 0  # envs and number of slots that did in the last step
        self.steps = step_counts(vector)
        self._ended_infos = vector.ended_infos if isinstance(vector, HasInfos) else []
        self._decode = observation_decoder(observation_space)
        self._act = np.zeros((shape.slots, shape.parts), np.float32)
        self._rows = np.arange(shape.slots) * (len(shape.agents) if shape.turn_based else 1)
        super().__init__(shape.slots, observation_space, action_space)
        self._nothing: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        self.reset_infos = self._nothing

    @property
    def agents(self) -> tuple[AgentID, ...]:
        return self.vector.shape.agents

    def reset(self) -> VecEnvObs:
        self.vector.reset(self._seeds[0] or 0)
        self._reset_seeds()
        return self.begin()

    def begin(self) -> VecEnvObs:
        """Return the observations of the vector env as it is, after a reset or with a state that was loaded."""
        shape = self.vector.shape
        if shape.turn_based:
            self._rows = np.arange(shape.slots) * len(shape.agents) + self.vector.who
        self._acts = self.vector.active.astype(bool)
        return self._observations()

    def step_async(self, actions: NDArray[np.generic]) -> None:
        self._act[:] = actions.reshape(self._act.shape)

    def step_wait(self) -> VecEnvStepReturn:
        vector = self.vector
        self.acted = acted = self._acts
        self.acted_count = int(np.count_nonzero(acted))
        vector.step(self._act)
        self._acts = acts = vector.active.astype(bool)
        rewards, terminated, truncated = vector.rew[self._rows], vector.term[self._rows], vector.trunc[self._rows]
        dones = (terminated | truncated).astype(bool)
        infos: list[dict[str, Any]] = self._nothing
        self.finished, self.ended = np.zeros(self.envs_count, bool), int(np.count_nonzero(dones))
        if self.ended:
            infos, numbers = infos.copy(), dict(self._ended_infos)
            for slot in np.flatnonzero(dones).tolist():
                ended = self._end(slot, bool(truncated[slot]) and not terminated[slot])
                infos[slot] = {**numbers.get(int(self._rows[slot]), {}), **ended}
            over = dones.reshape(self.envs_count, -1) | ~acted.reshape(self.envs_count, -1)
            again = acts.reshape(self.envs_count, -1).any(axis=1)
            self.finished = over.all(axis=1) & again
        if self.acted_count < len(acted) or not acts.all():
            self._check_waiting(acted & ~acts & ~dones)
            dones = dones | ~acted
            rewards = np.where(acted, rewards, np.float32(0))
        return self._observations(), rewards, dones, infos

    def _end(self, slot: int, truncated: bool) -> dict[str, Any]:
        """Return the info of an agent that ended; the vector env knows final observations of truncated ones alone."""
        if not truncated:
            return {"TimeLimit.truncated": False}
        last = self._decode(self.vector.fin[self._rows[slot], None])
        one = {key: part[0] for key, part in last.items()} if isinstance(last, dict) else last[0]
        return {"TimeLimit.truncated": True, "terminal_observation": one}

    def _check_waiting(self, waiting: NDArray[np.bool_]) -> None:
        if waiting.any():
            agent = self.agents[int(np.flatnonzero(waiting)[0]) % len(self.agents)]
            raise MosaicError(
                f"'{agent}' neither acted nor ended in a step in which others acted. Stable-Baselines3 needs an action "
                "of every living agent in every step: train with --worker native."
            )

    def _observations(self) -> VecEnvObs:
        seen: Any = self._decode(self.vector.obs)
        return seen  # type: ignore[no-any-return]

    def acting(self, index: int) -> tuple[AgentID, ...]:
        """Return the agents of one env's slots."""
        shape = self.vector.shape
        return (self.agents[int(self.vector.who[index])],) if shape.turn_based else self.agents

    def draw(self, index: int) -> Draw:
        if isinstance(self.vector, CompiledVector):
            return self.vector.freeze(index)
        return lambda: self.vector.render(index)

    def close(self) -> None:
        self.vector.close()

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        if attr_name == MASKS and self.vector.shape.masked:
            return [None] * len(list(self._get_indices(indices)))
        if attr_name == "render_mode":
            return [None] * self.num_envs
        raise AttributeError(f"Envs of Mosaic have no attribute '{attr_name}' for Stable-Baselines3.")

    def env_method(
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> list[Any]:
        if method_name == MASKS and self.vector.shape.masked:
            return [self.vector.mask[slot].astype(bool) for slot in self._get_indices(indices)]
        raise AttributeError(f"Envs of Mosaic have no method '{method_name}' for Stable-Baselines3.")

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        raise AttributeError(f"Envs of Mosaic have no attribute '{attr_name}' to be set by Stable-Baselines3.")

    def env_is_wrapped(self, wrapper_class: type[Any], indices: VecEnvIndices = None) -> list[bool]:
        return [False] * len(list(self._get_indices(indices)))

    def get_images(self) -> Sequence[NDArray[np.uint8] | None]:
        return [self.vector.render(index) for index in range(self.envs_count)]
