"""Settings written as TOML are read as the same settings."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.config.file_formats import write_toml
from mosaic.config.loading import dump_run_config, parse_run_config

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
SCALARS = st.one_of(
    st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), TEXTS
)
LISTS = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3), max_leaves=6)
INLINE = st.one_of(LISTS, st.lists(st.dictionaries(TEXTS, LISTS, max_size=2), max_size=2))
TABLES = st.recursive(
    st.dictionaries(TEXTS, INLINE, max_size=4),
    lambda inner: st.dictionaries(TEXTS, st.one_of(INLINE, inner), max_size=3),
    max_leaves=8,
)


@given(TABLES)
def test_what_is_written_is_read_again(document):
    assert tomllib.loads(write_toml(document)) == document


def test_a_setting_without_value_is_left_out():
    assert write_toml({"a": None, "b": {"c": 1, "d": None}}) == "[b]\nc = 1\n"


def test_a_list_cannot_have_an_empty_place():
    with pytest.raises(ValueError, match="null in a list"):
        write_toml({"a": [1, None]})


def test_a_run_comes_back_equal_with_its_agents_in_order():
    asked = {
        "environment": {"env_id": "gym/CartPole-v1", "options": {"x": [1, {"y": "ü\n\x7f"}]}},
        "agents": {"red_*": "random", "a.b": "human", "*": "learner"},
        "training": {"worker": "toy", "params": {"noise": 1e-5, "hidden": [64, 64]}},
    }
    config = parse_run_config(asked)
    again = parse_run_config(tomllib.loads(write_toml(dump_run_config(config))))
    assert again == config
    assert list(again.agents) == list(config.agents)
