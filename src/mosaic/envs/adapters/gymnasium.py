"""Adapter from single-agent Gymnasium envs to Mosaic's Env."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NoReturn, SupportsFloat, cast

import gymnasium
import numpy as np
from gymnasium.error import DependencyNotInstalled
from numpy.typing import NDArray

from mosaic.core.errors import MissingExtraError, shown
from mosaic.core.ids import AgentID
from mosaic.core.plugins import install_line
from mosaic.core.turn import Action, Observation, Turn
from mosaic.envs.adapters.upstream import keep_pygame
from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.envs.spaces import has_mask, inner_space, kept, mask_reader, split, unkept

AGENT: AgentID = "agent_0"
_LIVES = {AGENT: False}
_NONE: dict[AgentID, NoReturn] = {}


class GymnasiumEnv:
    """Env of one agent around a Gymnasium env.

    `info_masks`: enforce info["action_mask"]. Off by default, because Gymnasium accepts masked actions (Taxi-v3).

    `remake` recreates the env for every seeded episode, for envs whose state depends on earlier episodes.
    """

    def __init__(
        self,
        env: gymnasium.Env[Observation, Action],
        facts: EnvFacts | None = None,
        *,
        info_masks: bool = False,
        aliases: bool = True,
        remake: Callable[[], gymnasium.Env[Observation, Action]] | None = None,
    ) -> None:
        self.env = env
        self.possible_agents = (AGENT,)
        self.observation_spaces = {AGENT: inner_space(env.observation_space)}
        self.action_spaces = {AGENT: env.action_space}
        self.spec = EnvSpec(facts or EnvFacts(), self.possible_agents, self.observation_spaces, self.action_spaces)
        self._masked = info_masks or has_mask(env.observation_space)
        self._read_mask = mask_reader(env.action_space)
        self._keep = kept if aliases else unkept
        self._remake = remake
        self._over = True

    @property
    def agents(self) -> tuple[AgentID, ...]:
        return () if self._over else self.possible_agents

    @property
    def plain(self) -> bool:
        """Return whether `env` itself, reset with a seed and stepped, gives everything that this adapter gives."""
        return not self._masked and self._remake is None

    def reset(self, seed: int | None = None) -> Turn:
        if self._remake and seed is not None:
            self.close()
            self.env = self._remake()
        observation, info = self.env.reset(seed=seed)
        self._over = False
        mask = None
        if self._masked:
            observation, mask = split(observation, info, self._read_mask)
        masks = _NONE if mask is None else {AGENT: mask}
        return Turn({AGENT: self._keep(observation)}, masks, {AGENT: 0.0}, _LIVES, _LIVES, _NONE, {AGENT: info})

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        if self._over:
            raise RuntimeError("step() after the end of the episode: call reset() first.")
        if len(actions) != 1 or AGENT not in actions:
            raise ValueError(f"Actions for {sorted(actions)}, but ['{AGENT}'] must act.")
        observation, reward, terminated, truncated, info = self.env.step(actions[AGENT])
        rewards, infos, mask = {AGENT: as_reward(reward)}, {AGENT: info}, None
        if self._masked:
            observation, mask = split(observation, info, self._read_mask)
        observation = self._keep(observation)
        if terminated or truncated:
            self._over = True
            ends = {AGENT: bool(terminated)}, {AGENT: bool(truncated)}
            return Turn(_NONE, _NONE, rewards, *ends, {AGENT: observation}, infos)
        masks = _NONE if mask is None else {AGENT: mask}
        return Turn({AGENT: observation}, masks, rewards, _LIVES, _LIVES, _NONE, infos)

    def render(self) -> NDArray[np.uint8] | None:
        if self.env.render_mode is None:
            return None
        try:
            return np.ascontiguousarray(self.env.render())
        except DependencyNotInstalled as error:
            raise MissingExtraError(f"{self.spec.env_id} cannot be drawn: {_what_is_missing(error)}") from error

    def close(self) -> None:
        with keep_pygame():
            self.env.close()  # type: ignore[no-untyped-call]


def as_reward(given: object) -> float:
    """Return a reward of a foreign env as Python's float; refuse text, which `float` would read."""
    if isinstance(given, str | bytes | bytearray):
        raise TypeError(
            f"the reward is {shown(given)}, a {type(given).__name__} and not a number: return float(reward)"
        )
    return float(cast(SupportsFloat, given))


def _what_is_missing(error: DependencyNotInstalled) -> str:
    """Return the package that could not be imported and the line to type; Gymnasium's own words if it names none."""
    package = error.__cause__.name if isinstance(error.__cause__, ImportError) else None
    if package is None:
        return str(error)
    return f"it needs the Python package '{package}', which is not installed. Type: {install_line(package)}"
