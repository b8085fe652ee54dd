"""Replay: a recorded episode, played again in the background so that any of its pictures can be viewed."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.episode import Episode
from mosaic.core.errors import InputError, MosaicError, unknown
from mosaic.core.ids import AgentID, Json
from mosaic.core.turn import Turn
from mosaic.core.user_code import exits_refused
from mosaic.envs.board_cells import Board, board_of
from mosaic.envs.catalog import make_env
from mosaic.envs.env import Env
from mosaic.envs.tables.games import has_table, table_of
from mosaic.envs.tables.table import EVERYTHING, Sight, table_json
from mosaic.runners.record import Difference, replay
from mosaic.server.play.clicks import Choice, choices
from mosaic.server.play.episode import Move, moves_of
from mosaic.server.play.rendering import picture_of
from mosaic.telemetry.pictures.message import Encoded, encoded

MOST_PICTURES = 2000  # of longer episodes every second, third … step is drawn
LONGEST_TEXT = 60


class _StoppedError(Exception):
    """Signal that the rest of the replay is not needed."""


@dataclass
class BoardGame:
    """Board of a replay, as far as it has been played."""

    board: Board | None = None  # in the last position that was reached
    sides: dict[AgentID, str] = field(default_factory=dict)  # of a board for two
    moves: list[Move] = field(default_factory=list)  # on a board for two


class Replay:
    def __init__(self, replay_id: str, environment: EnvironmentConfig, episode: Episode) -> None:
        self.id, self.environment, self.episode = replay_id, environment, episode
        self.every = max(1, math.ceil((episode.env_steps + 1) / MOST_PICTURES))
        self.moves: list[str] = []  # one text per step
        self.game = BoardGame()
        self.error = ""
        self.difference: Difference | None = None
        self.done = False
        self._pictures: list[Encoded | None] = []
        self._tables: list[dict[AgentID, Json]] = []  # of card games, by viewer; "" sees everything
        self._changed = threading.Condition()
        self._stopped = False
        self._thread = threading.Thread(target=self._main, name=f"replay-{replay_id}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self, why: str = "") -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def join_thread(self, timeout_s: float) -> bool:
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def drawn(self) -> int:
        """Return the steps whose pictures are available at once; 0 is the one after reset."""
        return min(max(0, len(self._pictures) * self.every - 1), self.episode.env_steps)

    @property
    def has_tables(self) -> bool:
        return has_table(self.environment.id)

    def picture(self, step: int, patience_s: float = 60.0) -> Encoded:
        """Wait until the replay has reached the step, and return its picture."""
        place = self._reach(step, patience_s)
        found = self._pictures[place]
        if found is None:
            raise InputError(f"{self.environment.id} has no picture.")
        return found

    def table(self, step: int, agent: AgentID | None, patience_s: float = 60.0) -> Json:
        """Wait until the replay has reached the step, and return its card table: all of it, or as the agent saw it."""
        place = self._reach(step, patience_s)
        if not self._tables:
            raise InputError(f"{self.environment.id} has no card table.")
        found = self._tables[place]
        if (agent or "") not in found:
            raise unknown("agent", str(agent), [name for name in found if name])
        return found[agent or ""]

    def _reach(self, step: int, patience_s: float) -> int:
        """Wait until the replay has reached the step, and return its place among the steps that were drawn."""
        if not 0 <= step <= self.episode.env_steps:
            raise InputError(f"There is no step {step}; the episode has steps 0 to {self.episode.env_steps}.")
        place = step // self.every
        with self._changed:
            self._changed.wait_for(lambda: len(self._pictures) > place or self.done or self._stopped, patience_s)
            if len(self._pictures) <= place:
                raise MosaicError(self.error or f"The replay did not reach step {step}.")
        return place

    def _main(self) -> None:
        try:
            with exits_refused(self.environment.id):
                self._play()
        except _StoppedError:
            pass
        except Exception as error:  # noqa: BLE001 - shown to the viewers of the replay
            said = str(error) if isinstance(error, MosaicError) else f"{type(error).__name__}: {error}"
            self.error = f"The replay failed: {said}"
        finally:
            with self._changed:
                self.done = True
                self._changed.notify_all()

    def _play(self) -> None:
        env = make_env(self.environment)
        legal: dict[AgentID, tuple[Choice, ...]] = {}  # before the step

        def on_turn(step: int, turn: Turn) -> None:
            board = board_of(env)
            moves = moves_of(self.episode, step, legal, board) if step else []
            legal.clear()
            legal.update({agent: choices(env.spec, turn, agent) for agent in turn.observations})
            drawn = step % self.every == 0
            pixels = picture_of(env) if drawn else None
            picture = None if pixels is None else encoded(pixels)
            tables = _tables(env) if drawn else {}
            with self._changed:
                if self._stopped:
                    raise _StoppedError
                if step:
                    self.moves.append(_text_of(moves))
                self.game.board = board
                if board is not None and len(board.sides) == len(env.possible_agents) == 2:
                    self.game.sides = dict(zip(env.possible_agents, board.sides, strict=True))
                    self.game.moves += moves
                if drawn:
                    self._pictures.append(picture)
                if tables:
                    self._tables.append(tables)
                self._changed.notify_all()

        try:
            self.difference = replay(env, self.episode, on_turn)
        finally:
            env.close()


def _text_of(moves: Sequence[Move]) -> str:
    """Return the moves of one step in a line; of many agents without their names."""
    named = len(moves) < 3
    text = ", ".join(f"{move.agent}: {move.written}" if named else move.written for move in moves)
    return text if len(text) <= LONGEST_TEXT else f"{text[: LONGEST_TEXT - 1]}…"


def _tables(env: Env) -> dict[AgentID, Json]:
    """Return the card table as everyone together and as each agent sees it; empty for other envs than card games."""
    sights = {"": EVERYTHING, **{agent: Sight(agent) for agent in env.possible_agents}}
    found = {viewer: table_of(env, sight) for viewer, sight in sights.items()}
    return {viewer: table_json(table) for viewer, table in found.items() if table is not None}
