"""Controller that plays with a chess engine."""

from __future__ import annotations

import re
from pathlib import Path

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn
from mosaic.envs.chess import action_of, check_fen, is_white_to_move
from mosaic.policies.controller import PolicyError, PolicyRequest
from mosaic.policies.uci.engine import UciEngine
from mosaic.policies.uci.options import EngineOptions

_CHESS = re.compile(r"classic/chess(_v\d+)?")


class UciPolicyController:
    """Controller whose engine process runs from `begin` until its last agent ends, `close`, or the first failure."""

    def __init__(self, program: Path, options: EngineOptions, request: PolicyRequest) -> None:
        self._program = program
        self._options = options
        self._reference = request.reference
        self._time_limit_s = request.time_limit_s
        self._agents: set[AgentID] = set()
        self._engine: UciEngine | None = None

    @property
    def engine_pid(self) -> int | None:
        return None if self._engine is None else self._engine.pid

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._end()  # a fresh process has no memory of earlier games
        self._agents = set(agents)
        self._engine = self._start()

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        try:
            return {agent: self._act(agent, turn) for agent in turn.observations}
        except BaseException:
            self._end()
            raise

    def forget(self, agent: AgentID) -> None:
        self._agents.discard(agent)
        if not self._agents:
            self._end()

    def close(self) -> None:
        self._end()

    def _act(self, agent: AgentID, turn: Turn) -> int:
        fen = self._position(agent, turn)
        self._agents.add(agent)  # it may return after another policy acted for it
        if self._engine is None:
            self._engine = self._start()
        move = self._engine.best_move(fen, self._time_limit_s)
        try:
            action = action_of(move, is_white_to_move(fen))
        except InputError as error:
            raise self._engine.failure(f"answered '{move}', which is not a move, in the position '{fen}'.") from error
        mask = turn.action_masks.get(agent)
        if mask is not None and not mask[action]:
            raise self._engine.failure(f"answered with the illegal move '{move}' in the position '{fen}'.")
        return action

    def _position(self, agent: AgentID, turn: Turn) -> str:
        fen = turn.infos.get(agent, {}).get("fen")
        if not isinstance(fen, str):
            raise PolicyError(f"'{self._reference}' needs the position of '{agent}' as infos['fen'], which is missing.")
        return check_fen(fen)

    def _start(self) -> UciEngine:
        return UciEngine(self._program, self._options, self._reference)

    def _end(self) -> None:
        if self._engine is not None:
            self._engine.end()
            self._engine = None


def check_request(options: EngineOptions, request: PolicyRequest) -> None:
    """Raise an error where an engine with these options cannot play in this env."""
    if not _CHESS.fullmatch(request.spec.env_id):
        raise InputError(f"'{request.reference}' plays classic/chess_v6 only, not {request.spec.env_id}.")
    limit_s = request.time_limit_s
    if options.time_s is not None and limit_s is not None and options.time_s >= limit_s:
        raise InputError(
            f"'{request.reference}' thinks for {options.time_s:g} s, but a move may take {limit_s:g} s at most: "
            "make time_s smaller."
        )
