"""Positions in moving worlds as text, from one agent's observation: particles (MPE), pursuit, knights and archers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

import numpy as np

from mosaic.core.ids import AgentID
from mosaic.envs.text.seen import SeenByAgent, TextView

_AXES = "Positions are (right, up), relative to you; negative numbers are to the left and below."
_HUNTERS = "adversary"  # start of their names in simple_tag


def _simple(seen: SeenByAgent) -> str | None:
    if seen.shape != (4,):
        return None
    velocity, landmark = _pairs(seen)
    return "\n".join(
        ["A point on a plane. Move to the landmark.", _AXES, f"Your velocity: {velocity}", f"Landmark: {landmark}"]
    )


def _spread(seen: SeenByAgent) -> str | None:
    others = _others(seen)
    landmarks, rest = divmod(np.size(seen.observation) - 4 - 4 * len(others), 2)
    if rest or landmarks < 1 or len(seen.shape) != 1:
        return None
    velocity, _, *pairs = _pairs(seen)
    return "\n".join(
        [
            "Points on a plane. Together, cover every landmark with an agent, and do not collide.",
            *[_AXES, f"Your velocity: {velocity}"],
            *(f"Landmark {number}: {pair}" for number, pair in enumerate(pairs[:landmarks], start=1)),
            *_placed(others, pairs[landmarks:]),
        ]
    )


def _tag(seen: SeenByAgent) -> str | None:
    others = _others(seen)
    hunted = [other for other in others if not other.startswith(_HUNTERS)]
    obstacles, rest = divmod(np.size(seen.observation) - 4 - 2 * len(others) - 2 * len(hunted), 2)
    if rest or obstacles < 0 or len(seen.shape) != 1:
        return None
    velocity, place, *pairs = _pairs(seen)
    task = "You are one of them: touch the others" if seen.agent.startswith(_HUNTERS) else "Escape them"
    return "\n".join(
        [
            f"Points on a plane. Agents named {_HUNTERS}_N chase the others. {task}. Obstacles are in the way.",
            _AXES,
            f"Your velocity: {velocity}. You are at {place} from the centre of the field, which reaches to 1.",
            *(f"Obstacle {number}: {pair}" for number, pair in enumerate(pairs[:obstacles], start=1)),
            *_placed(others, pairs[obstacles:]),
            *(f"Velocity of {line}" for line in _placed(hunted, pairs[obstacles + len(others) :])),
        ]
    )


def _others(seen: SeenByAgent) -> list[AgentID]:
    return [agent for agent in seen.spec.possible_agents if agent != seen.agent]


def _pairs(seen: SeenByAgent) -> list[str]:
    return [f"({_signed(x)}, {_signed(y)})" for x, y in np.reshape(np.asarray(seen.observation), (-1, 2))]


def _placed(names: Iterable[AgentID], pairs: Iterable[str]) -> Iterator[str]:
    for name, pair in zip(names, pairs, strict=False):
        yield f"{name}: {pair}"


def _signed(value: float) -> str:
    return f"{round(float(value), 2) + 0.0:+.2f}"


def _pursuit(seen: SeenByAgent) -> str | None:
    if len(seen.shape) != 3 or seen.shape[0] != seen.shape[1] or seen.shape[2] != 3 or not seen.shape[0] % 2:
        return None
    walls, pursuers, evaders = np.moveaxis(np.asarray(seen.observation), -1, 0)
    centre = seen.shape[0] // 2
    rows = [
        " ".join(
            f"{'@' if (row, column) == (centre, centre) else _pursuit_cell(*cell):2}"
            for column, cell in enumerate(zip(walls[row], pursuers[row], evaders[row], strict=True))
        ).rstrip()
        for row in range(len(walls))
    ]
    beside = int(pursuers[centre, centre]) - 1
    here = [f"{beside} other pursuers"] * (beside > 0) + [f"{int(evaders[centre, centre])} evaders"]
    return (
        "Pursuit on a grid: surround the evaders together with the other pursuers. You see the cells around you:\n"
        "@ you, # wall or outside, P pursuer, E evader (P2, E3: several), PE both in one cell, . free.\n"
        + "\n".join(rows)
        + f"\nIn your own cell: {', '.join(here)}"
    )


def _pursuit_cell(wall: float, pursuers: float, evaders: float) -> str:
    if wall:
        return "#"
    found = {"P": int(pursuers), "E": int(evaders)}
    marks = [f"{mark}{count if count > 1 else ''}" for mark, count in found.items() if count]
    return marks[0] if len(marks) == 1 else "PE" if marks else "."


def _knights_archers(seen: SeenByAgent) -> str | None:
    agents, options = seen.spec.possible_agents, seen.spec.facts.config.options
    knights = sum(agent.startswith("knight") for agent in agents)
    names = ["", *agents, *["sword"] * knights]
    names += ["arrow"] * int(options.get("max_arrows", 10)) + ["zombie"] * int(options.get("max_zombies", 10))
    if seen.shape != (len(names), 5):
        return None
    me, *others = np.asarray(seen.observation)
    there = [
        f"{name}: {_away(*row[1:3])} from you, facing {_facing(*row[3:])}"
        for name, row in zip(names[1:], others, strict=True)
        if name != seen.agent and np.any(row[3:])
    ]
    weapon = "arrows fly the way you face" if seen.agent.startswith("archer") else "the mace hits what is before you"
    return (
        f"Knights and archers against zombies, which walk from top to bottom. You are {seen.agent}: {weapon}. "
        "A zombie that reaches the bottom ends the game; one that touches you kills you.\n"
        f"The field is 1 wide and 1 high. You are {me[1]:.2f} from its left and {me[2]:.2f} from its top, "
        f"facing {_facing(*me[3:])}.\n" + "\n".join(there or ["Nothing else is there."])
    )


def _away(right: float, down: float) -> str:
    return f"{abs(right):.2f} {'left' if right < 0 else 'right'} and {abs(down):.2f} {'up' if down < 0 else 'down'}"


def _facing(right: float, down: float) -> str:
    """Name the nearest of eight directions."""
    names = ("right", "down right", "down", "down left", "left", "up left", "up", "up right")
    return names[round(float(np.arctan2(down, right)) / (np.pi / 4)) % 8]


WORLDS: Mapping[str, TextView] = {
    "butterfly/knights_archers_zombies": _knights_archers,
    "mpe/simple": _simple,
    "mpe/simple_spread": _spread,
    "mpe/simple_tag": _tag,
    "sisl/pursuit": _pursuit,
}
