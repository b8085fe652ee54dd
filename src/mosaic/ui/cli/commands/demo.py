"""`mosaic demo`: the idea at a glance."""

from __future__ import annotations

import sys

ENV = "classic/tictactoe_v3"


def demo() -> None:
    """See the idea at once: policies on a board, then you."""
    from mosaic.evaluation.tournament import tournament
    from mosaic.ui.cli.commands.play import play
    from mosaic.ui.cli.commands.tournament import show
    from mosaic.ui.cli.screen import note, out, progress

    policies = ["minimax", "minimax:depth=2", "random"]
    out.print("Any policy can take any agent's place in any environment. Three of them on one board:\n")
    with progress("playing tic-tac-toe", 300) as tick:
        show(tournament(ENV, policies, games=50, seed=7, on_game=tick))
    out.print("\nThe same mapping works everywhere, for example:")
    out.print(
        "  mosaic evaluate classic/chess_v6 --agent player_0=stockfish:skill=5 --agent player_1=random --episodes 4"
    )
    out.print("  mosaic evaluate mpe/simple_spread_v3 --agent '*=random'\n")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        note(f"Play against minimax yourself: mosaic play {ENV} --agent player_1=human --agent player_2=minimax")
        return
    out.print("Now you: X against minimax. Cells are numbered down the columns. Ctrl-C leaves.\n")
    play(ENV, ["player_1=human", "player_2=minimax"], record=False, out_file=None, settings=[], seed=0, max_steps=None)
