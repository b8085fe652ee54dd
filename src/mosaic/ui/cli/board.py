"""Text rendering of environments: board games as text, everything else as coloured half blocks."""

from __future__ import annotations

from collections.abc import Callable

from rich.padding import Padding
from rich.text import Text

from mosaic.core.episode import Episode
from mosaic.core.errors import InputError
from mosaic.core.turn import Turn
from mosaic.envs.action_names import action_names
from mosaic.envs.board_cells import Cells, board_cells
from mosaic.envs.env import Env, EnvSpec
from mosaic.envs.family import split_version
from mosaic.envs.private_pictures import draws_for_agents, picture_for
from mosaic.envs.tables.games import table_of
from mosaic.envs.tables.table import EVERYTHING, Sight, table_text
from mosaic.envs.text.view import text_view
from mosaic.ui.cli.output import out
from mosaic.ui.cli.pictures import HalfBlocks


def draw(env: Env, turn: Turn, sight: Sight = EVERYTHING) -> None:
    """Print the env's current board, card table or picture, as one with this sight may see it."""
    table = table_of(env, sight)
    if table is not None:
        out.print(Text(table_text(table, sight.agent) + "\n"))
        return
    if not sight.everything:
        private = picture_for(env, sight.agent) if draws_for_agents(env) else None
        if private is not None and out.is_terminal:
            out.print(HalfBlocks(private, min(out.width, 80)))
        if sight.agent is not None and sight.agent in turn.observations:
            try:
                out.print(Text(text_view(env.spec, turn, sight.agent) + "\n"))
            except InputError as error:  # too many numbers for a text
                out.print(str(error), markup=False)
        return
    cells, board = board_cells(env), _BOARDS.get(split_version(env.spec.env_id)[0])
    if cells and board is not None:
        out.print(board(cells))
        return
    picture = env.render() if out.is_terminal else None
    if picture is not None:
        out.print(HalfBlocks(picture, min(out.width, 80)))


def _tictactoe(cells: Cells) -> Text:
    """Return the board with the number to type in each free cell; the env numbers cells down the columns."""
    rows = [
        " " + " │ ".join(cell or str(3 * column + row) for column, cell in enumerate(line))
        for row, line in enumerate(cells)
    ]
    return _styled("\n───┼───┼───\n".join(rows) + "\n", "0123456789─┼│")


def _connect_four(cells: Cells) -> Text:
    rows = [" ".join(cell or "·" for cell in row) for row in cells]
    return _styled("\n".join([" ".join(map(str, range(7))), *rows]) + "\n", "0123456789·")


def _chess(cells: Cells) -> Text:
    rows = [f"{8 - index} {' '.join(piece or '.' for piece in rank)}" for index, rank in enumerate(cells)]
    return Text("\n".join([*rows, "  a b c d e f g h"]) + "\n")


def _styled(board: str, dim: str) -> Text:
    text = Text()
    for character in board:
        style = "dim" if character in dim else {"X": "bold cyan", "O": "bold yellow"}.get(character, "")
        text.append(character, style)
    return text


_BOARDS: dict[str, Callable[[Cells], Text]] = {
    "classic/tictactoe": _tictactoe,
    "classic/connect_four": _connect_four,
    "classic/chess": _chess,
    "mosaic/tictactoe": _tictactoe,
}


def print_reports(episode: Episode, step: int) -> None:
    """Print what policies reported about their decisions in env step `step`, counted from 0."""
    for report in episode.reports:
        if report.step != step:
            continue
        for role, said, note in report.report.transcript:
            head = f"{report.agent} {role}" + (f" ({note})" if note else "")
            out.print(Text(head, style="dim"))
            out.print(Padding(Text(said), (0, 0, 0, 2)))


def describe_step(spec: EnvSpec, before: Turn, episode: Episode, step: int, sight: Sight = EVERYTHING) -> str:
    """Return a line such as `step 3: player_0 (stockfish) plays e2e4`.

    `before` is the Turn that was acted on; `step` counts from 1. Actions that this sight must not know are not named.
    """
    parts = []
    for agent, action in episode.actions[step - 1].items():
        if not sight.sees(agent):
            parts.append(f"{agent} ({episode.policy_of(agent, step - 1)}) plays")
            continue
        names = {number: name for name, number in action_names(spec, before, agent).items()}
        played = names.get(action, action) if isinstance(action, int) else action
        parts.append(f"{agent} ({episode.policy_of(agent, step - 1)}) plays {played}")
    return f"step {step}: {', '.join(parts)}"
