"""Baseline for simple_spread: every agent moves to its landmark in the shortest assignment."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.reference import Options
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import EnvSpec
from mosaic.envs.family import split_version
from mosaic.policies.controller import PolicyKind, PolicyRequest

ENV = "mpe/simple_spread"
_PUSHES = np.array([[0, 0], [-1, 0], [1, 0], [0, -1], [0, 1]]) * 0.5  # velocity added by each action
_STEP, _KEPT = 0.1, 0.75  # fractions of a velocity: moved within a step, kept after it
_AHEAD = _STEP * (1 + _KEPT)  # two steps already moved by a push: looking further brakes too early


class NearestLandmarkController:
    """Controller that reads only an agent's own observation.

    All agents see the same places and so find the same assignment.
    """

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        pass

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return {agent: choose_push(observation) for agent, observation in turn.observations.items()}

    def close(self) -> None:
        pass


def choose_push(observation: NDArray[np.float32]) -> int:
    """Return the action after which the agent drifts nearest to its landmark."""
    velocity = observation[:2].astype(np.float64)
    carried = _STEP * velocity + _AHEAD * (_KEPT * velocity + _PUSHES)
    return int(np.square(own_landmark(observation) - carried).sum(axis=1).argmin())


def own_landmark(observation: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the vector to the agent's landmark in the assignment with the least sum of squared distances."""
    from scipy.optimize import linear_sum_assignment

    count = len(observation) // 6
    ways = observation[4 : 4 + 2 * count].reshape(count, 2).astype(np.float64)
    others = observation[4 + 2 * count : 2 + 4 * count].reshape(count - 1, 2)
    agents = np.concatenate([np.zeros((1, 2)), others])
    _, landmarks = linear_sum_assignment(np.square(agents[:, None] - ways[None]).sum(axis=2))
    way: NDArray[np.float64] = ways[landmarks[0]]
    return way


def _make(options: Options, request: PolicyRequest) -> NearestLandmarkController:
    _check(request.spec)
    return NearestLandmarkController()


def _check(spec: EnvSpec) -> None:
    if split_version(spec.env_id)[0] != ENV:
        raise InputError(f"nearest_landmark plays {ENV} only, not {spec.env_id}. Type: mosaic envs mpe")
    for agent in spec.possible_agents:
        sees, acts = spec.observation_spaces[agent], spec.action_spaces[agent]
        if sees.shape != (6 * len(spec.possible_agents),):
            raise InputError(
                f"nearest_landmark must see every agent and landmark of {ENV}, but {agent} sees {sees}: leave out "
                "num_agent_neighbors, num_landmark_neighbors and wrappers that change observations."
            )
        if not isinstance(acts, spaces.Discrete):
            raise InputError(f"nearest_landmark cannot choose actions of {acts}: leave continuous_actions out.")


kind = PolicyKind(
    usage="nearest_landmark",
    help="In simple_spread: moves each agent to its landmark in the shortest assignment. A baseline, not the optimum.",
    make=_make,
)
