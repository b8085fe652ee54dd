"""UCI client for a chess engine, one process for one game, and the controller that plays with it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.turn import Action, Turn
from mosaic.envs.chess import action_of, check_fen, is_white_to_move
from mosaic.policies.controller import PolicyError, PolicyRequest
from mosaic.policies.line_process import Deadline, LineProcess
from mosaic.policies.uci.options import EngineOptions, go_command

_OPTION = re.compile(r"option\s+name\s+(?P<name>.+?)\s+type\s+(?P<kind>\w+)(?P<rest>.*)")
_BOUNDS = re.compile(r".*\bmin\s+(?P<low>-?\d+).*\bmax\s+(?P<high>-?\d+)")
_HASH_MB = 16  # many engines may run in parallel, and short searches fill no more


class Offer(NamedTuple):
    """Option that an engine has; bounds only for integers."""

    name: str
    low: int | None = None
    high: int | None = None


def parse_offer(line: str) -> Offer | None:
    """Parse `option name UCI_Elo type spin default 1350 min 1350 max 2850`; return None for any other line."""
    match = _OPTION.fullmatch(line)
    if match is None:
        return None
    bounds = _BOUNDS.match(match["rest"]) if match["kind"] == "spin" else None
    return Offer(match["name"]) if bounds is None else Offer(match["name"], int(bounds["low"]), int(bounds["high"]))


def parse_best_move(line: str) -> str | None:
    """Parse `bestmove e2e4 ponder e7e5` to `e2e4`; return None for any other line."""
    match line.split():
        case ["bestmove", move, *_]:
            return move
        case _:
            return None


def settings(options: EngineOptions, offers: Mapping[str, Offer], reference: str) -> list[str]:
    """Return the `setoption` lines; raise an error where the engine does not support an option."""
    wanted: dict[str, int | str] = {
        name: value for name, value in (("Threads", 1), ("Hash", _HASH_MB)) if _takes(offers.get(name), value)
    }
    if options.elo is not None:
        wanted["UCI_LimitStrength"] = "true"
        wanted["UCI_Elo"] = _checked("elo", options.elo, offers.get("UCI_Elo"), reference)
    if options.skill is not None:
        wanted["Skill Level"] = _checked("skill", options.skill, offers.get("Skill Level"), reference)
    return [f"setoption name {name} value {value}" for name, value in wanted.items()]


def _takes(offer: Offer | None, value: int) -> bool:
    return offer is not None and offer.low is not None and offer.high is not None and offer.low <= value <= offer.high


def _checked(option: str, value: int, offer: Offer | None, reference: str) -> int:
    if offer is None:
        raise InputError(f"'{reference}': this engine has no option {option}. Leave '{option}={value}' out.")
    if not _takes(offer, value):
        raise InputError(f"'{reference}': this engine's {option} ranges from {offer.low} to {offer.high}, not {value}.")
    return value


START_LIMIT_S = 60.0  # starting is not bound by the time limit for actions; large engines load networks


class UciEngine:
    """Chess engine, started and ready for a game on construction; call `end` when done."""

    def __init__(self, program: Path, options: EngineOptions, reference: str) -> None:
        self._go = go_command(options)
        self._process = LineProcess((program,))
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
        """Return the engine's move as text, unchecked."""
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
