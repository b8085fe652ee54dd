"""Probe envs, so small that the optimal result of a learner is obvious.

Each is a factory for `python:mosaic.envs.toys.probes:NAME`. After Andy Jones' "Debugging RL, without the agonizing
pain".
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn, SupportsFloat, TypeAlias

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.core.ids import AgentID
from mosaic.core.seeding import child_seed
from mosaic.core.turn import Action, Turn
from mosaic.envs.adapters.user import adapt
from mosaic.envs.compiled.mdp.mdp import MdpEnv, enumerate_mdp
from mosaic.envs.env import EnvFacts, EnvSpec

_END = "end"
_NONE: dict[AgentID, NoReturn] = {}
_Outcomes: TypeAlias = Sequence[tuple[float, Hashable, float, bool]]


def one_value() -> MdpEnv:
    """Make an env with one state, one action, one step, one reward: 1."""
    return _episodes([0], lambda state, action: [(1.0, _END, 1.0, True)], 1)


def two_values() -> MdpEnv:
    """Make an env of one step: state 0 pays −1, state 1 pays 1."""
    return _episodes([0, 1], lambda state, action: [(1.0, _END, 2.0 * state - 1.0, True)], 1)


def two_steps() -> MdpEnv:
    """Make an env of two steps: state 0 leads to state 1 and pays nothing; state 1 pays 1 and ends."""
    return _episodes([0], lambda state, action: [(1.0, _END, 1.0, True) if state else (1.0, 1, 0.0, False)], 1)


def choice() -> MdpEnv:
    """Make an env with one state and one step: action 0 pays −1, action 1 pays 1."""
    return _episodes([0], lambda state, action: [(1.0, _END, 2.0 * action - 1.0, True)], 2)


def match() -> MdpEnv:
    """Make an env of one step: the action equal to the state's number pays 1, the other −1."""
    return _episodes([0, 1], lambda state, action: [(1.0, _END, 1.0 if action == state else -1.0, True)], 2)


def cut_off() -> MdpEnv:
    """Make an env in which every step pays 1; state 0 is endless but truncated at once, state 1 terminates."""
    return _episodes([0, 1], lambda state, action: [(1.0, state, 1.0, bool(state))], 1, time_limit=1)


def _episodes(
    starts: Sequence[int], step: Callable[[int, int], _Outcomes], actions: int, time_limit: int = 0
) -> MdpEnv:
    mdp, _ = enumerate_mdp(starts, step, actions, time_limit=time_limit)
    return MdpEnv(mdp)


class Forbidden(gymnasium.Env[int, int]):
    """Env with one state, one step, three actions that pay 1, 1 and 10; the last one is masked.

    The others pay the same, so that a policy does not become so sure of one that it hardly ever chooses the last.
    """

    observation_space: Space[int] = spaces.Discrete(1)
    action_space: Space[int] = spaces.Discrete(3)
    PAY = (1.0, 1.0, 10.0)

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[int, dict[str, object]]:
        super().reset(seed=seed)
        return 0, self._info()

    def step(self, action: int) -> tuple[int, SupportsFloat, bool, bool, dict[str, object]]:
        return 0, self.PAY[action], True, False, self._info()

    def _info(self) -> dict[str, object]:
        return {"action_mask": np.array([1, 1, 0], np.int8)}


class _Two:
    """Base of the two-agent probes: two actions, no rendering, and episodes that begin alike."""

    def __init__(self, agents: tuple[AgentID, AgentID], states: int, *, turn_based: bool) -> None:
        self.possible_agents: tuple[AgentID, ...] = agents
        self.observation_spaces: dict[AgentID, Space[object]] = {agent: spaces.Discrete(states) for agent in agents}
        self.action_spaces: dict[AgentID, Space[object]] = {agent: spaces.Discrete(2) for agent in agents}
        facts = EnvFacts(turn_based=turn_based, competitive=turn_based, has_chance=False)
        self.spec = EnvSpec(facts, agents, self.observation_spaces, self.action_spaces)
        self.agents: tuple[AgentID, ...] = ()
        self._acting: set[AgentID] = set()

    def reset(self, seed: int | None = None) -> Turn:
        return self._continued(self._first(), dict.fromkeys(self.possible_agents, 0.0))

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        if not self.agents:
            raise RuntimeError("step() after the end of the episode: call reset() first.")
        if set(actions) != self._acting:
            raise ValueError(f"Actions for {sorted(actions)}, but {sorted(self._acting)} must act.")
        return self._next({agent: int(action) for agent, action in actions.items()})

    def render(self) -> NDArray[np.uint8] | None:
        return None

    def close(self) -> None:
        pass

    def _first(self) -> dict[AgentID, int]:
        raise NotImplementedError

    def _next(self, actions: Mapping[AgentID, int]) -> Turn:
        raise NotImplementedError

    def _continued(self, seen: dict[AgentID, int], rewards: dict[AgentID, float]) -> Turn:
        self.agents, self._acting = self.possible_agents, set(seen)
        alive = dict.fromkeys(self.possible_agents, False)
        return Turn(seen, _NONE, rewards, alive, dict(alive), _NONE, {agent: {} for agent in seen})

    def _ends(self, finals: dict[AgentID, int], rewards: dict[AgentID, float]) -> Turn:
        self.agents = ()
        ended, cut = dict.fromkeys(self.possible_agents, True), dict.fromkeys(self.possible_agents, False)
        return Turn(_NONE, _NONE, rewards, ended, cut, finals, {agent: {} for agent in finals})


class Pair(_Two):
    """Env of one simultaneous step: action 1 earns the left agent (state 0) 1 and costs the right one (state 1) 1.

    Neither's choice matters to the other.
    """

    def __init__(self) -> None:
        super().__init__(("left", "right"), 2, turn_based=False)

    def _next(self, actions: Mapping[AgentID, int]) -> Turn:
        return self._ends(self._first(), {"left": float(actions["left"]), "right": -float(actions["right"])})

    def _first(self) -> dict[AgentID, int]:
        return {"left": 0, "right": 1}


class CopyDuel(_Two):
    """Env of two moves: the second player sees the first's move (state 1 or 2) and wins the stake by repeating it.

    The stake is 1 after move 0 and 0.5 after move 1; the player that does not win it loses it. The first player is paid
    while it waits.
    """

    def __init__(self) -> None:
        super().__init__(("first", "second"), 3, turn_based=True)
        self._move: int | None = None

    def _next(self, actions: Mapping[AgentID, int]) -> Turn:
        if self._move is None:
            self._move = actions["first"]
            return self._continued({"second": 1 + self._move}, {"first": 0.0, "second": 0.0})
        stake = 0.5 if self._move else 1.0
        won = stake if actions["second"] == self._move else -stake
        return self._ends({"first": 0, "second": 1 + self._move}, {"first": -won, "second": won})

    def _first(self) -> dict[AgentID, int]:
        self._move = None
        return {"first": 0}


class Continuous:
    """Another probe, acted in with numbers from −1 to 1: the probability of action 1 grows evenly from 0 to 1.

    It does so from −0.8 to 0.8. With a sudden change at 0, the slope that a deterministic policy follows would be 0
    almost everywhere, and TD3 would often stay where it began.
    """

    def __init__(self, probe: str) -> None:
        self._env, self._chance = adapt(_WITH_TWO_ACTIONS[probe](), EnvFacts()), np.random.default_rng(0)
        self.possible_agents = self._env.possible_agents
        self.observation_spaces = self._env.observation_spaces
        self.action_spaces: Mapping[AgentID, Space[object]] = {
            agent: spaces.Box(-1, 1, (1,), np.float32) for agent in self.possible_agents
        }
        facts = replace(self._env.spec.facts, has_chance=True)
        self.spec = EnvSpec(facts, self.possible_agents, self.observation_spaces, self.action_spaces)

    @property
    def agents(self) -> tuple[AgentID, ...]:
        return self._env.agents

    def reset(self, seed: int | None = None) -> Turn:
        if seed is not None:
            self._chance = np.random.default_rng(child_seed(seed, "action"))  # the probe draws from the seed itself
        return self._env.reset(seed)

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        most = {agent: int(space.n) - 1 for agent, space in self._env.action_spaces.items()}  # type: ignore[attr-defined]
        return self._env.step({agent: min(self._drawn(action[0]), most[agent]) for agent, action in actions.items()})

    def _drawn(self, number: float) -> int:
        return int(self._chance.random() < 0.5 + number / 1.6)

    def render(self) -> NDArray[np.uint8] | None:
        return self._env.render()

    def close(self) -> None:
        self._env.close()


_WITH_TWO_ACTIONS: Mapping[str, Callable[[], object]] = {
    "one_value": one_value,
    "two_values": two_values,
    "two_steps": two_steps,
    "choice": choice,
    "match": match,
    "cut_off": cut_off,
    "pair": Pair,
    "duel": CopyDuel,
}
