"""Places of agents in games whose inner parts differ between versions."""

from types import SimpleNamespace

import pytest

from mosaic.envs.agent_places import agent_places

SPEC = SimpleNamespace(env_id="butterfly/cooperative_pong_v6")


def rect(x):
    return SimpleNamespace(x=x, y=20, width=10, height=40)


@pytest.mark.parametrize(
    "paddle",
    [lambda x: SimpleNamespace(rect=rect(x)), lambda x: SimpleNamespace(rects=[rect(x), rect(x - 5)])],
    ids=["PettingZoo 1.25", "PettingZoo 1.26"],
)
def test_paddles_of_cooperative_pong(paddle):
    game = SimpleNamespace(s_width=100, s_height=80, p0=paddle(0), p1=paddle(90))
    env = SimpleNamespace(spec=SPEC, unwrapped=game)
    assert agent_places(env) == {"paddle_0": (0.0, 0.25, 0.1, 0.5), "paddle_1": (0.9, 0.25, 0.1, 0.5)}
