"""Controllers of an episode, created on first use and replaceable while it runs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mosaic.core.errors import unknown
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.lazy import Lookup
from mosaic.core.seeding import child_seed
from mosaic.envs.env import EnvSpec
from mosaic.policies.controller import DEFAULT_TIME_LIMIT_S, PolicyController, Remembers, Reports
from mosaic.policies.mapping import AgentMapping, ControllerKey
from mosaic.policies.registry import load_policy, parse_policy


@dataclass(slots=True)
class Player:
    """Controller and the agents it acts for."""

    key: ControllerKey
    controller: PolicyController
    limit_s: float | None
    agents: set[AgentID] = field(default_factory=set)  # for which it acts in this episode
    begun: bool = False
    reporter: Reports | None = None  # the controller, if it reports on its decisions

    def __post_init__(self) -> None:
        self.reporter = self.controller if isinstance(self.controller, Reports) else None


class ControllerMapping:
    """Current mapping of agents to controllers; agents of one group share a controller."""

    def __init__(
        self,
        spec: EnvSpec,
        mapping: AgentMapping,
        *,
        seed: int = 0,
        time_limit_s: float | None = DEFAULT_TIME_LIMIT_S,
        controllers: dict[PolicyID, PolicyController] | None = None,
    ) -> None:
        """Use the objects in `controllers` for these policy names instead of looking the names up."""
        mapping.check(spec.possible_agents)
        self._spec, self._mapping, self._seed, self.time_limit_s = spec, mapping, seed, time_limit_s
        self._given = controllers or {}
        self._players: dict[ControllerKey, Player] = {}
        self._seed_of_episode, self._episode = 0, 0
        self._known: tuple[AgentID, ...] = ()
        self._swapped: dict[AgentID, ControllerKey] = {}
        self.players: Lookup[AgentID, Player] = Lookup(self._player)

    def begin(self, seed: int, episode: int, agents: Iterable[AgentID]) -> None:
        """Start an episode with the policies of the mapping; swaps are undone."""
        self._seed_of_episode, self._episode, self._known = seed, episode, tuple(agents)
        self.players.clear()
        self._swapped.clear()
        for player in self._players.values():
            player.begun = False
            player.agents.clear()
        for agent in self._known:
            self.players[agent]

    def swap(self, agent: AgentID, policy: PolicyID) -> None:
        """Let this policy act for this agent alone from now on."""
        if self._spec.possible_agents and agent not in self._spec.possible_agents:
            raise unknown("agent", agent, self._spec.possible_agents)
        key = ControllerKey(agent, policy)
        self._ready(key)  # fails before anything has changed
        self.forget(agent)
        self.players.pop(agent).agents.discard(agent)
        self._swapped[agent] = key

    def forget(self, agent: AgentID) -> None:
        controller = self.players[agent].controller
        if isinstance(controller, Remembers):
            controller.forget(agent)

    def policy_of(self, agent: AgentID) -> PolicyID:
        return self.players[agent].key.policy

    def close(self) -> None:
        for player in self._players.values():
            player.controller.close()
        self._players.clear()
        self.players.clear()

    def _player(self, agent: AgentID) -> Player:
        player = self._ready(self._key_of(agent))
        if not player.begun:
            mine = tuple(a for a in self._known if self._key_of(a) == player.key) or (agent,)
            player.controller.begin(mine, child_seed(self._seed_of_episode, "policy", *player.key))
            player.begun = True
        player.agents.add(agent)
        return player

    def _key_of(self, agent: AgentID) -> ControllerKey:
        return self._swapped.get(agent) or self._mapping.key_of(agent, self._episode)

    def _ready(self, key: ControllerKey) -> Player:
        """Return the player of this slot, creating its controller on first use."""
        if key not in self._players:
            if key.policy in self._given:
                controller, waits = self._given[key.policy], False
            else:
                agents = tuple(a for a in self._spec.possible_agents if self._key_of(a) == key) or (key.group,)
                seed = child_seed(self._seed, "policy", *key)
                controller = load_policy(key.policy, self._spec, agents, seed=seed, time_limit_s=self.time_limit_s)
                waits = parse_policy(key.policy)[0].waits
            self._players[key] = Player(key, controller, None if waits else self.time_limit_s)
        return self._players[key]
