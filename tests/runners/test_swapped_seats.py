"""Who is asked after an agent was given to another policy."""

from __future__ import annotations

import pytest

from mosaic.core.turn import Turn
from mosaic.envs.catalog import make_env
from mosaic.runners.local import LocalEnvRunner


class Listening:
    """Plays the lowest legal action and remembers for whom it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def begin(self, agents: tuple[str, ...], seed: int) -> None:
        pass

    def act(self, turn: Turn) -> dict[str, int]:
        self.asked.extend(turn.observations)
        return {agent: int(turn.action_masks[agent].argmax()) for agent in turn.observations}

    def close(self) -> None:
        pass


@pytest.mark.parametrize("swapped", [("player_2",), ("player_1", "player_2"), ("player_2", "player_1")])
def test_each_agent_is_asked_of_its_own_policy_after_a_swap(swapped: tuple[str, ...]) -> None:
    first, second = Listening(), Listening()
    controllers = {"first": first, "second": second}
    env = make_env("classic/tictactoe_v3")
    with LocalEnvRunner(env, {"*": "first"}, controllers=controllers) as runner:
        turns = runner.turns(0)
        next(turns)
        for agent in swapped:
            runner.set_policy_for_agent(agent, "second")
        for _ in range(4):
            next(turns)
    assert set(second.asked) == set(swapped)
    assert set(first.asked) == {"player_1", "player_2"} - set(swapped)
