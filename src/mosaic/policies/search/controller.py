"""Search with one network: many positions at once, and as a controller."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.core.turn import Action, Mask, Observation, Turn
from mosaic.envs.compiled.registry import find_kernel
from mosaic.envs.compiled.vector import (
    UNKNOWN,
    CompiledKernel,
    CompiledVector,
    KernelData,
    SearchRules,
    make_kernel_data,
)
from mosaic.envs.env import EnvSpec
from mosaic.envs.vector.encoding import action_code, row_code
from mosaic.envs.vector.layout import VectorArrays, vector_arrays
from mosaic.models.dense import set_product_threads
from mosaic.policies.controller import Explanation, PolicyController
from mosaic.policies.network import NetworkPolicyController, ValuedNetwork
from mosaic.policies.search.features import fast_network
from mosaic.policies.search.simulations import choose_edge, root_value, simulate
from mosaic.policies.search.tree import make_evaluator, make_leaves, make_rules, make_tree, plant

MAX_NODES = 1 << 20  # of a tree; a search by time ends there
CHUNK = 32  # simulations between two looks at the clock, and the fewest of a search by time
_NO_SCHEDULE, _NO_NOISE = np.zeros((0, 0), np.int64), np.zeros((0, 0), np.float32)


class SearchResult(NamedTuple):
    """Outcome of a search of one position."""

    action: int
    visits: NDArray[np.int64]  # [actions]
    value: float  # of the mover
    proven: bool


class Searcher:
    """Network, kernel and trees for a number of positions that are searched together."""

    def __init__(
        self,
        kernel: CompiledKernel,
        network: ValuedNetwork,
        positions: int,
        nodes: int,
        exploration: float,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        set_product_threads(1)
        self._clock = clock  # in seconds
        self.roots: KernelData = make_kernel_data(kernel, positions)
        self.shown: VectorArrays = vector_arrays(kernel.shape(positions))  # observations and masks of the roots
        network, features = fast_network(network, kernel)
        self._rules, self._exploration = make_rules(kernel, features), np.float32(exploration)
        self._tree, self._leaves = make_tree(kernel, positions, nodes), make_leaves(kernel, positions, nodes, features)
        self._net = make_evaluator(network.architecture, network.weights, positions, network.scaling)

    def search(self, simulations: int | None, time_ms: int | None = None) -> list[SearchResult]:
        """Search all roots with a number of simulations each, or for a time but with one chunk of simulations at least.

        Without a simulation the network alone would choose, on a machine that is too busy for the given time.
        """
        end = self._clock() + (time_ms or 0) / 1000
        plant(self._rules, self._tree, self._leaves, self._net, self.roots, self.shown)
        if simulations is not None:
            self._simulate(simulations)
        else:
            spent = CHUNK
            self._simulate(spent)
            while self._clock() < end and (self._tree.proof[:, 0] == UNKNOWN).any() and spent < MAX_NODES - 1:
                spent += CHUNK
                self._simulate(spent)
        return [self._result(position) for position in range(len(self.roots.rng))]

    def _simulate(self, simulations: int) -> None:
        simulate(
            self._rules,
            self._tree,
            self._leaves,
            self._net,
            simulations,
            self._exploration,
            _NO_SCHEDULE,
            _NO_NOISE,
        )

    def _result(self, position: int) -> SearchResult:
        tree = self._tree
        return SearchResult(
            action=int(choose_edge(tree, position)),
            visits=tree.edge_visits[position, 0].astype(np.int64),
            value=float(root_value(tree, position)),
            proven=bool(tree.proof[position, 0] != UNKNOWN),
        )


class SearchPolicyController:
    """Controller that searches from the observed position with a policy's probabilities and values."""

    def __init__(
        self,
        spec: EnvSpec,
        network: ValuedNetwork,
        simulations: int | None,
        time_ms: int | None = None,
        exploration: float = 1.5,
        clock: Callable[[], float] = perf_counter,
    ) -> None:
        self._kernel, self._rules = searchable_kernel(spec)
        self._agents = self._kernel.agents
        nodes = MAX_NODES if simulations is None else simulations + 1  # each adds at most one to the root
        self._searcher = Searcher(self._kernel, network, 1, nodes, exploration, clock)
        self._budget = simulations, time_ms
        self._rows = {agent: row_code(spec.observation_spaces[agent]) for agent in self._agents}
        self._actions = {agent: action_code(spec.action_spaces[agent]) for agent in self._agents}
        self._last: tuple[tuple[AgentID, bytes], SearchResult] | None = None
        self._compile()

    def _compile(self) -> None:
        """Search a first position, so that compiling does not count as time of the first move."""
        game, roots, shown = CompiledVector(self._kernel, 1), self._searcher.roots, self._searcher.shown
        game.reset(0)
        shown.obs[:], shown.mask[:], shown.who[:] = game.obs, game.mask, game.who
        self._rules.read(shown.obs[0], int(shown.who[0]), roots.state[0], roots.ints[0])
        self._searcher.search(1)

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        """Drop the last search; nothing is random."""
        self._last = None

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        found = self._results(turn)
        return {
            agent: self._actions[agent].action(np.array([each.action], np.float32)) for agent, each in found.items()
        }

    def explain(self, turn: Turn) -> dict[AgentID, Explanation]:
        """Return the shares of the simulations; a position that was just searched is not searched again."""
        return {agent: _explanation(each) for agent, each in self._results(turn).items()}

    def close(self) -> None:
        pass

    def _results(self, turn: Turn) -> Mapping[AgentID, SearchResult]:
        return {
            agent: self._search(agent, observation, turn.action_masks.get(agent))
            for agent, observation in turn.observations.items()
        }

    def _search(self, agent: AgentID, observation: Observation, mask: Mask | None) -> SearchResult:
        roots, shown = self._searcher.roots, self._searcher.shown
        self._rows[agent].write(observation, shown.obs[0])
        if len(shown.mask):
            shown.mask[0] = 1 if mask is None else mask
        key = agent, shown.obs.tobytes()
        if self._last is None or self._last[0] != key:
            shown.who[0] = self._agents.index(agent)
            self._rules.read(shown.obs[0], int(shown.who[0]), roots.state[0], roots.ints[0])
            (found,) = self._searcher.search(*self._budget)
            self._last = key, found
        return self._last[1]


def _explanation(result: SearchResult) -> Explanation:
    """Return the shares of the visits; where a proof decides, and not the visits, the action is certain."""
    decided = result.proven or result.visits[result.action] < result.visits.max() or not result.visits.any()
    shares = np.eye(len(result.visits))[result.action] if decided else result.visits / result.visits.sum()
    return Explanation(shares, result.value, result.visits, result.proven)


def searchable_kernel(spec: EnvSpec) -> tuple[CompiledKernel, SearchRules]:
    """Return the compiled game of an env; raise an error that says why it cannot be searched otherwise."""
    facts, kernel = spec.facts, find_kernel(spec.facts.config)
    if kernel is not None and kernel.search is not None:
        return kernel, kernel.search
    if len(spec.possible_agents) != 2 or not facts.competitive:
        why = "it is not a game of two opponents"
    elif not facts.turn_based:
        why = "its agents move simultaneously"
    elif facts.hidden_information:
        why = "it hides information from its agents"
    elif kernel is None:
        why = "it has no compiled form with these options and wrappers, whose state could be copied"
    else:
        why = "its compiled form does not declare search rules"
    raise InputError(
        f"{spec.env_id} cannot be searched: {why}. Games that can: classic/tictactoe, mosaic/tictactoe, "
        "classic/connect_four, without wrappers."
    )


def searchable_network(reference: PolicyID, controller: PolicyController) -> ValuedNetwork:
    """Return the network of a controller; raise an error that says why it cannot be searched with otherwise."""
    why = ""
    if not isinstance(controller, NetworkPolicyController):
        why = "its policy is not one of Mosaic's dense networks (worker native, PPO, A2C or cloning)"
    elif not controller.has_value:
        why = "it was trained to value actions (DQN, CQL) and gives no probabilities"
    elif controller.network.architecture.critic_observation:
        why = "its value is of all agents' observations (shared_value_function)"
    elif controller.network.architecture.head.parts != 1 or controller.network.architecture.head.kind != "categorical":
        why = "its actions are not one choice"
    else:
        return controller.network
    raise InputError(f"'{reference}' cannot be searched with: {why}. Search needs probabilities and a value.")
