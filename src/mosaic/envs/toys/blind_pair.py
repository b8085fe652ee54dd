"""Two-agent env for centralised critics: one agent decides, and only the other observes the result.

The blind agent's reward comes late, and a tide that it does not observe changes its reward far more than its decision
does. Neither changes the expected policy gradient, but both drown it in noise. A critic that also reads the seer's
observation subtracts the tide, and reads from the lamp at once whether the decision was right.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Observation, Turn
from mosaic.envs.env import EnvFacts, EnvSpec

SEER, BLIND = AGENTS = ("seer", "blind")
_NONE: dict[AgentID, Observation] = {}
_ROLE, _TIDE, _LAMP, _TIME, _CUE = range(5)  # indices of an observation; the cue, one-hot, comes last
_SIDE = 64  # pixels of a cell of the image
_COLOURS = {-1.0: (56, 189, 248), 0.0: (51, 65, 85), 1.0: (249, 115, 22)}


class BlindPair:
    """Env of a blind agent that decides and a seer that observes the result.

    First step: the blind agent observes one of `cues` and should answer with its number; the seer observes the tide, −1
    or 1. At once the tide pays the seer `tide` times that, and the blind agent the opposite. Then for `delay` steps a
    lamp that only the seer observes shows whether the blind agent was right (1) or wrong (−1). In the last of them the
    seer should answer: 1 for right, 0 for wrong. Each of the two right answers pays both agents 0.5, at the end.

    A pair that is always right has the mean return 1; in the mean of the two the tide cancels. A blind agent that
    follows noise may settle on anything, but with several cues hardly on the right answer to each.
    """

    def __init__(self, facts: EnvFacts | None = None, delay: int = 8, tide: float = 5.0, cues: int = 4) -> None:
        self.possible_agents: tuple[AgentID, ...] = AGENTS
        self.observation_spaces: dict[AgentID, Space[object]] = {
            agent: spaces.Box(-1, 1, (_CUE + cues,), np.float32) for agent in AGENTS
        }
        self.action_spaces: dict[AgentID, Space[object]] = {agent: spaces.Discrete(cues) for agent in AGENTS}
        self.spec = EnvSpec(facts or EnvFacts(), AGENTS, self.observation_spaces, self.action_spaces)
        self._delay, self._strength, self._cues = delay, tide, cues
        self._random = np.random.default_rng()
        self._time, self._cue = delay + 1, 0
        self._tide = self._lamp = 0.0

    @property
    def agents(self) -> tuple[AgentID, ...]:
        return () if self._time > self._delay else AGENTS

    def reset(self, seed: int | None = None) -> Turn:
        if seed is not None:
            self._random = np.random.default_rng(seed)
        self._cue, self._tide = int(self._random.integers(self._cues)), float(self._random.choice([-1, 1]))
        self._time, self._lamp = 0, 0.0
        return self._turn(dict.fromkeys(AGENTS, 0.0))

    def step(self, actions: Mapping[AgentID, Action]) -> Turn:
        if not self.agents:
            raise RuntimeError("step() after the end of the episode: call reset() first.")
        if set(actions) != set(AGENTS):
            raise ValueError(f"Actions for {sorted(actions)}, but {sorted(AGENTS)} must act.")
        earned = dict.fromkeys(AGENTS, 0.0)
        if self._time == 0:
            self._lamp = 1.0 if actions[BLIND] == self._cue else -1.0
            flood = self._tide * self._strength
            earned = {SEER: flood, BLIND: -flood}
        self._time += 1
        if not self.agents:
            right = self._lamp > 0
            earned = dict.fromkeys(AGENTS, 0.5 * right + 0.5 * (actions[SEER] == right))
        return self._turn(earned)

    def render(self) -> NDArray[np.uint8]:
        """Draw one row for each agent: tide, lamp and cues as it observes them."""
        from mosaic.envs.compiled.drawing import enlarge

        parts = [_TIDE, _LAMP, *range(_CUE, _CUE + self._cues)]
        rows = [[_COLOURS[float(sign)] for sign in self._seen(agent)[parts]] for agent in AGENTS]
        return enlarge(np.array(rows, np.uint8), _SIDE)

    def close(self) -> None:
        pass

    def _turn(self, rewards: dict[AgentID, float]) -> Turn:
        over = not self.agents
        seen = {agent: self._seen(agent) for agent in AGENTS}
        ends, truncated = dict.fromkeys(AGENTS, over), dict.fromkeys(AGENTS, False)
        shown, finals = (_NONE, seen) if over else (seen, _NONE)
        return Turn(shown, _NONE, rewards, ends, truncated, finals, {agent: {} for agent in AGENTS})

    def _seen(self, agent: AgentID) -> NDArray[np.float32]:
        seen = np.zeros(_CUE + self._cues, np.float32)
        first = self._time == 0
        if agent == SEER:
            seen[_ROLE], seen[_TIDE], seen[_LAMP] = 1, self._tide if first else 0, self._lamp
        else:
            seen[_ROLE], seen[_CUE + self._cue] = -1, first
        seen[_TIME] = self._time / (self._delay + 1)
        return seen
