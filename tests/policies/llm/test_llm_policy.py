"""Language models as policies: `llm:MODEL,url=…`."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from urllib.request import Request

import numpy as np
import pytest

import mosaic
from mosaic.core.errors import FormatError, InputError
from mosaic.core.turn import Turn
from mosaic.envs.action_names import legal_names
from mosaic.envs.catalog import make_env
from mosaic.policies.controller import PolicyError, PolicyTimeoutError, Reports
from mosaic.policies.line_process import Deadline
from mosaic.policies.llm.answer import chosen_name, restriction
from mosaic.policies.llm.endpoint import ChatEndpoint, retry_after
from mosaic.policies.registry import load_policy, parse_policy
from mosaic.runners.local import LocalEnvRunner, play_episode
from mosaic.runners.record import episode_from_json, episode_to_json
from tests.policies.llm.stub import completion, endpoint, first_legal, legal, refusal

GAME = "mosaic/tictactoe"
KEY = "sk-9f3a-not-for-logs"


@pytest.fixture(autouse=True)
def _no_key(monkeypatch):
    for name in ("MOSAIC_LLM_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def env():
    made = make_env(GAME)
    yield made
    made.close()


def decide(policy, env, turn=None):
    controller = load_policy(policy, env.spec)
    controller.begin(env.possible_agents, 0)
    return controller.act(env.reset(0) if turn is None else turn), controller


def test_models_play_whole_games_and_the_schema_names_the_legal_actions_only(env):
    with endpoint() as served:
        episode = play_episode(env, {"*": served.policy()}, 3)
    assert episode.env_steps == 7
    assert len(served.asked) == 7
    for step, body in enumerate(served.asked):
        schema = body["response_format"]["json_schema"]["schema"]
        assert schema["properties"]["action"]["enum"] == legal(body)
        assert len(legal(body)) == 9 - step
        assert (body["model"], body["max_tokens"]) == ("stub-1", 512)
        assert "temperature" not in body
    assert [line.role for line in episode.reports[0].report.transcript] == ["system", "user", "assistant"]
    assert episode.reports[0].report.transcript[2].note.startswith("100 + 7 tokens, ")
    assert episode.reports[0].report.transcript[2].note.endswith("enforce=schema")


def test_an_illegal_answer_is_sent_back_with_the_reason(env):
    answers = iter(["The centre!", '{"action": "cell 10"}', '{"action": "cell 5"}'])
    with endpoint(lambda body: next(answers)) as served:
        actions, controller = decide(served.policy("retries=2", "price_in=1", "price_out=10"), env)
    assert actions == {"player_1": legal_names(env.spec, env.reset(0), "player_1")["cell 5"]}
    assert [len(body["messages"]) for body in served.asked] == [2, 4, 6]
    assert served.asked[2]["messages"][2] == {"role": "assistant", "content": "The centre!"}
    assert "'cell 10' is not one of cell 1, cell 2" in served.asked[2]["messages"][5]["content"]
    assert isinstance(controller, Reports)
    numbers = controller.reports()["player_1"].numbers
    assert numbers["illegal"] == [True, True, False]
    assert (numbers["retries"], numbers["tokens_in"], numbers["tokens_out"]) == (2, [100] * 3, [7] * 3)
    assert numbers["cost"] == pytest.approx((300 * 1 + 21 * 10) / 1e6)
    assert len(numbers["latency_s"]) == 3


def test_an_endpoint_that_does_not_count_tokens_reports_none_and_no_cost(env):
    with endpoint(lambda body: completion(first_legal(body), usage=False)) as served:
        _, controller = decide(served.policy("price_in=1"), env)
    assert controller.reports()["player_1"].numbers.keys() == {"illegal", "retries", "latency_s", "restricted"}


@pytest.mark.parametrize("mode", ["schema", "grammar", "none"])
def test_auto_takes_the_first_mode_that_the_endpoint_accepts_and_says_so(env, caplog, mode):
    def reply(body):
        for field, name in (("response_format", "schema"), ("grammar", "grammar")):
            if field in body and name != mode:
                return refusal(400, f"{field} is not supported")
        return legal(body)[0] if mode == "grammar" else first_legal(body)

    with endpoint(reply) as served, caplog.at_level(logging.WARNING):
        episode = play_episode(env, {"*": served.policy()})
    tried = ["schema", "grammar", "none"].index(mode)
    assert len(served.asked) == episode.env_steps + tried  # both agents share a controller, which finds out once
    assert all(each.report.transcript[-1].note.endswith(f"enforce={mode}") for each in episode.reports)
    assert all(each.report.numbers["restricted"] is (mode != "none") for each in episode.reports)
    assert len(caplog.records) == (tried > 0)
    if tried:
        assert f"plays with enforce={mode}, because enforce=schema got HTTP 400" in caplog.text


def test_a_mode_that_was_asked_for_is_never_replaced(env):
    with (
        endpoint(lambda body: refusal(400, "response_format is not supported")) as served,
        pytest.raises(PolicyError, match="response_format is not supported"),
    ):
        decide(served.policy("enforce=schema"), env)
    assert len(served.asked) == 1


def test_a_busy_endpoint_is_asked_again_after_the_time_it_names(env):
    answers = iter([refusal(429, "wait", Retry_After="0.01"), refusal(503, "wait", Retry_After="0")])
    with endpoint(lambda body: next(answers, None) or first_legal(body)) as served:
        _, controller = decide(served.policy(), env)
    assert len(served.asked) == 3
    assert controller.reports()["player_1"].numbers["retries"] == 0


def test_a_limit_that_is_reached_before_a_request_is_sent_is_named_as_one():
    late = Deadline(0.02, 0.0, lambda: 0.02)
    with endpoint() as served, pytest.raises(PolicyTimeoutError, match=r"within its time limit of 0\.02 s"):
        ChatEndpoint(served.url, None)._send(Request(served.url), late)
    assert served.asked == []


def test_retry_after_is_a_number_or_a_date():
    now = datetime(2026, 1, 1, tzinfo=UTC)
    assert retry_after("1.5") == 1.5
    assert retry_after("-3") == 0
    assert retry_after("Thu, 01 Jan 2026 00:00:20 GMT", lambda: now) == 20
    for text in ("soon", "inf", "nan"):
        assert retry_after(text) is None
    assert retry_after(None) is None


def everything(spec, turn, agent):
    """A prompt of a user that tells all there is in the turn."""
    return f"{list(turn.observations)} {dict(turn.infos)}"


def test_each_agent_sees_only_its_own_observation():
    """Agents that share a controller are asked one by one, and what another sees or holds changes no question."""
    with make_closed("mpe/simple_spread_v3") as env:
        turn = env.reset(1)
        with endpoint() as served:
            policy = served.policy("enforce=none")
            decide(policy, env, turn)
            whole = [body["messages"] for body in served.asked]
            changed = Turn(*(dict(part) for part in turn))
            changed.observations["agent_1"] = turn.observations["agent_1"] + 100
            changed.infos["agent_2"] = {"secret": "agent_2 holds the ace"}
            decide(policy, env, changed)
            decide(f"{policy},prompt=python:{__name__}:everything", env, changed)
    again = [body["messages"] for body in served.asked[3:6]]
    own = [body["messages"][1]["content"] for body in served.asked[6:]]
    assert [text.partition("\n")[0] for text in own[:2]] == [
        "['agent_0'] {'agent_0': {}}",
        "['agent_1'] {'agent_1': {}}",
    ]
    assert len(whole) == 3
    assert (again[0], again[2]) == (whole[0], whole[2])
    assert again[1] != whole[1]
    assert "ace" not in json.dumps(again)


def test_hidden_cards_stay_hidden():
    """A question in Leduc poker is the same whatever card the opponent holds."""
    seen: dict[str, set[str]] = {}
    with make_closed("classic/leduc_holdem_v4") as env, endpoint() as served:
        for seed in range(30):
            turn = env.reset(seed)
            (agent,) = turn.observations
            raw = env.env.unwrapped.env.game
            other = raw.players[1 - env.possible_agents.index(agent)].hand.rank
            own = raw.players[env.possible_agents.index(agent)].hand.rank
            decide(served.policy("enforce=none"), env, turn)
            seen.setdefault(agent + own, set()).add(served.asked[-1]["messages"][1]["content"])
            assert f"Your card: {own}" in served.asked[-1]["messages"][1]["content"]
            assert other in "JQK"
    assert all(len(questions) == 1 for questions in seen.values())


class make_closed:  # noqa: N801 - a context manager
    def __init__(self, env_id):
        self._env = make_env(env_id)

    def __enter__(self):
        return self._env

    def __exit__(self, *_):
        self._env.close()


def test_the_key_is_sent_and_appears_nowhere_else(env, monkeypatch, caplog, tmp_path):
    monkeypatch.setenv("MOSAIC_LLM_API_KEY", KEY)

    def reply(body):
        return refusal(400, f"bad key {KEY}") if "response_format" in body else f'{{"action": "{KEY}"}}'

    with endpoint(reply) as served, caplog.at_level(0):
        with LocalEnvRunner(env, {"*": served.policy()}) as runner, pytest.raises(mosaic.MosaicError) as caught:
            runner.run(0)
        record = json.dumps(episode_to_json(runner.record))
        with pytest.raises(mosaic.MosaicError):
            mosaic.evaluate(GAME, {"*": served.policy()}, episodes=1, record_dir=tmp_path)
    assert served.headers[0]["Authorization"] == f"Bearer {KEY}"
    assert "bad key …" in caplog.text
    written = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "not a legal action" in written
    for text in (str(caught.value), repr(caught.value.__cause__), record, caplog.text, written):
        assert KEY not in text


def test_a_key_with_other_characters_is_refused(env, monkeypatch):
    monkeypatch.setenv("MOSAIC_LLM_API_KEY", "sk-…")  # copied from a page that shortens it
    with pytest.raises(InputError, match="The key in MOSAIC_LLM_API_KEY has characters that no key has"):
        load_policy("llm:m,url=http://127.0.0.1:1/v1", env.spec)


def test_keys_go_only_where_they_belong(env, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with endpoint() as served:
        decide(served.policy(), env)
        assert "Authorization" not in served.headers[0]  # OpenAI's key is for OpenAI
        decide(served.policy("key_env=OPENAI_API_KEY"), env)
        assert served.headers[1]["Authorization"] == f"Bearer {KEY}"
    with pytest.raises(InputError, match="key_env=OTHER_API_KEY: there is no such key"):
        load_policy("llm:m,url=http://127.0.0.1:1/v1,key_env=OTHER_API_KEY", env.spec)
    monkeypatch.setenv("MOSAIC_LLM_API_KEY", KEY)
    with pytest.raises(InputError, match="is not encrypted, and MOSAIC_LLM_API_KEY is set") as caught:
        load_policy("llm:m,url=http://model.example/v1", env.spec)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("llm:m", "the option 'url' is missing"),
        ("llm:url=http://127.0.0.1:1/v1", "the option 'model' is missing"),
        ("llm:m,url=ftp://x/v1", "it should be http:// or https://"),
        ("llm:m,url=http://x/v1?a=b", "without \\? and #"),
        ("llm:m,url=http://127.0.0.1:1/v1,enforce=maybe", "'auto', 'schema', 'grammar' or 'none'"),
        ("llm:m,url=http://127.0.0.1:1/v1,retries=-1", "greater than or equal to 0|at least 0"),
        ("llm:m,url=http://127.0.0.1:1/v1,prompt=own.py:f", "it should be python:MODULE:NAME"),
        ("llm:m,url=http://127.0.0.1:1/v1,key_env=HOME", "ends with _API_KEY"),
        ("llm:m,url=http://127.0.0.1:1/v1,retry=1", "Did you mean 'retries'"),
    ],
)
def test_references_that_cannot_be_meant_are_refused(reference, says):
    with pytest.raises(InputError, match=says):
        parse_policy(reference)


@pytest.mark.parametrize("part", ["key=", "api_key=", "token=", "API-KEY=", "password=", "url=https://me:"])
def test_a_key_in_the_reference_is_refused_without_repeating_it(part):
    with pytest.raises(InputError, match="holds a key or a password") as caught:
        parse_policy(f"llm:m,url=http://127.0.0.1:1/v1,{part}{KEY}@host/v1")
    assert KEY not in str(caught.value)


def test_actions_that_are_not_choices_are_refused_before_anything_is_asked():
    with pytest.raises(
        InputError, match=r"chooses among named actions, and those of agent_0 in gym/Pendulum-v1 are Box"
    ):
        mosaic.evaluate("gym/Pendulum-v1", {"*": "llm:m,url=http://127.0.0.1:1/v1"}, episodes=1)


def test_an_own_prompt_replaces_the_view_of_the_observation(env, tmp_path):
    code = tmp_path / "own_prompt.py"
    code.write_text("def f(spec, turn, agent):\n    return f'{agent} of {list(turn.observations)} in {spec.env_id}'\n")
    with endpoint() as served:
        decide(served.policy(f"prompt=python:{code}:f"), env)
    assert served.asked[0]["messages"][1]["content"].startswith(
        f"player_1 of ['player_1'] in {GAME}\n\nLegal actions: "
    )
    code.write_text("def f(spec, turn):\n    return ''\n")
    with pytest.raises(InputError, match="is not a function f\\(spec, turn, agent\\)"):
        load_policy(f"llm:m,url=http://127.0.0.1:1/v1,prompt=python:{code}:f", env.spec)


def test_answers_are_read_strictly():
    names = ["fold", "call", "raise"]
    assert chosen_name('  {"action": "fold"}\n', "schema", names) == "fold"
    assert chosen_name('<think>{"action": "call"}?</think>\n{"action": "fold"}', "none", names) == "fold"
    assert chosen_name(" fold\n", "grammar", names) == "fold"
    for text in ("fold", '{"action": "Fold"}', '{"action": "fold"} {"action": "call"}', '["fold"]', "null", ""):
        with pytest.raises(FormatError):
            chosen_name(text, "none", names)
    with pytest.raises(FormatError):  # only what comes first is a thought
        chosen_name("fold <think>or call?</think>", "grammar", names)
    assert restriction("grammar", ['say "hi"', "wait"]) == {"grammar": 'root ::= "say \\"hi\\"" | "wait"'}


def test_records_keep_reports_exactly(env):
    with endpoint() as served:
        episode = play_episode(env, {"*": served.policy("price_in=1")})
    again = episode_from_json(json.loads(json.dumps(episode_to_json(episode))))
    assert again.reports == episode.reports
    assert type(again.reports[0].report.numbers["tokens_in"][0]) is int
    assert again.reports[0].report.numbers["restricted"] is True
    document = episode_to_json(episode)
    del document["reports"]  # an earlier file
    assert episode_from_json(document).reports == []
    document["reports"] = [{"step": 0, "agent": "x", "numbers": {"a": "b"}, "transcript": []}]
    with pytest.raises(FormatError, match="reports"):
        episode_from_json(document)


class Thinker:
    """A user's own controller that reports."""

    def __init__(self, spec, agent, seed):
        self._numbers = {"nodes": np.int64(7), "found": np.array([True, False])}

    def begin(self, agents, seed): ...

    def act(self, turn):
        return {agent: int(np.flatnonzero(turn.action_masks[agent])[0]) for agent in turn.observations}

    def reports(self):
        return {"player_1": mosaic.plugins.DecisionReport(self._numbers)}

    def close(self): ...


class Liar(Thinker):
    def reports(self):
        return {"player_1": mosaic.plugins.DecisionReport({"nodes": float("nan")})}


def test_any_controller_can_report():
    import mosaic.plugins

    result = mosaic.evaluate(GAME, {"player_1": f"python:{__name__}:Thinker", "player_2": "random"}, episodes=4)
    reports = result.agents["player_1"].reports
    assert reports["nodes"].mean.mean == 7
    assert reports["found"].to_json()["mean"] == 0.5
    assert not result.agents["player_2"].reports
    with pytest.raises(mosaic.MosaicError, match=r"has no report: .*nodes is nan, which is neither a finite number"):
        mosaic.evaluate(GAME, {"player_1": f"python:{__name__}:Liar", "player_2": "random"}, episodes=1)
