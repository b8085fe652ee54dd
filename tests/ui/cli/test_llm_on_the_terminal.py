"""Language models on the terminal: tables, JSON, replays, and keys that must not be given."""

from __future__ import annotations

import json

import pytest

from tests.policies.llm.stub import endpoint, first_legal

KEY = "sk-9f3a-not-for-logs"
GAME = "mosaic/tictactoe"


def test_evaluate_tournament_and_replay_show_what_models_report(mosaic, tmp_path):
    def reply(body):
        odd = body["messages"][1]["content"].count("O") % 2
        return "The centre!" if odd and len(body["messages"]) == 2 else first_legal(body)

    with endpoint(reply) as served:
        policy = served.policy("price_in=1", "price_out=2")
        played = mosaic(
            *("evaluate", GAME, "--agent", f"player_1={policy}", "--agent", "player_2=random"),
            *("--episodes", "2", "--record", "games"),
        )
        assert played.code == 0, played.err
        rated = mosaic("tournament", GAME, policy, "random", "--games", "1")
    for answer in (played, rated):
        text = " ".join(answer.out.split())
        for word in (f"Reported by {policy}", "illegal", "retries", "latency_s", "tokens_in 100 [100, 100]", "cost"):
            assert "".join(word.split()) in "".join(text.split())
    shown = mosaic("replay", str(tmp_path / "games" / "000000.json"))
    assert shown.code == 0, shown.err
    assert "player_1 assistant (100 + 7 tokens, " in shown.out
    assert "The centre!" in shown.out
    assert "enforce=schema, not a legal action)" in " ".join(shown.out.split())
    document = json.loads(mosaic("replay", str(tmp_path / "games" / "000000.json"), "--json").out)
    assert document["reports"][0]["transcript"][2][0] == "assistant"


def test_a_failed_decision_is_an_error_and_its_record_can_be_replayed(mosaic, tmp_path):
    with endpoint(lambda body: "Hm.") as served:
        policy = served.policy("retries=0")
        failed = mosaic("evaluate", GAME, "--agent", f"*={policy}", "--episodes", "1", "--record", "games")
    assert failed.code == 1
    assert f"policy '{policy}' for agent 'player_1' gave no legal action" in failed.err
    assert "in 1 answer; the last was 'Hm.'" in failed.err
    assert "Hm." in mosaic("replay", str(tmp_path / "games" / "000000.json")).out


@pytest.mark.parametrize("command", ["evaluate", "play", "train"])
def test_a_key_in_a_reference_is_repeated_and_stored_nowhere(mosaic, tmp_path, command):
    reference = f"llm:m,url=http://127.0.0.1:1/v1,api_key={KEY}"
    more = ("--steps", "100") if command == "train" else ()
    answer = mosaic(command, GAME, "--agent", f"player_2={reference}", "--agent", "player_1=random", *more)
    assert answer.code == 2
    assert "holds a key or a password" in answer.err
    assert "api_key=…" in answer.err
    assert KEY not in answer.out + answer.err
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or KEY.encode() not in path.read_bytes(), path
