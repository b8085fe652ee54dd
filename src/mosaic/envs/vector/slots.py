"""Single envs inside a vector env: writers of their Turns into its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import MosaicError
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.envs.adapters.gymnasium import AGENT, GymnasiumEnv
from mosaic.envs.env import Env
from mosaic.envs.learner_view import LearnerView, Others
from mosaic.envs.vector.encoding import Row, action_code, row_code
from mosaic.envs.vector.layout import EndedInfo, VectorArrays, VectorShape
from mosaic.telemetry.events.info_numbers import numbers_in


class _Place(NamedTuple):
    """Location of one of the learner's agents in the arrays."""

    row: int  # of rewards and ends
    slot: int
    choices: int  # how many entries of the mask are its own
    action: Callable[[Row], Action]
    write: Callable[[Observation, Row], None]
    seen: Row
    rest: Row  # columns that another agent of the same slot may have written
    final: Row


class InfoWriter:
    """Writer of the numbers in infos of agents that ended into the list of the whole vector."""

    def __init__(self, ended: list[EndedInfo], first_row: int) -> None:
        self._ended, self._first_row = ended, first_row

    def add(self, row: int, info: Mapping[str, object]) -> None:
        numbers = numbers_in(info)
        if numbers:
            self._ended.append(EndedInfo(self._first_row + row, numbers))


class TurnSlot:
    """One env in which the learner's agents have rows and `others` play the rest.

    Agents that learn in other envs, but are played here, have rows: their rewards and ends are recorded, and their
    slots never act.

    A step continues until one of the learner's agents must act. Their rewards meanwhile are summed; rewards before
    their first observation in a new episode are left out, since no decision of theirs earned them.
    """

    def __init__(
        self,
        env: Env,
        shape: VectorShape,
        arrays: VectorArrays,
        others: Others | None,
        index: int,
        infos: InfoWriter,
        steps: NDArray[np.int64],
    ) -> None:
        self._arrays, self._infos, self._steps = arrays, infos, steps
        self._before = 0  # env steps of the episode before its first step here
        self._show = self._show_one if shape.turn_based else self._show_all
        self._places = {agent: _place(env, shape, arrays, row) for row, agent in enumerate(shape.agents)}
        played = others.plays(index) if others else ()
        self._ours = {agent: place for agent, place in self._places.items() if agent not in played}
        self._view = LearnerView(env, self._ours, others, index)
        self._movers = [(agent, place.slot, place.action) for agent, place in self._ours.items()]
        self._masked = shape.masked
        self._nothing = [0.0] * len(shape.agents)
        self._seeds: Iterator[int] = iter(())

    def begin(self, seeds: Iterator[int]) -> None:
        self._seeds, self._before = seeds, 0
        arrays = self._arrays
        arrays.rew.fill(0)
        for place in self._places.values():
            arrays.who[place.slot] = place.row  # arrays made elsewhere may not be initialised yet
            if self._masked:  # slots that are not filled yet must not look as if nothing were legal
                arrays.mask[place.slot, : place.choices] = 1
        for agent in self._places.keys() - self._ours.keys():
            arrays.active[self._places[agent].slot] = 0
        self._show(self._first())

    @property
    def sends_ahead(self) -> bool:
        return self._view.sends_ahead

    def send(self, act: NDArray[np.float32]) -> None:
        """Begin the next step, in an env that can: other envs begin theirs before `step` waits for its result."""
        self._view.send(self._actions(act))

    def step(self, act: NDArray[np.float32]) -> None:
        view = self._view
        actions = self._actions(act)
        paid = self._nothing.copy()
        self._book(view.step(actions), paid)
        self._steps[0], self._before = self._before + 1, 0
        if view.others is not None:
            for turn in view.others_steps():
                self._book(turn, paid)
                self._steps[0] += 1
        self._show(view.turn if view.turn.observations else self._first())
        self._arrays.rew[:] = paid

    def _actions(self, act: NDArray[np.float32]) -> dict[AgentID, Action]:
        observations = self._view.turn.observations
        return {agent: action(act[slot]) for agent, slot, action in self._movers if agent in observations}

    def _first(self) -> Turn:
        """Begin the next episode in which one of the learner's agents must act; return the Turn where it does."""
        view = self._view
        while True:
            view.begin(next(self._seeds))
            for _ in view.others_steps():  # rewards before their first observation are not theirs
                self._before += 1
            if view.turn.observations:
                return view.turn

    def _book(self, turn: Turn, paid: list[float]) -> None:
        places = self._places
        for agent, reward in turn.rewards.items():
            if agent in places:
                paid[places[agent].row] += reward
        for agent, seen in turn.final_observations.items():
            if agent in places:
                place = places[agent]
                self._arrays.term[place.row] = turn.terminated[agent]
                if turn.truncated[agent]:
                    self._arrays.trunc[place.row] = 1
                    place.write(seen, place.final)
                if info := turn.infos.get(agent):
                    self._infos.add(place.row, info)

    def _show_all(self, turn: Turn) -> None:
        active, observations, masks = self._arrays.active, turn.observations, turn.action_masks
        for agent, place in self._ours.items():
            if agent in observations:
                active[place.slot] = 1
                place.write(observations[agent], place.seen)
                if masks or self._masked:
                    self._show_mask(place, agent, masks)
            elif active[place.slot]:
                active[place.slot] = 0
                place.seen.fill(0)  # a centralised critic reads the rows of the dead

    def _show_one(self, turn: Turn) -> None:
        (agent,) = turn.observations
        place = self._places[agent]
        self._arrays.active[0] = 1
        self._arrays.who[0] = place.row
        place.write(turn.observations[agent], place.seen)
        if len(place.rest):
            place.rest.fill(0)
        if turn.action_masks or self._masked:
            self._show_mask(place, agent, turn.action_masks)

    def _show_mask(self, place: _Place, agent: AgentID, masks: Mapping[AgentID, Mask]) -> None:
        rows = self._arrays.mask
        if self._masked:
            rows[place.slot, : place.choices] = masks.get(agent, 1)
            rows[place.slot, place.choices :] = 0
        elif agent in masks:
            raise MosaicError(
                f"{self._view.env.spec.env_id} restricts what '{agent}' may do, but gave no mask in its first "
                "Turn. Create the vector env with masked=True."
            )


def _place(env: Env, shape: VectorShape, arrays: VectorArrays, row: int) -> _Place:
    agent = shape.agents[row]
    slot = 0 if shape.turn_based else row
    width = shape.widths[row]
    return _Place(
        row=row,
        slot=slot,
        choices=shape.heads[row].width,
        action=action_code(env.action_spaces[agent]).action,
        write=row_code(env.observation_spaces[agent]).write,
        seen=arrays.obs[slot, :width],
        rest=arrays.obs[slot, width:],
        final=arrays.fin[row, :width],
    )


class GymSlot:
    """One Gymnasium env; gives the same numbers as through `GymnasiumEnv`, without its Turns."""

    def __init__(self, env: GymnasiumEnv, arrays: VectorArrays, infos: InfoWriter) -> None:
        self._step, self._reset = env.env.step, env.env.reset
        self._action = action_code(env.action_spaces[AGENT]).action
        self._write = row_code(env.observation_spaces[AGENT]).write
        self._row, self._final = arrays.obs[0], arrays.fin[0]
        self._arrays, self._infos = arrays, infos
        self._paid, self._active = arrays.rew, arrays.active
        self._seeds: Iterator[int] = iter(())

    def begin(self, seeds: Iterator[int]) -> None:
        self._seeds = seeds
        self._paid[0], self._active[0] = 0, 1
        self._write(self._reset(seed=next(seeds))[0], self._row)

    def step(self, act: NDArray[np.float32]) -> None:
        observation, reward, terminated, truncated, info = self._step(self._action(act[0]))
        self._paid[0] = reward
        if terminated or truncated:
            if info:
                self._infos.add(0, info)
            observation = self._end(observation, terminated, truncated)
        self._write(observation, self._row)

    def _end(self, observation: Observation, terminated: bool, truncated: bool) -> Observation:
        self._arrays.term[0], self._arrays.trunc[0] = terminated, truncated
        if truncated:
            self._write(observation, self._final)
        return self._reset(seed=next(self._seeds))[0]
