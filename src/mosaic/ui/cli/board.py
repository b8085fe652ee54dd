"""Text rendering of environments: board games as text, everything else as coloured half blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
from rich.text import Text

from mosaic.core.episode import Episode
from mosaic.core.turn import Turn
from mosaic.envs.action_names import action_names
from mosaic.envs.env import Env, EnvSpec
from mosaic.envs.family import split_version
from mosaic.ui.cli.output import out
from mosaic.ui.cli.pictures import HalfBlocks


def draw(env: Env) -> None:
    """Print the env's current board or picture."""
    name = split_version(env.spec.facts.config.env_id)[0]
    raw: Any = env  # at last the env of PettingZoo, which is not typed
    while hasattr(raw, "env"):
        raw = raw.env
    if env.spec.facts.config.family == "classic" and name in _BOARDS:
        out.print(_BOARDS[name](raw.unwrapped.board))
        return
    picture = env.render()
    if picture is not None and out.is_terminal:
        out.print(HalfBlocks(picture, min(out.width, 80)))


class _Squares(Protocol):
    """Board of tic-tac-toe."""

    squares: Sequence[int]


def _tictactoe(board: _Squares) -> Text:
    """Return the board with the number to type in each free cell; the env numbers cells down the columns."""
    cells = [" XO"[value] for value in board.squares]
    shown = [cell if cell != " " else str(index) for index, cell in enumerate(cells)]
    rows = [" " + " │ ".join(shown[column * 3 + row] for column in range(3)) for row in range(3)]
    return _styled("\n───┼───┼───\n".join(rows) + "\n", "0123456789─┼│")


def _connect_four(board: Sequence[int]) -> Text:
    rows = [" ".join("·XO"[int(cell)] for cell in row) for row in np.asarray(board).reshape(6, 7)]
    return _styled("\n".join([" ".join(map(str, range(7))), *rows]) + "\n", "0123456789·")


def _chess(board: object) -> Text:
    ranks = str(board).splitlines()
    rows = [f"{8 - index} {rank}" for index, rank in enumerate(ranks)]
    return Text("\n".join([*rows, "  a b c d e f g h"]) + "\n")


def _styled(board: str, dim: str) -> Text:
    text = Text()
    for character in board:
        style = "dim" if character in dim else {"X": "bold cyan", "O": "bold yellow"}.get(character, "")
        text.append(character, style)
    return text


_BOARDS: dict[str, Callable[[Any], Text]] = {"tictactoe": _tictactoe, "connect_four": _connect_four, "chess": _chess}


def describe_step(spec: EnvSpec, before: Turn, episode: Episode, step: int) -> str:
    """Return a line such as `step 3: player_0 (stockfish) plays e2e4`.

    `before` is the Turn that was acted on; `step` counts from 1.
    """
    parts = []
    for agent, action in episode.actions[step - 1].items():
        names = {number: name for name, number in action_names(spec, before, agent).items()}
        played = names.get(action, action) if isinstance(action, int) else action
        parts.append(f"{agent} ({episode.policy_of(agent, step - 1)}) plays {played}")
    return f"step {step}: {', '.join(parts)}"
