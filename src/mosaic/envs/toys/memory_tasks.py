"""Memory tasks: questions about what was shown earlier. Perfect memory gets a return of 1, other policies much less.

They resemble tasks of POPGym, but are small: a policy with a GRU learns each of them within seconds.
"""

# compiled code uses this file
from __future__ import annotations

from typing import Any, NamedTuple, SupportsFloat

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray
from pydantic import Field

from mosaic.core.reference import Options

Sight = NDArray[np.float32]

RECALL, REPEAT, REVERSE, COUNT = range(4)  # kinds of tasks
NOT_ASKED = -1

_SIDE = 64  # pixels of a cell of the image
_DARK, _LIT, _ASKED = (51, 65, 85), (249, 115, 22), (56, 189, 248)


class MemoryRules(NamedTuple):
    """Sizes of a task; `span` is its delay, lag, length or number of copies."""

    kind: int
    symbols: int
    span: int
    steps: int
    questions: int  # right answers share a reward of 1
    actions: int
    width: int  # of an observation: the symbol, one-hot, then the question
    drawn: int  # numbers that chance decides in an episode


class RecallOptions(Options):
    """One of the cues is shown in the first step, then nothing, and it must be named in the last step."""

    delay: int = Field(4, ge=0, le=100_000, description="Steps with nothing to see between the cue and the question.")
    cues: int = Field(2, ge=2, le=100, description="Number of different cues.")

    def rules(self) -> MemoryRules:
        return MemoryRules(RECALL, self.cues, self.delay, self.delay + 2, 1, self.cues, self.cues + 1, 1)


class RepeatPreviousOptions(Options):
    """Every step shows a symbol; the answer is the one shown `lag` steps ago. The first `lag` steps pay nothing."""

    symbols: int = Field(4, ge=2, le=100, description="Number of different symbols.")
    lag: int = Field(4, ge=1, le=1000, description="The right answer is the symbol of this many steps ago.")
    questions: int = Field(16, ge=1, le=10_000, description="Answers that count, after the first symbols.")

    def rules(self) -> MemoryRules:
        steps = self.lag + self.questions
        return MemoryRules(REPEAT, self.symbols, self.lag, steps, self.questions, self.symbols, self.symbols, steps)


class ReverseSequenceOptions(Options):
    """Symbols are shown one after another, and must then be named from the last to the first."""

    symbols: int = Field(4, ge=2, le=100, description="Number of different symbols.")
    length: int = Field(4, ge=1, le=1000, description="Number of symbols that are shown.")

    def rules(self) -> MemoryRules:
        length, symbols = self.length, self.symbols
        return MemoryRules(REVERSE, symbols, length, 2 * length, length, symbols, symbols + 1, length)


class CountRecallOptions(Options):
    """Every step shows a card of a shuffled deck and asks how often a symbol has been shown, this card included."""

    symbols: int = Field(3, ge=2, le=100, description="Number of different symbols.")
    copies: int = Field(3, ge=1, le=100, description="Cards with the same symbol.")

    def rules(self) -> MemoryRules:
        symbols, steps = self.symbols, self.symbols * self.copies
        return MemoryRules(COUNT, symbols, self.copies, steps, steps, self.copies + 1, 2 * symbols, 2 * steps)


MEMORY_TASKS: dict[str, type[RecallOptions | RepeatPreviousOptions | ReverseSequenceOptions | CountRecallOptions]] = {
    "count_recall": CountRecallOptions,
    "recall": RecallOptions,
    "repeat_previous": RepeatPreviousOptions,
    "reverse_sequence": ReverseSequenceOptions,
}


class MemoryTask(gymnasium.Env[Sight, int]):
    """Env that shows symbols and asks about them; `state` holds the time, then all that chance decides."""

    def __init__(self, rules: MemoryRules) -> None:
        self.rules = rules
        self.observation_space = spaces.Box(0, 1, (rules.width,), np.float32)
        self.action_space = spaces.Discrete(rules.actions)
        self.metadata = {"render_modes": ["rgb_array"], "render_fps": 4}
        self.render_mode = "rgb_array"
        self.state = np.zeros(1 + rules.drawn)

    def reset(
        self, *, seed: int | None = None, options: dict[str, object] | None = None
    ) -> tuple[Sight, dict[str, object]]:
        super().reset(seed=seed)
        rules, chance = self.rules, self.np_random
        drawn = chance.integers(rules.symbols, size=rules.drawn)
        if rules.kind == COUNT:  # the cards, then the symbols that are asked for
            drawn[: rules.steps] = chance.permutation(np.repeat(np.arange(rules.symbols), rules.span))
        self.state = np.array([0, *drawn], np.float64)
        return self._seen(), {}

    def step(self, action: int) -> tuple[Sight, SupportsFloat, bool, bool, dict[str, object]]:
        right = int(action) == self.answer()
        self.state[0] += 1
        over = int(self.state[0]) == self.rules.steps
        return self._seen(), float(right) / self.rules.questions, over, False, {}

    def answer(self) -> int:
        """Return the right action now, or NOT_ASKED."""
        rules, time, drawn = self.rules, int(self.state[0]), self.state[1:].astype(np.int64)
        if rules.kind == RECALL:
            return int(drawn[0]) if time == rules.span + 1 else NOT_ASKED
        if rules.kind == REPEAT:
            return int(drawn[time - rules.span]) if time >= rules.span else NOT_ASKED
        if rules.kind == REVERSE:
            return int(drawn[2 * rules.span - 1 - time]) if time >= rules.span else NOT_ASKED
        return int((drawn[: time + 1] == drawn[rules.steps + time]).sum())

    def render(self) -> Any:
        from mosaic.envs.compiled.drawing import enlarge

        seen, symbols = self._seen(), self.rules.symbols
        cells = np.empty((1, self.rules.width, 3), np.uint8)
        cells[:] = _DARK
        cells[0, :symbols][seen[:symbols] > 0] = _LIT
        cells[0, symbols:][seen[symbols:] > 0] = _ASKED
        return enlarge(cells, _SIDE)

    def _seen(self) -> Sight:
        rules, time, drawn = self.rules, int(self.state[0]), self.state[1:].astype(np.int64)
        seen = np.zeros(rules.width, np.float32)
        if time == rules.steps:
            return seen
        shows = {RECALL: 1, REVERSE: rules.span}.get(rules.kind, rules.steps)  # steps that show a symbol
        if time < shows:
            seen[drawn[time]] = 1
        if rules.kind == COUNT:
            seen[rules.symbols + drawn[rules.steps + time]] = 1
        elif rules.kind != REPEAT and self.answer() != NOT_ASKED:
            seen[-1] = 1
        return seen
