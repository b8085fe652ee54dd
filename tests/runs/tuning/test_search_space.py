"""What a search may change, how it is written, and what is refused before anything starts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mosaic.core.errors import InputError
from mosaic.runs.tuning.search_space import Between, OneOf, clamp, parse_space, split_specs
from mosaic.workers.registry import load_worker


def native(**specs):
    return parse_space(specs, load_worker("native"), "ppo", {})


@pytest.mark.parametrize(
    ("name", "spec", "domain"),
    [
        ("gamma", "0.9..0.999", Between(0.9, 0.999)),
        ("learning_rate", "log:1e-5..1e-2", Between(1e-5, 1e-2, log=True)),
        ("n_epochs", "int:1..20", Between(1, 20, whole=True)),
        ("n_epochs", "1..20", Between(1, 20, whole=True)),
        ("n_steps", "16..256", Between(16, 256, whole=True)),  # a whole number or nothing
        ("batch_size", "log:64..4096", Between(64, 4096, log=True, whole=True)),
        ("log_std_init", "-2..-0.5", Between(-2.0, -0.5)),
        ("n_steps", "choice:32,64,128", OneOf((32, 64, 128))),
        ("n_steps", "32|64|128", OneOf((32, 64, 128))),
        ("hidden", "[64,64]|[128,128]", OneOf(([64, 64], [128, 128]))),
        ("hidden", "choice:[64,64],[128]", OneOf(([64, 64], [128]))),
        ("activation", "tanh|relu", OneOf(("tanh", "relu"))),
        ("normalize_observations", "true|false", OneOf((True, False))),
        ("target_kl", "null|0.02", OneOf((None, 0.02))),
    ],
)
def test_the_notation(name, spec, domain):
    assert native(**{name: spec}) == {name: domain}


@pytest.mark.parametrize(
    ("name", "spec", "text"),
    [
        ("learnin_rate", "0..1", "there is no option 'learnin_rate'. Did you mean 'learning_rate'? Options: "),
        ("gamma", "0.9..1.2", "gamma: it should be at most 1.0 (got 1.2)."),
        ("learning_rate", "0..0.1", "learning_rate: it should be more than 0"),
        ("activation", "tanh|rely", "Did you mean 'relu'?"),
        ("hidden", "[64]|[0]", "every hidden layer should be at least 1 wide"),
        ("gamma", "0.9", "that names no values. Type one of: 0.9..0.999, log:1e-5..1e-2, int:1..20"),
        ("gamma", "nan..1", "that names no values."),
        ("gamma", "0.99..0.9", "the first end should be below the second. Type gamma=0.9..0.99"),
        ("ent_coef", "log:0..0.1", "a log scale begins above 0. Type ent_coef=0..0.1 for an even one."),
        ("n_epochs", "1.5..3", "'n_epochs' is a whole number, and so should both ends be."),
        ("n_steps", "choice:32", "a choice is between two or more different values."),
        ("n_steps", "32|32", "a choice is between two or more different values."),
        ("n_steps", "32||64", "a value cannot be read (it is empty)."),
        ("hidden", "[64|[32]", "a value cannot be read"),
    ],
)
def test_what_is_refused_and_how(name, spec, text):
    with pytest.raises(InputError) as refused:
        native(**{name: spec})
    assert refused.value.exit_code == 2
    assert str(refused.value).startswith(f"--search {name}={spec}: ")
    assert text in str(refused.value)


def test_names_and_values_are_split_once():
    assert split_specs(["a = 1..2", "b=x=1|y"]) == {"a": "1..2", "b": "x=1|y"}
    with pytest.raises(InputError, match=r"'gamma' is not NAME=VALUES, for example learning_rate=log:"):
        split_specs(["gamma"])
    with pytest.raises(InputError, match="'a' is searched twice"):
        split_specs(["a=1..2", "a=3..4"])


@given(
    st.floats(-1e6, 1e6),
    st.floats(1e-3, 1e6),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)
def test_a_perturbed_value_comes_back_into_the_range(low, width, value, whole):
    low, high = (math.floor(low), math.floor(low) + math.ceil(width)) if whole else (low, low + width)
    kept = clamp(Between(low, high, whole=whole), value)
    assert low <= kept <= high
    assert isinstance(kept, int) or not whole
    if low <= value <= high and not whole:
        assert kept == value


def test_a_choice_stays_what_it_is():
    assert clamp(OneOf(("a", "b")), "b") == "b"
