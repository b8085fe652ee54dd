"""Who answers for whom."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.policies.mapping import ControllerKey, FunctionMapping, MappingError, PolicyMapping, parse_mapping

AGENTS = ("red_0", "red_1", "blue_0")


def test_the_first_rule_that_fits_wins_and_its_agents_share_a_seat():
    mapping = PolicyMapping.of(["red_0=minimax", "red_*,green_*=random", "*=human"])
    assert mapping.key_of("red_0") == ControllerKey("red_0", "minimax")
    assert mapping.key_of("red_1") == mapping.key_of("green_7") == ControllerKey("red_*,green_*", "random")
    assert mapping.key_of("blue_0").policy == "human"


def test_two_rules_with_one_policy_are_two_seats():
    mapping = PolicyMapping.of({"red_0": "random", "red_1": "random"})
    assert mapping.key_of("red_0") != mapping.key_of("red_1")


def test_a_policy_may_hold_an_equals_sign():
    assert PolicyMapping.of(["a=stockfish:elo=1500"]).key_of("a").policy == "stockfish:elo=1500"


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        (
            ["red_3=random", "*=random"],
            "There is no agent 'red_3'. Did you mean 'red_1'? Agents: red_0, red_1, blue_0.",
        ),
        (["red_*=random"], "No policy for agent 'blue_0'. Add --agent blue_0=POLICY or --agent '*=POLICY'."),
        (["red_0,rot_*=random", "*=random"], "There is no agent 'rot_*'."),
        (["random"], "'random' is not AGENT=POLICY"),
        (["=random"], "'=random' is not AGENT=POLICY"),
        (["a="], "'a=' is not AGENT=POLICY"),
    ],
)
def test_mappings_that_do_not_fit_say_what_to_type(rules, text):
    with pytest.raises(MappingError) as caught:
        PolicyMapping.of(rules).check(AGENTS)
    assert str(caught.value).startswith(text)


def test_agents_that_are_not_known_ahead_are_not_checked():
    PolicyMapping.of(["anything_*=random"]).check(())


names = st.text("ab_01", min_size=1, max_size=5)


@given(st.lists(st.tuples(names, names), max_size=5), names)
def test_an_exact_name_is_found_by_the_first_rule_that_says_it(rules, agent):
    expected = next((policy for pattern, policy in rules if pattern == agent), None)
    try:
        assert PolicyMapping(tuple(rules)).key_of(agent).policy == expected
    except MappingError:
        assert expected is None


@given(st.text(max_size=30))
def test_any_text_is_a_rule_or_an_error(text):
    with contextlib.suppress(MappingError):
        PolicyMapping.of([text]).check(AGENTS)


def test_a_function_decides_per_episode(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_mapping.py").write_text(
        "def choose(agent, episode): return 'random' if episode % 2 else 'minimax'\nconstant = 5\n"
    )
    mapping = parse_mapping(["python:my_mapping:choose"])
    assert isinstance(mapping, FunctionMapping)
    assert [mapping.key_of("a", episode).policy for episode in (0, 1)] == ["minimax", "random"]
    with pytest.raises(MappingError, match="decides for every agent"):
        parse_mapping(["python:my_mapping:choose", "a=random"])
    with pytest.raises(MappingError, match=r"is a int, not a function of \(agent_id, episode\)"):
        parse_mapping(["python:my_mapping:constant"])


def test_a_function_must_answer_with_a_name():
    with pytest.raises(MappingError, match=r"f\('a', 0\) returned None instead of a policy's name"):
        FunctionMapping("f", lambda agent, episode: None).check(["a"])
