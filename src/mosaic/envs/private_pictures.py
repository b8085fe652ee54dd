"""Pictures of what one agent may see, of envs whose agents hide something from each other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from mosaic.core.ids import AgentID
from mosaic.envs.env import Env, innermost
from mosaic.envs.family import split_version

_NEUTRAL = np.array([0.25, 0.25, 0.25])  # colour of a particle that tells nothing


class _Change(NamedTuple):
    """A property of the world that has another value while it is drawn."""

    owner: Any  # an object of mpe2, which has no types
    name: str
    value: object


_Disguise: TypeAlias = Callable[[Any, Any], Iterator[_Change]]  # env and the viewer's agent in it, None for spectators


def draws_for_agents(env: Env) -> bool:
    """Return whether the env has a picture for each agent."""
    return split_version(env.spec.env_id)[0] in _DISGUISES or callable(getattr(innermost(env), "render_for", None))


def picture_for(env: Env, agent: AgentID | None) -> NDArray[np.uint8] | None:
    """Return the picture that the person who plays `agent`, or a spectator (None), may see; None if there is none.

    A user's env draws it in a method `render_for(agent)`. In the particle worlds, colours that tell a secret goal,
    words that are said to others and agents in forests are not drawn.
    """
    raw, disguise = innermost(env), _DISGUISES.get(split_version(env.spec.env_id)[0])
    if disguise is None:
        own = getattr(raw, "render_for", None)
        drawn = own(agent) if callable(own) else None
        return None if drawn is None else np.asarray(drawn)
    viewer = next((each for each in raw.world.agents if each.name == agent), None)
    with _changed(list(disguise(raw, viewer))):
        return env.render()


@contextmanager
def _changed(changes: list[_Change]) -> Iterator[None]:
    kept = [getattr(change.owner, change.name) for change in changes]
    for change in changes:
        setattr(change.owner, change.name, change.value)
    try:
        yield
    finally:
        for change, value in zip(changes, kept, strict=True):
            setattr(change.owner, change.name, value)


def _adversary(raw: Any, viewer: Any) -> Iterator[_Change]:
    """Hide from the adversary which landmark is the goal."""
    if viewer is None or viewer.adversary:
        yield from (_Change(landmark, "color", _NEUTRAL) for landmark in raw.world.landmarks)


def _push(raw: Any, viewer: Any) -> Iterator[_Change]:
    """Hide from the adversary the colour of the other agent, which is that of its goal."""
    if viewer is None or viewer.adversary:
        yield from (_Change(agent, "color", _NEUTRAL) for agent in raw.world.agents if not agent.adversary)


def _crypto(raw: Any, viewer: Any) -> Iterator[_Change]:
    """Hide the message in clear from all but the speaker, and words that are guesses from all but who guesses."""
    if viewer is None or not viewer.speaker:
        yield from (_Change(a, "color", _NEUTRAL) for a in raw.world.agents if not a.speaker and not a.adversary)
    silence = np.zeros(raw.world.dim_c)
    yield from (_Change(a.state, "c", silence) for a in raw.world.agents if not a.speaker and a is not viewer)


def _reference(raw: Any, viewer: Any) -> Iterator[_Change]:
    """Hide from each agent its own goal, which the other one knows."""
    yield from (_Change(agent, "color", _NEUTRAL) for agent in raw.world.agents if viewer in (None, agent))


def _speaker_listener(raw: Any, viewer: Any) -> Iterator[_Change]:
    """Hide the goal from the listener, who has its colour."""
    if viewer is None or viewer.movable:
        yield from (_Change(agent, "color", _NEUTRAL) for agent in raw.world.agents if agent.movable)


def _world_comm(raw: Any, viewer: Any) -> Iterator[_Change]:
    """Hide agents in forests from those outside, and the other way round; the leader sees all."""
    if viewer is not None and viewer.leader:
        return
    around = frozenset() if viewer is None else _forests(raw, viewer)
    for agent in raw.world.agents:
        place = _forests(raw, agent)
        if agent is not viewer and place != around and not place & around:
            yield _Change(agent, "size", 0.0)


def _forests(raw: Any, agent: Any) -> frozenset[int]:
    return frozenset(n for n, forest in enumerate(raw.world.forests) if raw.scenario.is_collision(agent, forest))


_DISGUISES: dict[str, _Disguise] = {
    "mpe/simple_adversary": _adversary,
    "mpe/simple_push": _push,
    "mpe/simple_crypto": _crypto,
    "mpe/simple_reference": _reference,
    "mpe/simple_speaker_listener": _speaker_listener,
    "mpe/simple_world_comm": _world_comm,
}
