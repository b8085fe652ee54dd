"""Policies from chess engines that use the UCI protocol."""

from __future__ import annotations

from mosaic.policies.controller import PolicyKind, PolicyRequest
from mosaic.policies.uci.controller import UciPolicyController, check_request
from mosaic.policies.uci.options import (
    EngineOptions,
    UciOptions,
    is_reproducible,
    missing_stockfish,
    named_program,
    stockfish_program,
)

__all__ = ["UciPolicyController", "stockfish", "uci"]


def _make_stockfish(options: EngineOptions, request: PolicyRequest) -> UciPolicyController:
    check_request(options, request)
    return UciPolicyController(stockfish_program(), options, request)


def _make_uci(options: UciOptions, request: PolicyRequest) -> UciPolicyController:
    check_request(options, request)
    return UciPolicyController(named_program(options.path), options, request)


stockfish = PolicyKind(
    usage="stockfish[:elo=1500|skill=5][,depth=10|nodes=N|time_s=0.1]",
    help="The chess engine Stockfish, at the requested strength, in its own process.",
    make=_make_stockfish,
    options=EngineOptions,
    reproducible=is_reproducible,
    missing=missing_stockfish,
)

uci = PolicyKind(
    usage="uci:PATH[,elo=1500|skill=5][,depth=10|nodes=N|time_s=0.1]",
    help="Any chess engine that speaks UCI, in its own process.",
    make=_make_uci,
    options=UciOptions,
    first="path",
    reproducible=is_reproducible,
)
