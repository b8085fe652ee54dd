"""The line that lists the keys of a game in a terminal."""

import pytest

from mosaic.ui.tui.play.game_keys import game_keys, legend
from mosaic.ui.tui.play.view import AgentView, MatchView, SpotView


def with_keys(keys: str) -> MatchView:
    """A person's turn in a game without a board, with one action per key."""
    spots = tuple(SpotView(id=key, label=f"action {key}", key=key) for key in keys)
    mine = AgentView.model_construct(agent="a", mine=True)
    return MatchView.model_construct(agents=(mine,), real_time=False, board=(), keys=(), spots=spots)


@pytest.mark.parametrize(
    ("keys", "said"), [("123", "1-3 choose at once"), ("4", "4 chooses"), ("1234567890", "1-0 choose"), ("690", "6-0")]
)
def test_digits_are_listed_in_the_order_of_the_keyboard(keys: str, said: str) -> None:
    view = with_keys(keys)
    assert said in legend(view)
    assert {each.code for each in game_keys(view).values()} == {f"Digit{key}" for key in keys}
