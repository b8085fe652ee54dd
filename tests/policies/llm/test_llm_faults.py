"""A thousand faults of an endpoint: each ends the episode with an error that names it, and no action is played."""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import cycle, islice

import pytest

from mosaic.envs.catalog import make_env
from mosaic.runners.local import ControllerError, LocalEnvRunner
from tests.policies.llm.stub import Fault, completion, endpoint, refusal

FAULTS = {  # what the endpoint does, and what the error says
    "silence": (Fault.silence, r"did not (answer|return) within its time limit of 0\.02 s"),
    "error 500": (lambda: refusal(500, "the GPU is gone"), r"got HTTP 500 from http://\S+: 'the GPU is gone'"),
    "error 502 in HTML": (lambda: Fault(502, "<html>Bad Gateway</html>"), r"got HTTP 502 .*Bad Gateway"),
    "busy": (lambda: refusal(429, "slow down", Retry_After="0"), r"got HTTP 429 .*'slow down' \(asked 2 times"),
    "busy for long": (
        lambda: refusal(503, "loading", Retry_After="3600"),
        r"asks to wait 3600 s, and [\d.]+ s are left",
    ),
    "unauthorized": (lambda: refusal(401, "no key"), r"got HTTP 401 .*'no key'.*export MOSAIC_LLM_API_KEY"),
    "unknown model": (lambda: refusal(404, "model 'stub-1' not found"), r"got HTTP 404 .*model 'stub-1' not found"),
    "redirect": (lambda: Fault(307, "", {"Location": "http://127.0.0.1:1/v1"}), r"got HTTP 307 "),
    "another model": (lambda: completion('{"action": "cell 1"}', "other-7b"), r"asked for .*'stub-1', and 'other-7b'"),
    "truncated document": (lambda: Fault(200, '{"choices": [{"mess'), r"is not a chat completion: .*choices"),
    "truncated body": (lambda: Fault.cut_off('{"choices": ['), r"is not a chat completion: .*choices"),
    "no choices": (lambda: {"choices": []}, r"is not a chat completion: '\{\"choices\": \[\]\}'"),
    "not an object": (lambda: [1, 2], r"is not a chat completion: '\[1, 2\]'"),
    "content in parts": (lambda: completion([{"text": "cell 1"}]), r"content is not text"),
    "disconnection": (Fault.disconnection, r"cannot be reached at .*RemoteDisconnected"),
    "prose": (lambda: "I would play the centre.", r"in 2 answers; the last was 'I would play the centre\.'"),
    "truncated answer": (
        lambda: completion('{"action": "cel', finish="length"),
        r"the last was '\{\"action\": \"cel': .*cut at max_tokens",
    ),
    "nothing": (lambda: completion(None), r"in 2 answers; the last was ''"),
    "illegal": (lambda: '{"action": "cell 10"}', r"'cell 10' is not one of cell 1, cell 2, .*Did you mean 'cell 1'"),
    "another type": (lambda: '{"action": 4}', r"where \{\"action\": \"NAME\"\} belongs"),
    "more than asked": (lambda: '{"action": "cell 1", "why": "x"}', r"where \{\"action\": \"NAME\"\} belongs"),
    "fenced": (lambda: '```json\n{"action": "cell 1"}\n```', r"is not JSON"),
}


@pytest.fixture(autouse=True)
def _without_key(monkeypatch):
    monkeypatch.delenv("MOSAIC_LLM_API_KEY", raising=False)


@pytest.mark.slow
def test_a_thousand_faults_are_a_thousand_named_errors():
    env, found = make_env("mosaic/tictactoe"), Counter()
    replies = iter(())
    with endpoint(lambda body: replies()) as served:
        policy = served.policy("retries=1", "enforce=none")
        usual = LocalEnvRunner(env, {"*": policy})
        hasty = LocalEnvRunner(env, {"*": policy}, time_limit_s=0.02)
        for name in islice(cycle(FAULTS), 1000):
            replies, says = FAULTS[name]
            runner = hasty if name == "silence" else usual
            with pytest.raises(ControllerError) as caught:
                runner.run(0)
            said = str(caught.value)
            assert said.startswith(f"Step 0: policy '{policy}' for agent 'player_1' "), said
            assert re.search(says, said), (name, said)
            assert not runner.record.actions
            found[name] += 1
        usual.close()
    assert found.total() == 1000


def test_a_fault_in_mid_game_keeps_what_was_played_and_said():
    def reply(body):
        text = body["messages"][1]["content"]
        return "Hm." if text.count("X") > 3 else json.dumps({"action": text.rpartition(": ")[2].split(", ")[0]})

    with (
        endpoint(reply) as served,
        LocalEnvRunner(make_env("mosaic/tictactoe"), {"*": served.policy("retries=0")}) as runner,
    ):
        with pytest.raises(ControllerError, match=r"Step 5: .*for agent 'player_2' in 1 answer; the last was 'Hm\.'"):
            runner.run(0)
        record = runner.record
    assert record.env_steps == 5
    assert [each.step for each in record.reports] == list(range(6))
    assert record.reports[-1].report.numbers["illegal"] == [True]
    assert record.reports[-1].report.transcript[2].text == "Hm."
