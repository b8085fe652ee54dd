"""A conversation with a chess engine: one process, one game."""

from __future__ import annotations

from pathlib import Path

from mosaic.policies.errors import PolicyError
from mosaic.policies.uci.options import EngineOptions, go_command
from mosaic.policies.uci.process import Deadline, LineProcess
from mosaic.policies.uci.protocol import Offer, parse_best_move, parse_offer, settings

START_LIMIT_S = 60.0  # starting is no answer, so the limit for answers does not bind it; large engines load networks


class UciEngine:
    """Started and ready for a game when made; whoever makes one calls `end`."""

    def __init__(self, program: Path, options: EngineOptions, reference: str) -> None:
        self._go = go_command(options)
        self._process = LineProcess(program)
        try:
            for line in settings(options, self._introduce(), reference):
                self._process.send(line)
            self.new_game()
        except BaseException:
            self.end()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    def new_game(self) -> None:
        self._process.send("ucinewgame")
        self._process.send("isready")
        deadline = Deadline.after(START_LIMIT_S)
        while self._process.read_line(deadline) != "readyok":
            pass

    def best_move(self, fen: str, limit_s: float | None) -> str:
        """The engine's own text, unchecked."""
        self._process.send(f"position fen {fen}")
        self._process.send(self._go)
        deadline = Deadline.after(limit_s)
        while True:
            move = parse_best_move(self._process.read_line(deadline))
            if move is not None:
                return move

    def failure(self, what: str) -> PolicyError:
        return self._process.failure(what)

    def end(self) -> None:
        self._process.end()

    def _introduce(self) -> dict[str, Offer]:
        self._process.send("uci")
        deadline = Deadline.after(START_LIMIT_S)
        offers: dict[str, Offer] = {}
        while (line := self._process.read_line(deadline)) != "uciok":
            offer = parse_offer(line)
            if offer is not None:
                offers[offer.name] = offer
        return offers
