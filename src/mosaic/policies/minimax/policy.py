"""Minimax policy, exact or with a fixed search depth."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Literal

import numpy as np
from pydantic import Field

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID
from mosaic.core.reference import Options
from mosaic.core.turn import Action, Turn
from mosaic.envs.env import EnvSpec
from mosaic.envs.family import split_version
from mosaic.policies.controller import Explanation, PolicyKind, PolicyRequest
from mosaic.policies.minimax.games import Board, Verdict, find_game


class MinimaxOptions(Options):
    depth: int | None = Field(None, ge=1, description="Plies to look ahead; unfinished lines are worth 0. None: exact.")
    leaf: Literal["zero", "lines"] = Field(
        "zero", description="Value of unfinished lines: zero, or by their open lines of four (connect four)."
    )


class MinimaxPolicyController:
    """Controller that draws among equally good moves from its own seed, so that two of them do not repeat one game."""

    def __init__(self, spec: EnvSpec, depth: int | None, leaf: Literal["zero", "lines"] = "zero") -> None:
        self._game = find_game(spec)
        self._depth = depth
        self._lines = leaf == "lines"
        if self._lines and (depth is None or split_version(spec.env_id)[0] != "classic/connect_four"):
            raise InputError(
                f"leaf=lines needs a depth and connect four (here: {spec.env_id}). Type: minimax:depth=4,leaf=lines"
            )
        self._random = Random(0)

    def begin(self, agents: tuple[AgentID, ...], seed: int) -> None:
        self._random.seed(seed)

    def act(self, turn: Turn) -> dict[AgentID, Action]:
        return {agent: self._random.choice(verdict.moves) for agent, verdict in self._verdicts(turn)}

    def explain(self, turn: Turn) -> dict[AgentID, Explanation]:
        return {agent: self._explanation(verdict) for agent, verdict in self._verdicts(turn)}

    def close(self) -> None:
        pass

    def _verdicts(self, turn: Turn) -> Iterator[tuple[AgentID, Verdict]]:
        for agent, observation in turn.observations.items():
            mask = turn.action_masks.get(agent)
            legal = None if mask is None else mask.nonzero()[0].tolist()
            yield agent, self._judge(self._game.read_board(observation), legal)

    def _judge(self, board: Board, legal: list[int] | None) -> Verdict:
        if not self._lines:
            return self._game.judge(board, legal, self._depth)
        from mosaic.policies.minimax.connect_four import ConnectFourBoard
        from mosaic.policies.minimax.connect_four_lines import judge_lines

        assert self._depth is not None
        assert isinstance(board, ConnectFourBoard)
        return judge_lines(board, legal, self._depth)

    def _explanation(self, verdict: Verdict) -> Explanation:
        probabilities = np.zeros(self._game.ACTIONS)
        probabilities[list(verdict.moves)] = 1 / len(verdict.moves)
        return Explanation(probabilities, float(verdict.value))


def _make(options: MinimaxOptions, request: PolicyRequest) -> MinimaxPolicyController:
    return MinimaxPolicyController(request.spec, options.depth, options.leaf)


kind = PolicyKind(
    usage="minimax[:depth=N[,leaf=lines]]",
    help="Perfect play in tic-tac-toe and connect four, or N plies of it; ties are broken by its own seed.",
    make=_make,
    options=MinimaxOptions,
)
