"""Where a trained policy may play: envs with equal spaces, with a note; others are refused with the difference."""

import json

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st

from mosaic.config.sections import EnvironmentConfig
from mosaic.core.errors import FormatError, InputError
from mosaic.core.reference import parse_options
from mosaic.envs.env import EnvFacts, EnvSpec
from mosaic.envs.space_json import space_differences, space_from_json, space_to_json, spec_spaces
from mosaic.policies.controller import PolicyRequest, Sampling
from mosaic.store.checkpoints import PolicyEntry
from mosaic.store.policies.run_policy import kind
from tests.store.store_cases import write


class Worker:
    loads_pickles = False

    def __init__(self, samples):
        self.info = type("Info", (), {"samples": samples})()

    def controller(self, checkpoint, policy, request):
        return request


@pytest.fixture(autouse=True)
def workers(monkeypatch):
    known = {"toy": Worker(True), "rigid": Worker(False)}
    monkeypatch.setattr("mosaic.store.policies.run_policy.load_plugin", lambda group, name: known[name])


def spec(seen, acted, env="gym/CartPole-v1", agents=("agent_0",), **facts):
    given_facts = {key: facts.pop(key) for key in ("turn_based", "competitive", "hidden_information") if key in facts}
    config = EnvironmentConfig(env_id=env, **facts)
    return EnvSpec(EnvFacts(config, **given_facts), agents, dict.fromkeys(agents, seen), dict.fromkeys(agents, acted))


SEEN, ACTED = spaces.Box(-1, 1, (4,)), spaces.Discrete(2)


def save(run, trained, **also):
    environment = trained.facts.config.model_dump(mode="json")
    return write(run, 100, environment=environment, spaces=spec_spaces(trained), **also)


def asked(reference, here, call=kind.make):
    options = parse_options(reference, reference.removeprefix("run:"), kind.options, kind.first)
    return call(options, PolicyRequest(reference, here, here.possible_agents))


def notes(here, reference="run:nightly"):
    return asked(reference, here, kind.notes)


def test_equal_spaces_play_in_another_env_with_a_note(run):
    save(run, spec(SEEN, ACTED))
    assert notes(spec(SEEN, ACTED)) == ()
    other = spec(SEEN, ACTED, "python:mine:Cart", agents=("cart",))
    assert asked("run:nightly", other).agents == ("cart",)
    assert notes(other) == (
        "'run:nightly' was trained in gym/CartPole-v1; it plays python:mine:Cart, whose spaces are equal.",
    )


def test_a_version_counts_where_both_sides_have_one(run):
    save(run, spec(SEEN, ACTED, "gym/CartPole"))
    assert notes(spec(SEEN, ACTED, "gym/CartPole-v1")) == ()
    save(run, spec(SEEN, ACTED, "gym/CartPole-v0"))
    assert "was trained in gym/CartPole-v0" in notes(spec(SEEN, ACTED, "gym/CartPole-v1"))[0]


def test_harder_options_and_missing_wrappers_are_noted(run):
    save(run, spec(SEEN, ACTED, options={"gravity": 1}, wrappers=("clip_reward",)))
    (note,) = notes(spec(SEEN, ACTED, options={"gravity": 20}))
    assert 'with the options {"gravity": 1} instead of {"gravity": 20}' in note
    assert "type: --set 'environment.wrappers=[\"clip_reward\"]'" in note
    assert asked("run:nightly", spec(SEEN, ACTED)).agents == ("agent_0",)


@pytest.mark.parametrize("call", [kind.make, kind.notes])
def test_other_spaces_are_refused_with_the_difference(run, call):
    save(run, spec(SEEN, ACTED))
    text = (
        r"^'run:nightly' was trained in gym/CartPole-v1 and cannot play gym/Acrobot-v1 as agent_0, whose spaces "
        r"differ: its observation is Box\(-1, 1, \(6,\), float32\) here and Box\(-1, 1, \(4,\), float32\) in training; "
        r"its action is Discrete\(3\) here and Discrete\(2\) in training\.$"
    )
    with pytest.raises(InputError, match=text):
        asked("run:nightly", spec(spaces.Box(-1, 1, (6,)), spaces.Discrete(3), "gym/Acrobot-v1"), call)


def test_a_wrapper_that_is_missing_is_what_to_type(run):
    save(run, spec(spaces.Box(0, 1, (16,)), ACTED, "gym/FrozenLake-v1", wrappers=("flatten",)))
    with pytest.raises(InputError, match=r"""type --set 'environment\.wrappers=\["flatten"\]'$"""):
        asked("run:nightly", spec(spaces.Discrete(16), ACTED, "gym/FrozenLake-v1"))


def test_a_policy_is_compared_with_the_agents_it_was_trained_for(run):
    two = EnvSpec(
        EnvFacts(EnvironmentConfig(env_id="mpe/simple_tag_v3")),
        ("fox", "hen"),
        {"fox": SEEN, "hen": spaces.Box(-1, 1, (6,))},
        {"fox": ACTED, "hen": ACTED},
    )
    policies = {"hunter": PolicyEntry(agents=("fox",)), "prey": PolicyEntry(agents=("hen",))}
    save(run, two, policies=policies)
    assert asked("run:nightly/hunter", spec(SEEN, ACTED)).agents == ("agent_0",)
    with pytest.raises(InputError, match=r"\(4,\), float32\) here and Box\(-1, 1, \(6,\), float32\) in training"):
        asked("run:nightly/prey", spec(SEEN, ACTED))
    with pytest.raises(InputError, match="trained no policy for agent 'agent_0'"):
        asked("run:nightly", spec(SEEN, ACTED))


def test_an_older_checkpoint_without_spaces_asks_its_env(run):
    cartpole = EnvironmentConfig(env_id="gym/CartPole-v1").model_dump(mode="json")
    write(run, 100, environment=cartpole)
    with pytest.raises(InputError, match="was trained in gym/CartPole-v1 and cannot play gym/Taxi-v3"):
        asked("run:nightly", spec(spaces.Discrete(500), spaces.Discrete(6), "gym/Taxi-v3"))


# Sampling.

STOCHASTIC = {"learner": PolicyEntry(files=("facts.json",), agents=("*",), stochastic=True)}
POKER = {"hidden_information": True, "turn_based": True, "competitive": True}


def test_sampling_is_passed_on_as_asked(run):
    save(run, spec(SEEN, ACTED), policies=STOCHASTIC)
    assert asked("run:nightly", spec(SEEN, ACTED)).sampling is None
    assert asked("run:nightly,sample=true", spec(SEEN, ACTED)).sampling == Sampling()
    assert asked("run:nightly@100/learner,temperature=0.5", spec(SEEN, ACTED)).sampling == Sampling(0.5)
    assert asked("run:nightly,sample=true,temperature=2", spec(SEEN, ACTED)).sampling == Sampling(2.0)


@pytest.mark.parametrize("facts", [POKER, {"competitive": True}])
def test_policy_networks_draw_by_default_where_moves_are_hidden_or_simultaneous(run, facts):
    game = spec(SEEN, ACTED, "classic/leduc_holdem_v4", **facts)
    save(run, game, policies=STOCHASTIC)
    assert asked("run:nightly", game).sampling == Sampling()
    (note,) = notes(game)
    assert note.startswith("'run:nightly' draws its actions by their probabilities, the default in classic/leduc")
    assert note.endswith("type run:nightly,sample=false")
    assert asked("run:nightly,sample=false", game).sampling is None
    assert notes(game, "run:nightly,sample=false") == ()
    save(run, game)  # values, such as those of a table
    assert asked("run:nightly", game).sampling is None


def test_an_open_game_is_played_by_the_best_action(run):
    chess = spec(SEEN, ACTED, "classic/chess_v6", turn_based=True, competitive=True)
    save(run, chess, policies=STOCHASTIC)
    assert asked("run:nightly", chess).sampling is None


def test_a_worker_that_cannot_draw_refuses(run):
    save(run, spec(SEEN, ACTED), worker="rigid", policies=STOCHASTIC)
    with pytest.raises(InputError, match=r"worker 'rigid', .* plays the best action only: leave sample and temp"):
        asked("run:nightly,sample=true", spec(SEEN, ACTED))
    assert asked("run:nightly", spec(SEEN, ACTED, **POKER)).sampling is None


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("temperature=0", "temperature: it should be more than 0"),
        ("temperature=inf", "temperature: "),
        ("sample=maybe", "sample: "),
        ("sample=false,temperature=2", "temperature belongs to sample=true"),
        ("tempreature=2", "there is no option 'tempreature'. Did you mean 'temperature'"),
    ],
)
def test_other_options_are_refused(run, options, text):
    with pytest.raises(InputError, match=text):
        asked(f"run:nightly,{options}", spec(SEEN, ACTED))


# The JSON form of spaces.

_LEAVES = st.one_of(
    st.builds(spaces.Discrete, st.integers(1, 9), start=st.integers(-3, 3)),
    st.builds(spaces.MultiDiscrete, st.lists(st.integers(1, 5), min_size=1, max_size=3)),
    st.builds(spaces.MultiBinary, st.integers(1, 4)),
    st.builds(
        lambda low, shape, dtype: spaces.Box(low, 9 if dtype is not np.float32 else np.inf, shape, dtype),
        st.sampled_from([0, 1]),
        st.sampled_from([(), (2,), (2, 3)]),
        st.sampled_from([np.float32, np.uint8, np.int64]),
    ),
    st.just(spaces.Box(np.array([-np.inf, 0.1], np.float32), np.array([0.3, np.inf], np.float32))),
    st.just(spaces.Text(5)),
)
_SPACES = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(spaces.Tuple),
        st.dictionaries(st.sampled_from("abc"), inner, min_size=1).map(spaces.Dict),
    ),
    max_leaves=4,
)


@given(_SPACES, _SPACES)
def test_spaces_survive_json_and_only_equal_ones_are_equal(one, other):
    written = json.loads(json.dumps(space_to_json(one), allow_nan=False))
    assert space_from_json(written) == one
    assert space_to_json(space_from_json(written)) == written
    differences = space_differences(space_to_json(one), space_to_json(other), "it")
    assert (differences == []) == (
        one == other and list(getattr(one, "keys", list)()) == list(getattr(other, "keys", list)())
    )


def test_differences_name_the_part():
    here = spaces.Dict(near=spaces.Discrete(3), far=spaces.Box(np.array([0, 1], np.float32), 2))
    there = spaces.Dict(far=spaces.Box(0, 2, (2,)), goal=spaces.MultiBinary(2))
    assert space_differences(space_to_json(here), space_to_json(there), "it") == [
        (
            "it['far'] is Box([0, 1], 2, (2,), float32) here and Box(0, 2, (2,), float32) in training (low[1] is "
            "1 here and 0 in training)"
        ),
        "it['goal'] is missing here (MultiBinary([2]) in training)",
        "it['near'] is Discrete(3) here and was not there in training",
    ]


def test_what_is_not_a_space_is_refused():
    for document in ({"space": "Box"}, {"space": "Riddle"}, {}, {"space": "Discrete", "n": -1, "start": 0}):
        with pytest.raises(FormatError):
            space_from_json(document)
