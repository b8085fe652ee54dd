"""Places of agents in the picture, so that a screen can mark the agent that a person plays."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from mosaic.core.ids import AgentID
from mosaic.envs.env import Env, innermost
from mosaic.envs.family import split_version

Place: TypeAlias = tuple[float, float, float, float]  # left, top, width, height in fractions of the picture


def agent_places(env: Env) -> Mapping[AgentID, Place]:
    """Return where agents are drawn; empty for envs that do not say.

    A user's env says it with a method `agent_places()` that returns agent → (left, top, width, height).
    """
    raw, name = innermost(env), split_version(env.spec.env_id)[0]
    read = _particles if name.startswith("mpe/") else _READERS.get(name)
    if read is not None:
        return read(raw)
    own = getattr(raw, "agent_places", None)
    return {str(agent): _place(*map(float, place)) for agent, place in own().items()} if callable(own) else {}


def _place(left: float, top: float, width: float, height: float) -> Place:
    return left, top, width, height


def _inside(rect: Any, width: float, height: float) -> Place:
    """Convert a rectangle of pygame."""
    return rect.x / width, rect.y / height, rect.width / width, rect.height / height


def _knights_archers_zombies(raw: Any) -> dict[AgentID, Place]:
    from pettingzoo.butterfly.knights_archers_zombies.src import constants

    size = constants.SCREEN_WIDTH, constants.SCREEN_HEIGHT
    return {
        agent: _inside(raw.agent_list[place].rect, *size)
        for agent, place in raw.agent_name_mapping.items()
        if place < len(raw.agent_list) and agent in raw.agents
    }


def _pistonball(raw: Any) -> dict[AgentID, Place]:
    """Return the column of each piston, below the ball's room."""
    width, height, wall, column = raw.screen_width, raw.screen_height, raw.wall_width, raw.piston_width
    top = height - wall - raw.piston_body_height
    return {
        agent: ((wall + column * place) / width, top / height, column / width, raw.piston_body_height / height)
        for place, agent in enumerate(raw.possible_agents)
    }


def _cooperative_pong(raw: Any) -> dict[AgentID, Place]:
    game = raw.env if hasattr(raw, "env") else raw
    game = getattr(game, "unwrapped", game)
    paddles = {"paddle_0": game.p0, "paddle_1": game.p1}
    # Since PettingZoo 1.26 a paddle consists of several rectangles, the largest first.
    rects = {agent: paddle.rects[0] if hasattr(paddle, "rects") else paddle.rect for agent, paddle in paddles.items()}
    return {agent: _inside(rect, game.s_width, game.s_height) for agent, rect in rects.items()}


def _particles(raw: Any) -> dict[AgentID, Place]:
    """Return the circles of mpe2, whose camera shows the particle that is farthest from the middle."""
    farthest = max(float(abs(entity.state.p_pos).max()) for entity in raw.world.entities)
    zoom = 0.9 * float(raw.original_cam_range) / farthest if raw.dynamic_rescaling else 1.0
    places = {}
    for agent in raw.world.agents:
        x, y = (0.5 + 0.45 * float(value) / farthest for value in agent.state.p_pos * (1, -1))
        width, height = (2 * agent.size * 350 * zoom / side for side in (raw.width, raw.height))
        places[agent.name] = _place(x - width / 2, y - height / 2, width, height)
    return places


_READERS: dict[str, Callable[[Any], Mapping[AgentID, Place]]] = {
    "butterfly/knights_archers_zombies": _knights_archers_zombies,
    "butterfly/pistonball": _pistonball,
    "butterfly/cooperative_pong": _cooperative_pong,
}
