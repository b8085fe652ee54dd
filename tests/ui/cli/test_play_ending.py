"""The end of input at the prompt of `mosaic play`: Ctrl-D ends the game as Ctrl-C does."""

import io
import json

import pytest

WORDS = ("play", "classic/tictactoe_v3", "--agent", "player_1=human", "--agent", "player_2=minimax", "--seed", "1")


class _Keys(io.StringIO):
    """A terminal on which these lines are typed, then Ctrl-D or Ctrl-C."""

    def __init__(self, lines: str, interrupts: bool) -> None:
        super().__init__(lines)
        self._interrupts = interrupts

    def isatty(self) -> bool:
        return True

    def readline(self, *limit: int) -> str:
        text = super().readline(*limit)
        if self._interrupts and not text:
            raise KeyboardInterrupt
        return text


@pytest.mark.parametrize("interrupts", [False, True])
def test_the_end_of_input_ends_the_game_as_ctrl_c_does(mosaic, monkeypatch, interrupts):
    monkeypatch.setattr("sys.stdin", _Keys("0\n", interrupts))
    answer = mosaic(*WORDS, "--demo", "mine")
    assert answer.code == 130
    assert "Stopped." in answer.err
    assert "failed" not in answer.err
    kept = json.loads(mosaic("demos", "show", "mine", "--json").out)
    assert [row["env_steps"] for row in kept["episode_rows"]] == [2]
