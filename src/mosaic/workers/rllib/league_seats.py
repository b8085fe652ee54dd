"""Who sits where in self-play: the learner on all chairs, or on one of them against one of its snapshots."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mosaic.core.ids import AgentID
from mosaic.core.seeding import child_key

_SEATS = "mosaic_seats"  # where an episode keeps who sits where


class Seats:
    """Maps agents to modules, as RLlib asks for it. An episode keeps its seats to its end."""

    def __init__(
        self, learner: str, agents: tuple[AgentID, ...], rivals: tuple[str, ...] = (), share: float = 1.0, seed: int = 0
    ) -> None:
        self._learner, self._agents, self._rivals = learner, agents, rivals
        self._share, self._seed = share, seed  # share of the episodes in which the learner plays itself
        self._episodes = 0

    def __call__(self, agent: AgentID, episode: Any, **also: Any) -> str:
        data: dict[str, Any] | None = getattr(episode, "_custom_data", None)
        if data is None:  # while RLlib cuts an episode it asks about agents whose seat it knows
            return self._learner
        if _SEATS not in data:
            data[_SEATS] = self._draw()
        seats: dict[AgentID, str] = data[_SEATS]
        return seats.get(agent, self._learner)

    def _draw(self) -> dict[AgentID, str]:
        """Who is not the learner."""
        self._episodes += 1
        chance = np.random.default_rng((self._seed, self._episodes))
        if not self._rivals or chance.random() < self._share:
            return {}
        chair = chance.integers(len(self._agents))
        rival = self._rivals[chance.integers(len(self._rivals))]
        return {agent: rival for k, agent in enumerate(self._agents) if k != chair}


@dataclass(frozen=True, slots=True)
class Seating:
    """What every env runner shall have, told after each iteration: one that was started anew catches up by it."""

    learner: str
    agents: tuple[AgentID, ...]
    share: float
    seed: int
    rivals: Mapping[str, Any]  # module → reference of its weights, {parameter: array}


def take_seats(runner: Any, seating: Seating) -> dict[str, int]:
    """Runs in an env runner. Answers the checksum of each snapshot that sits there."""
    import ray
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    modules = runner.module
    begun = [episode for episode in runner._ongoing_episodes if episode is not None]
    playing = {name for episode in begun for name in episode.custom_data.get(_SEATS, {}).values()}
    for name in set(modules.keys()) - {seating.learner, *seating.rivals, *playing}:
        modules.remove_module(name)
    learner = modules[seating.learner]
    for name in set(seating.rivals) - set(modules.keys()):
        snapshot: Any = RLModuleSpec.from_module(learner).build()
        snapshot.set_state(ray.get(seating.rivals[name]))
        snapshot.to(next(learner.parameters()).device)
        modules.add_module(name, snapshot)
    seed = child_key(seating.seed, runner.worker_index)
    seats = Seats(seating.learner, seating.agents, tuple(seating.rivals), seating.share, seed)
    runner.config.multi_agent(policy_mapping_fn=seats)
    for episode in begun:
        if _SEATS not in episode.custom_data:  # made, but not begun: it would draw from those who sat here before
            episode.agent_to_module_mapping_fn = seats
    return {
        name: checksum(module.get_state(inference_only=True))
        for name, module in modules.items()
        if name != seating.learner
    }


def checksum(weights: Mapping[str, NDArray[Any]]) -> int:
    total = 0
    for name in sorted(weights):
        total = zlib.crc32(np.ascontiguousarray(weights[name]).tobytes(), total)
    return total
