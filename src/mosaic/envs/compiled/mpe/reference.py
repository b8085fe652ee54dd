"""Conversion of an mpe2 env's options to a compiled world, and of a compiled world's state back to the mpe2 env."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import ConfigDict, Field, ValidationError

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.reference import Options
from mosaic.envs.compiled.mpe.physics import CYCLES
from mosaic.envs.env import Env

Count: TypeAlias = Annotated[int, Field(ge=1)]
_Model = TypeVar("_Model", bound="ParticleOptions")


class ParticleOptions(Options):
    """Options of an mpe2 env that the compiled worlds support; anything else does not validate."""

    model_config = ConfigDict(strict=True)

    max_cycles: Count = 25
    continuous_actions: Literal[False] = False
    benchmark_data: Literal[False] = False
    dynamic_rescaling: bool = True  # rendering only
    render_mode: Literal["rgb_array"] | None = None


class SightOptions(ParticleOptions):
    """Options of envs in which agents may see their nearest neighbours only."""

    num_agent_neighbors: Count | None = None
    num_landmark_neighbors: Count | None = None

    @property
    def near(self) -> tuple[int, int]:
        """Numbers of agents and landmarks; 0: all."""
        return self.num_agent_neighbors or 0, self.num_landmark_neighbors or 0


def fitting_options(config: EnvironmentConfig, model: type[_Model]) -> _Model | None:
    """Return the options, or None if the compiled world has other rules than the env of this configuration."""
    if config.wrappers or config.api_type not in ("auto", "parallel"):
        return None
    try:
        return model.model_validate(config.options)
    except ValidationError:
        return None


def load_world(
    env: Env, state: NDArray[np.float64], ints: NDArray[np.int64], goals: Sequence[int] = (), words: Sequence[int] = ()
) -> None:
    """Load a row of state into the mpe2 env below a running Env.

    `goals` in the order in which the scenario draws them; `words` of the agents that speak first, -1 for silence.
    """
    raw: Any = env.env.unwrapped  # type: ignore[attr-defined]
    agents, entities = len(raw.world.agents), len(raw.world.entities)
    pairs = state[:-1].reshape(-1, 2)
    raw.scenario.reset_world(raw.world, _Draws(goals, pairs[:entities]))
    for agent, velocity in zip(raw.world.agents, pairs[entities : entities + agents], strict=True):
        agent.state.p_vel = velocity.copy()
    for agent, word in zip(raw.world.agents, words, strict=False):
        agent.state.c = np.zeros(raw.world.dim_c)
        if word >= 0:
            agent.state.c[word] = 1.0
    raw.steps = int(ints[CYCLES])
    raw.original_cam_range = state[-1]


def load_goalless(env: Env, state: NDArray[np.float64], ints: NDArray[np.int64]) -> None:
    load_world(env, state, ints)


class _Draws:
    """Replacement of the reference's random generator that returns recorded goals, colours and positions."""

    def __init__(self, goals: Sequence[int], places: NDArray[np.float64]) -> None:
        self._goals: Iterator[int] = iter(goals)
        self._places = chain(places.copy())

    def integers(self, count: int) -> int:
        return next(self._goals)

    def uniform(self, low: float, high: float, size: int) -> NDArray[np.float64]:
        return next(self._places)
