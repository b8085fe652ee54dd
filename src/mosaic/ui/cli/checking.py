"""Views of an env check: what each agent observes and earns while random actions are played, and the report."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import fmean
from time import monotonic

import numpy as np
from numpy.typing import NDArray
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.table import Table
from rich.text import Text

from mosaic.core.ids import AgentID, EnvID
from mosaic.core.turn import Observation, Turn
from mosaic.envs.catalog import describe_incentives
from mosaic.envs.contract.report import EnvReport
from mosaic.ui.cli.output import LINE_EVERY_S, Throttle, err, note, out, print_table, short

_FEW = 6  # numbers of an observation that are shown one by one
_LINES_AROUND = 7  # of a terminal, that the rows of agents cannot have


@dataclass(slots=True)
class AgentTotals:
    """Observations and return of one agent so far."""

    observation: Observation = None
    env_steps: int = 0  # in which it acted
    reward: float = 0.0  # the last
    episode_return: float = 0.0  # so far
    returns: list[float] = field(default_factory=list)  # of episodes that ended
    low: float = math.inf  # of all numbers in its observations
    high: float = -math.inf

    def observe(self, observation: Observation) -> None:
        self.observation = observation
        for part in _arrays(observation):
            self.low, self.high = min(self.low, float(part.min())), max(self.high, float(part.max()))

    def cells(self) -> list[str]:
        """Return the cells of all columns but the first and the last."""
        mean = f"{fmean(self.returns):.3f}" if self.returns else "–"
        numbers = [f"{self.reward:.3f}", f"{self.episode_return:.3f}", mean]
        return [f"{self.env_steps:,}", f"{len(self.returns):,}", *numbers]

    @property
    def extent(self) -> str:
        return f"{self.low:.3g} to {self.high:.3g}" if self.low <= self.high else "–"


_COLUMNS = ("agent", "steps", "ended", "reward", "return", "mean return")


class CheckView:
    """Totals of a check by agent, drawn at any time; it also decides how long random play continues."""

    def __init__(self, env_id: EnvID, seconds: float = 0.0, clock: Callable[[], float] = monotonic) -> None:
        self._env_id, self._seconds, self._clock = env_id, seconds, clock
        self._agents: dict[AgentID, AgentTotals] = {}
        self._acting: tuple[AgentID, ...] = ()
        self._resets = self._env_steps = 0
        self._first_s: float | None = None  # of the first Turn: starting a game is not part of its speed
        self._until_s: float | None = None
        self.pace: Throttle | None = None  # for plain lines, where no terminal can be redrawn

    def see(self, turn: Turn, step: int) -> None:
        if self._first_s is None:
            self._first_s = self._clock()
        if step == 0:
            self._resets += 1
            for totals in self._agents.values():
                totals.episode_return = 0.0
        else:
            self._env_steps += 1
            for agent in self._acting:
                self._agents[agent].env_steps += 1
        for agent, reward in turn.rewards.items():
            totals = self._agents.setdefault(agent, AgentTotals())
            totals.reward, totals.episode_return = reward, totals.episode_return + reward
            if turn.ended(agent):
                totals.returns.append(totals.episode_return)
        for agent, observation in {**turn.final_observations, **turn.observations}.items():
            self._agents[agent].observe(observation)
        self._acting = tuple(turn.observations)
        if self.pace is not None and self.pace.due():
            note(self.line())

    def wants_more(self) -> bool:
        if self._until_s is None:
            self._until_s = self._clock() + self._seconds
        return self._clock() < self._until_s

    def _facts(self) -> str:
        if self._first_s is None:
            return "starting …"
        took_s = max(self._clock() - self._first_s, 1e-3)
        facts = [f"{self._env_steps:,} env steps", f"{short(self._env_steps / took_s)} steps/s"]
        return "   ".join([*facts, f"{self._resets:,} resets", f"{took_s:.0f} s"])

    def line(self) -> str:
        """Return the same numbers in one line of plain text."""
        agents = (f"{name}: reward {each.reward:.3f}, return {each.episode_return:.3f}" for name, each in self._rows(4))
        return "   ".join([f"{self._env_id}: {self._facts()}", *agents])

    def _rows(self, most: int) -> list[tuple[AgentID, AgentTotals]]:
        return list(self._agents.items())[:most]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield self.render(max(1, console.height - _LINES_AROUND))

    def render(self, most: int) -> RenderableType:
        """Return the table with at most this number of agents, one line each."""
        rows = [[agent, *totals.cells()] for agent, totals in self._rows(most)]
        table = Table(box=None, header_style="dim", pad_edge=False)
        for index, column in enumerate(_COLUMNS):
            width = max(len(cell) for cell in [column, *(row[index] for row in rows)])
            table.add_column(column, justify="right" if index else "left", no_wrap=True, min_width=width)
        table.add_column("observation", no_wrap=True, overflow="ellipsis", ratio=1)
        for row, (_, totals) in zip(rows, self._rows(most), strict=True):
            table.add_row(*row, describe_observation(totals.observation))
        title = Text.assemble((self._env_id, "bold"), "   random actions")
        parts: list[RenderableType] = [title, self._facts()]
        if rows:
            parts += ["", table]
        if len(self._agents) > most:
            parts.append(Text(f"… and {len(self._agents) - most} more agents", style="dim"))
        return Group(*parts, Text("Ctrl-C ends with a summary.", style="dim"))

    def print_totals(self) -> None:
        if not self._agents:
            return
        rows = [[agent, *totals.cells(), totals.extent] for agent, totals in self._agents.items()]
        print_table(f"{self._env_id}: {self._facts()}", [*_COLUMNS, "observations"], rows, numbers=_COLUMNS[1:])


@contextmanager
def shown_live(view: CheckView, *, shown: bool = True) -> Iterator[None]:
    """Show the view on stderr while the check runs: a table on a terminal, else a line every few seconds."""
    if not shown or not err.is_terminal:
        view.pace = Throttle(LINE_EVERY_S) if shown else None
        yield
        return
    with Live(view, console=err, refresh_per_second=8, transient=True):
        yield


def _arrays(observation: Observation) -> Iterator[NDArray[np.generic]]:
    """Yield the arrays of numbers in an observation."""
    if isinstance(observation, Mapping):
        observation = tuple(observation.values())
    if isinstance(observation, tuple):
        for part in observation:
            yield from _arrays(part)
    elif not isinstance(observation, str):
        found = np.asarray(observation)
        if found.size and found.dtype.kind in "biuf":
            yield found


def describe_observation(observation: Observation) -> str:
    """Describe as `0.12 -0.5 1`, `84×84×3 from 0 to 255`, or `camera: …, speed: …`."""
    if isinstance(observation, Mapping):
        return ", ".join(f"{key}: {describe_observation(part)}" for key, part in observation.items())
    if isinstance(observation, tuple):
        return ", ".join(map(describe_observation, observation))
    if not isinstance(observation, np.ndarray):
        return str(observation)
    if observation.ndim > 1 or observation.size > 4 * _FEW:
        sizes = "×".join(map(str, observation.shape))
        return f"{sizes} from {observation.min():.3g} to {observation.max():.3g}" if observation.size else sizes
    few = " ".join(f"{number:.3g}" for number in observation.ravel()[:_FEW].tolist())
    return few + (f" … ({observation.size})" if observation.size > _FEW else "")


def print_report(report: EnvReport) -> None:
    """Print the results for an env that passes the contract check."""
    columns = ["agent", "steps", "return", "end", "observation", "action"]
    rows = [
        [a.agent, a.env_steps, f"{a.episode_return:.3f}", a.end or "still there", a.observation, a.action]
        for a in report.agents
    ]
    print_table(f"{report.env_id}: {report.env_steps} random env steps", columns, rows, numbers=["steps", "return"])
    out.print(f"Incentives: {describe_incentives(report.incentives, report.shared_reward)}")
    out.print(f"{report.env_id} keeps the contract.", style="green")
    if report.advice:
        note(report.advice)
