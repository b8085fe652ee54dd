"""Vector env that steps Python envs in one process, writing directly into its arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import count
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError, unknown
from mosaic.core.seeding import child_seed
from mosaic.envs.adapters.gymnasium import GymnasiumEnv
from mosaic.envs.env import Env, EnvSpec
from mosaic.envs.learner_view import Others
from mosaic.envs.vector.encoding import action_code, row_code
from mosaic.envs.vector.layout import EndedInfo, VectorArrays, VectorShape, vector_arrays
from mosaic.envs.vector.slots import GymSlot, InfoWriter, TurnSlot
from mosaic.envs.wrappers.transform import close_all


class EnvSlot(Protocol):
    """One env that writes into its own part of the arrays."""

    def begin(self, seeds: Iterator[int]) -> None: ...  # one seed for each episode

    def step(self, act: NDArray[np.float32]) -> None: ...  # [slots of the env, parts]; term and trunc are 0 before


class PythonVector:
    """Vector env that owns its envs and `others`, and closes them.

    `masked` says whether actions may be illegal; by default, the first Turn decides. `arrays` and `steps` are written
    into (they may be in shared memory), `first` is the number of the first env if several such vectors share the work:
    an env's episodes depend on its number and the seed alone.
    """

    def __init__(
        self,
        envs: Sequence[Env],
        others: Others | None = None,
        *,
        masked: bool | None = None,
        arrays: VectorArrays | None = None,
        steps: NDArray[np.int64] | None = None,
        first: int = 0,
    ) -> None:
        self.shape = vector_shape(envs, others, masked)
        self.obs, self.mask, self.who, self.active, self.rew, self.term, self.trunc, self.fin = every = (
            vector_arrays(self.shape) if arrays is None else arrays
        )
        self.steps = np.zeros(len(envs), np.int64) if steps is None else steps
        self.steps.fill(1)
        self._envs, self._others = tuple(envs), others
        self.ended_infos: list[EndedInfo] = []
        rows = len(self.shape.agents)
        self._slots = {
            first + e: _slot(
                env,
                self.shape,
                part_of(every, self.shape, e, e + 1),
                others,
                first + e,
                InfoWriter(self.ended_infos, e * rows),
                self.steps[e : e + 1],
            )
            for e, env in enumerate(envs)
        }
        self._ahead = [(e, s) for e, s in enumerate(self._slots.values()) if isinstance(s, TurnSlot) and s.sends_ahead]

    def reset(self, seed: int) -> None:
        self.term.fill(0)
        self.trunc.fill(0)
        self.ended_infos.clear()
        for index, slot in self._slots.items():
            slot.begin(episode_seeds(seed, index))

    def step(self, act: NDArray[np.float32]) -> None:
        self.term.fill(0)
        self.trunc.fill(0)
        self.ended_infos.clear()
        index, grouped = next(iter(self._slots)), act.reshape(len(self._slots), -1, self.shape.parts)
        try:
            for number, sender in self._ahead:
                sender.send(grouped[number])
            for (index, slot), rows in zip(self._slots.items(), grouped, strict=True):  # noqa: B007 - the note names it
                slot.step(rows)
        except Exception as error:
            error.add_note(f"This came from {self._envs[0].spec.env_id}, env number {index} of the vector.")
            raise

    def render(self, index: int) -> NDArray[np.uint8] | None:
        return self._envs[index].render()

    def close(self) -> None:
        with ExitStack() as stack:  # closes the rest even if one fails
            stack.callback(close_all, self._envs)
            if self._others:
                stack.callback(self._others.close)


def vector_shape(envs: Sequence[Env], others: Others | None = None, masked: bool | None = None) -> VectorShape:
    """Return the shape of these envs as a vector; reset the first if only a Turn shows whether there are masks."""
    if not envs:
        raise InputError("A vector env needs at least one env.")
    shapes = {shape_of(env.spec, len(envs), others, masked=False) for env in envs}
    if len(shapes) > 1:
        raise InputError(f"Envs that differ in agents, observations or actions cannot form one vector env: {shapes}.")
    if masked is None:
        masked = bool(envs[0].reset(0).action_masks)
    return shape_of(envs[0].spec, len(envs), others, masked)


def shape_of(spec: EnvSpec, envs: int, others: Others | None, masked: bool) -> VectorShape:
    """Return the shape of this many such envs as a vector."""
    if not spec.possible_agents:
        raise InputError(f"{spec.env_id} does not know its agents in advance, so they cannot be assigned to rows.")
    played = set(others.agents) if others else set()
    for agent in sorted(played.difference(spec.possible_agents)):
        raise unknown("agent", agent, spec.possible_agents)
    agents = tuple(agent for agent in spec.possible_agents if agent not in played)
    if not agents:
        raise InputError(
            f"All agents of {spec.env_id} have fixed policies ({', '.join(spec.possible_agents)}): there is "
            f"nothing to learn."
        )
    return VectorShape(
        envs=envs,
        agents=agents,
        turn_based=spec.facts.turn_based,
        widths=tuple(row_code(spec.observation_spaces[agent]).width for agent in agents),
        heads=tuple(action_code(spec.action_spaces[agent]).head for agent in agents),
        masked=masked,
    )


def part_of(arrays: VectorArrays, shape: VectorShape, start: int, stop: int) -> VectorArrays:
    """Return the part of the arrays that belongs to envs start … stop − 1."""
    slots = slice(start * shape.slots_per_env, stop * shape.slots_per_env)
    rows = slice(start * len(shape.agents), stop * len(shape.agents))
    obs, mask, who, active, rew, term, trunc, fin = arrays
    return VectorArrays(
        obs[slots], mask[slots], who[slots], active[slots], rew[rows], term[rows], trunc[rows], fin[rows]
    )


def episode_seeds(seed: int, index: int) -> Iterator[int]:
    """Yield the seeds of the episodes that env number `index` plays."""
    return (child_seed(seed, "env", index, episode) for episode in count())


def _slot(
    env: Env,
    shape: VectorShape,
    arrays: VectorArrays,
    others: Others | None,
    index: int,
    infos: InfoWriter,
    steps: NDArray[np.int64],
) -> EnvSlot:
    if others is None and type(env) is GymnasiumEnv and env.plain:
        return GymSlot(env, arrays, infos)
    return TurnSlot(env, shape, arrays, others, index, infos, steps)
