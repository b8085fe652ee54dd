"""Base of wrappers that change observations and pass the rest of a Turn through."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeGuard, TypeVar

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Box, Discrete, Space
from numpy.typing import NDArray
from pydantic import Field, field_validator

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.lazy import Lookup
from mosaic.core.reference import Options
from mosaic.core.turn import Action, Observation, Turn
from mosaic.envs.codes import Bins, read_bins, space_code
from mosaic.envs.codes.box import UNBOUNDED
from mosaic.envs.env import Env
from mosaic.envs.wrappers.transform import Transform, WrapperKind

T = TypeVar("T")
Scalar = TypeVar("Scalar", bound=np.generic)


class View(NamedTuple):
    """A transformation of the observations of one space."""

    space: Space[object]  # of what `see` returns
    see: Callable[[Observation], Observation]  # returns a new object; its argument is never written to


class Viewed(Transform):
    """Wrapper that applies to every agent the view of its space; a view may refuse a space with an InputError."""

    passes_actions = True

    def __init__(self, env: Env, view: Callable[[Space[object]], View]) -> None:
        super().__init__(env)
        self._views = each_agent(env, view)
        self.observation_spaces = Lookup(lambda agent: self._views[agent].space, env.possible_agents)

    def reset(self, seed: int | None = None) -> Turn:
        return seen(self.env.reset(seed), self._see)

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        return seen(self.env.step(actions), self._see)

    def _see(self, agent: AgentID, observation: Observation) -> Observation:
        return self._views[agent].see(observation)


def seen(turn: Turn, see: Callable[[AgentID, Observation], Observation]) -> Turn:
    """Return the Turn with every observation, final ones included, transformed by `see`."""
    now, masks, rewards, terminated, truncated, finals, infos = turn  # `_replace` would take twice as long
    now = {agent: see(agent, observation) for agent, observation in now.items()}
    finals = {agent: see(agent, observation) for agent, observation in finals.items()}
    return Turn(now, masks, rewards, terminated, truncated, finals, infos)


def each_agent(env: Env, view: Callable[[Space[object]], T]) -> Lookup[AgentID, T]:
    """Return the view of each agent's space, also for agents that appear later; a refusal names the agent."""

    def ask(agent: AgentID) -> T:
        space = env.observation_spaces[agent]
        try:
            return view(space)
        except InputError as error:
            shown = " ".join(str(space).split())
            raise InputError(f"{error} In {env.spec.env_id}, '{agent}' sees {shown}.") from error

    return Lookup(ask, env.possible_agents)


def is_picture(space: Space[object]) -> TypeGuard[Box]:
    """Return whether this is a Box of uint8 or floats, shaped (height, width) or (height, width, channels)."""
    if not isinstance(space, Box) or not (space.dtype == np.uint8 or np.issubdtype(space.dtype, np.floating)):
        return False
    # three planes of 210×160 are an image too, but not one whose last axis holds the channels
    channels_first = len(space.shape) == 3 and space.shape[0] <= 4 < space.shape[2]
    return len(space.shape) in (2, 3) and not channels_first


def flattened(space: Space[object]) -> View:
    """Flatten as Gymnasium does (Discrete: one-hot), in float32."""
    if not space.is_np_flattenable:
        raise InputError(
            "The wrapper 'flatten' takes observations of one fixed size: Box, Discrete, MultiDiscrete, MultiBinary, "
            "Text, and Dict, Tuple or OneOf of these."
        )
    flat = spaces.flatten_space(space)
    assert isinstance(flat, Box)  # guaranteed by is_np_flattenable

    def see(observation: Observation) -> NDArray[np.float32]:
        return _single(spaces.flatten(space, observation))

    return View(Box(_single(flat.low), _single(flat.high), flat.shape, np.float32), see)


def _single(numbers: object) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # values beyond float32 become infinity, in the bounds as in the observations
        return np.array(numbers, dtype=np.float32)


def _make_flatten(env: Env, options: Options) -> Viewed:
    return Viewed(env, flattened)


FLATTEN = WrapperKind(
    usage="flatten",
    help="Flattens any observation of fixed size into a float32 vector; actions are unchanged.",
    make=_make_flatten,
)


def normalised(space: Space[object]) -> View:
    """Scale whole numbers and booleans to [0, 1], floats to [-1, 1], as float32.

    Observations outside the env's own bounds are clipped; where both bounds are equal, the result is 0.
    """
    if not isinstance(space, Box):
        raise InputError(
            "The wrapper 'normalise' scales Box observations by their bounds. For other spaces, "
            "put 'flatten' before it."
        )
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    is_float = np.issubdtype(space.dtype, np.floating)
    if is_float and max(np.abs(low).max(initial=0.0), np.abs(high).max(initial=0.0)) >= UNBOUNDED:
        raise InputError(
            "The wrapper 'normalise' scales by the bounds of the space, and these are infinite here. Leave it out and "
            "let the learner normalise observations: it measures their mean and variance while it trains."
        )
    least = -1.0 if is_float else 0.0
    zero = (low + high) / 2 if is_float else low
    span = (high - low) / 2 if is_float else high - low
    one = np.where(span > 0, span, 1.0)
    if not is_float and space.low.itemsize <= 2:  # exact in float32, and images take half the time
        zero, one = zero.astype(np.float32), one.astype(np.float32)

    def see(observation: Observation) -> NDArray[np.float32]:
        scaled: NDArray[np.floating] = np.clip((observation - zero) / one, least, 1.0)
        return scaled.astype(np.float32, copy=False)

    return View(Box(least, 1.0, space.shape, np.float32), see)


def _make_normalise(env: Env, options: Options) -> Viewed:
    return Viewed(env, normalised)


NORMALISE = WrapperKind(
    usage="normalise",
    help="Scales observations by the bounds of their space: whole numbers to [0, 1], floats to [-1, 1].",
    make=_make_normalise,
)


class DiscretiseOptions(Options):
    bins: str | None = Field(
        None,
        description="Bins of each number of a Box: 8 for all, 8/8/4 for each, 8@-3..3 for eight from -3 to 3.",
    )

    @field_validator("bins")
    @classmethod
    def _readable(cls, bins: str | None) -> str | None:
        try:
            _each(bins)
        except InputError as error:
            raise ValueError(str(error).removeprefix("bins: ").removesuffix(".")) from error
        return bins


def discretised(options: DiscretiseOptions) -> Callable[[Space[object]], View]:
    """Return a view that replaces an observation by its index in `space_code`."""
    each = _each(options.bins)
    bins = each[0] if each is not None and len(each) == 1 else each

    def view(space: Space[object]) -> View:
        code = space_code(space, bins, spell=_spell)
        return View(Discrete(code.size), code.encode)

    return view


def _each(bins: str | None) -> list[Bins] | None:
    return None if bins is None else [read_bins(one) for one in bins.split("/")]


def _spell(entries: Sequence[str]) -> str:
    return f"'discretise:bins={'/'.join(entries)}'."


def _make_discretise(env: Env, options: DiscretiseOptions) -> Viewed:
    return Viewed(env, discretised(options))


DISCRETISE = WrapperKind(
    usage="discretise[:bins=8]",
    help="Encodes any observation as one integer; the numbers of a Box are cut into bins.",
    make=_make_discretise,
    options=DiscretiseOptions,
    first="bins",
)


class FrameStackOptions(Options):
    num: int = Field(4, ge=1, le=256, description="Number of observations to stack, the newest last.")


class FrameStack(Transform):
    """Wrapper that stacks each agent's own latest observations, oldest first; initially, its first one is repeated.

    A frame is what the agent observed on a turn of its own: in a turn-based game the others' turns add none.
    """

    passes_actions = True

    def __init__(self, env: Env, num: int) -> None:
        super().__init__(env)
        self._num = num
        self._frames: dict[AgentID, deque[NDArray[np.number]]] = {}
        self.observation_spaces = each_agent(env, lambda space: stacked_space(space, num))

    def reset(self, seed: int | None = None) -> Turn:
        self._frames.clear()
        return seen(self.env.reset(seed), self._see)

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        turn = seen(self.env.step(actions), self._see)
        for agent in turn.final_observations:
            del self._frames[agent]
        return turn

    def _see(self, agent: AgentID, observation: Observation) -> NDArray[np.number]:
        frame = np.asarray(observation, dtype=self.observation_spaces[agent].dtype)
        if agent not in self._frames:
            self._frames[agent] = deque([frame] * self._num, self._num)
        self._frames[agent].append(frame)
        return stack(tuple(self._frames[agent]))


def stack(frames: Sequence[NDArray[Scalar]]) -> NDArray[Scalar]:
    """Stack (height, width, channels) along the channels; any other shape along a new first axis."""
    return np.concatenate(frames, axis=-1) if frames[0].ndim == 3 else np.stack(frames)


def stacked_space(space: Space[object], num: int) -> Box:
    if not isinstance(space, Box):
        raise InputError("The wrapper 'frame_stack' takes Box observations. For other spaces, put 'flatten' before it.")
    low, high = stack([space.low] * num), stack([space.high] * num)
    return Box(low, high, dtype=low.dtype.type)


def _make_frame_stack(env: Env, options: FrameStackOptions) -> FrameStack:
    return FrameStack(env, options.num)


FRAME_STACK = WrapperKind(
    usage="frame_stack[:num=4]",
    help="Stacks each agent's last observations: pictures along their channels, others along a new first axis.",
    make=_make_frame_stack,
    options=FrameStackOptions,
)
