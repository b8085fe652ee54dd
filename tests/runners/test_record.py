"""Records survive files exactly; a replay that differs says where."""

import contextlib
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from mosaic import make_env, play_episode
from mosaic.config.sections import EnvironmentConfig
from mosaic.core.episode import Episode, PolicyChange
from mosaic.core.errors import FormatError, InputError, MosaicError
from mosaic.core.turn import digest_value
from mosaic.runners.record import decode, encode, episode_from_json, episode_to_json, load_episode, replay, save_episode

scalars = st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.booleans()
dtypes = st.sampled_from([np.dtype(t) for t in (np.float32, np.float64, np.int64, np.int8, np.bool_)])
shapes = hnp.array_shapes(max_dims=2, max_side=3)
arrays = dtypes.flatmap(lambda t: hnp.arrays(t, shapes, elements=hnp.from_dtype(t, allow_nan=False)))
actions = st.recursive(
    scalars | arrays, lambda inner: st.tuples(inner, inner) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
)


@given(actions)
def test_actions_survive_json_exactly(action):
    back = decode(json.loads(json.dumps(encode(action))))
    assert type(back) is type(action)
    assert digest_value(back) == digest_value(action)


names = st.text("abc_0", min_size=1, max_size=4)
episodes = st.builds(
    Episode,
    environment=st.just({"family": "gym", "env_id": "CartPole-v1"}),
    seed=st.integers(0, 2**31 - 1),
    policies=st.dictionaries(names, names, min_size=1, max_size=3),
    changes=st.lists(st.builds(PolicyChange, st.integers(0, 9), names, names), max_size=2),
    ends=st.dictionaries(names, st.tuples(st.integers(0, 9), st.sampled_from(["terminated", "truncated"])), max_size=2),
    cut=st.booleans(),
    first_digest=st.integers(0, 2**32 - 1),
)


@given(episodes, st.lists(st.tuples(st.dictionaries(names, scalars, max_size=2), st.floats(-1e9, 1e9)), max_size=4))
def test_episodes_survive_json_exactly(episode, steps):
    episode.actions = [dict(taken) for taken, _ in steps]
    episode.rewards = [{"a": reward} for _, reward in steps]
    assert episode_from_json(json.loads(json.dumps(episode_to_json(episode)))) == episode


@pytest.mark.parametrize(
    "env_id",
    ["gym/LunarLanderContinuous-v3", "classic/connect_four_v3", "sisl/multiwalker_v9", "classic/leduc_holdem_v4"],
)
def test_a_record_replays_bit_for_bit_and_a_false_one_is_found(env_id, tmp_path):
    env = make_env(env_id)
    save_episode(tmp_path / "e.json", play_episode(env, {"*": "random"}, 4, max_steps=40))
    episode = load_episode(tmp_path / "e.json")
    fresh = make_env(EnvironmentConfig.model_validate(episode.environment))
    assert replay(fresh, episode) is None
    episode.digests[3] ^= 1
    difference = replay(env, episode)
    assert difference is not None
    assert (difference.step, difference.what) == (3, "observations differ from the record")
    episode.digests[3] ^= 1
    agent = next(iter(episode.rewards[1]))
    episode.rewards[1] = {**episode.rewards[1], agent: 99.0}
    difference = replay(env, episode)
    assert difference is not None
    assert difference.step == 2
    assert "rewards are" in difference.what


def test_wrappers_and_options_are_part_of_the_record(tmp_path):
    config = EnvironmentConfig(
        env_id="mpe/simple_spread", options={"N": 2, "max_cycles": 9}, wrappers=["time_limit:max_steps=5"]
    )
    save_episode(tmp_path / "e.json", play_episode(make_env(config), {"*": "random"}, 4))
    episode = load_episode(tmp_path / "e.json")
    assert episode.env_steps == 5
    assert episode.environment["env_id"] == "simple_spread_v3"  # the version that was played, not the newest of later
    assert replay(make_env(EnvironmentConfig.model_validate(episode.environment)), episode) is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a complete episode file"),
        ("{", "is not a complete episode file"),
        ("[]", "it is not a Mosaic episode"),
        ('{"format": "mosaic.episode", "version": 99}', "it has version 99; this Mosaic reads version 1"),
        ('{"format": "mosaic.episode", "version": 1}', "environment: Field required"),
    ],
)
def test_damaged_files_are_explained(tmp_path, text, message):
    path = tmp_path / "e.json"
    path.write_text(text)
    with pytest.raises(FormatError) as caught:
        load_episode(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_missing_file(tmp_path):
    with pytest.raises(InputError, match="There is no episode file"):
        load_episode(tmp_path / "none.json")
    with pytest.raises(InputError, match="is a folder"):
        load_episode(tmp_path)


@settings(max_examples=200)
@given(st.data())
def test_no_damage_raises_anything_but_a_format_error(data):
    text = json.dumps(episode_to_json(Episode({}, 1, {"a": "r"}, actions=[{"a": np.zeros(2)}], rewards=[{"a": 1.0}])))
    start = data.draw(st.integers(0, len(text) - 1))
    damaged = text[:start] + data.draw(st.text(max_size=5)) + text[start + data.draw(st.integers(0, 9)) :]
    with contextlib.suppress(MosaicError, json.JSONDecodeError):
        episode_from_json(json.loads(damaged))


def test_a_failed_write_leaves_nothing_behind(tmp_path):
    episode = Episode({}, 0, {"a": "x"}, actions=[{"a": object()}], rewards=[{"a": 0.0}])
    with pytest.raises(TypeError):
        save_episode(tmp_path / "e.json", episode)
    assert list(tmp_path.iterdir()) == []
