"""Weights on disk."""

import json
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from mosaic.core.errors import FormatError, InputError
from mosaic.envs.vector.encoding import ActionHead
from mosaic.models.architecture import Architecture
from mosaic.models.layout import initial_weights
from mosaic.models.weights_file import (
    FORMAT,
    NotFiniteError,
    SavedNetwork,
    check_size,
    load_weights,
    save_policy_network,
    save_weights,
)

ARCHITECTURE = Architecture(4, ActionHead("gaussian", (2,)), (8,), critic_observation=9)


def test_weights_come_back_bit_for_bit(tmp_path):
    path, flat = tmp_path / "policy.safetensors", initial_weights(ARCHITECTURE, 3)
    extra = {"shift": np.arange(4.0), "count": np.array([7], np.int64), "turned": np.arange(6.0).reshape(2, 3).T}
    save_weights(path, ARCHITECTURE, flat, extra)
    loaded = load_weights(path)
    assert loaded.architecture == ARCHITECTURE
    assert loaded.flat.tobytes() == flat.tobytes()
    assert loaded.extra.keys() == extra.keys()
    assert all((loaded.extra[name] == extra[name]).all() for name in extra)
    assert loaded.extra["count"].dtype == np.int64
    assert [file.name for file in tmp_path.iterdir()] == ["policy.safetensors"]


def test_tensors_have_names_that_others_can_read(tmp_path):
    flat = initial_weights(ARCHITECTURE, 3)
    save_weights(tmp_path / "it", ARCHITECTURE, flat)
    arrays = load_file(tmp_path / "it")
    assert arrays["policy.0.weight"].shape == (4, 8)
    assert arrays["value.0.weight"].shape == (9, 8)
    assert arrays["log_std"].tolist() == [0, 0]


@pytest.mark.parametrize(
    ("last", "options", "head"),
    [
        (3, {}, ActionHead("categorical", (3,))),
        (5, {"action_sizes": (2, 3)}, ActionHead("categorical", (2, 3))),
        (2, {"log_std": [0.5, -1]}, ActionHead("gaussian", (2,))),
    ],
)
def test_layers_of_other_programs_become_a_policy(tmp_path, last, options, head):
    random = np.random.default_rng(0)
    layers = [(random.normal(size=(4, 6)), random.normal(size=6)), (random.normal(size=(6, last)), np.zeros(last))]
    save_policy_network(str(tmp_path / "it"), layers, activation="relu", **options)
    loaded = load_weights(tmp_path / "it")
    assert loaded.architecture == Architecture(4, head, (6,), "relu", critic_hidden=())
    arrays = load_file(tmp_path / "it")
    assert (arrays["policy.0.weight"] == layers[0][0].astype(np.float32)).all()
    assert (arrays["policy.1.weight"] == layers[1][0].astype(np.float32)).all()
    assert arrays.get("log_std", np.zeros(0)).tolist() == options.get("log_std", [])


@pytest.mark.parametrize(
    ("layers", "options", "text"),
    [
        ([], {}, "at least one layer"),
        ([(np.zeros((6, 4)), np.zeros(6))], {}, "Transpose weights that are"),
        ([(np.zeros((4, 6)), np.zeros(6)), (np.zeros((5, 2)), np.zeros(2))], {}, "Layer 1 has a weight of shape"),
        ([(np.zeros((4, 6)), np.zeros(6))], {"action_sizes": (2, 3)}, "6 outputs, which fit neither"),
        ([(np.zeros((4, 6)), np.zeros(6))], {"log_std": [0.0]}, "6 outputs, which fit neither"),
        ([(np.zeros((4, 6)), np.zeros(6))], {"activation": "rulu"}, "Did you mean 'relu'"),
    ],
)
def test_layers_that_do_not_fit_are_refused(tmp_path, layers, options, text):
    with pytest.raises(InputError, match=text):
        save_policy_network(tmp_path / "it", layers, **options)


def test_networks_of_the_torch_engine_are_one_tensor(tmp_path):
    architecture = Architecture(4, ActionHead("categorical", (2,)), memory="gru")
    flat = np.arange(50, dtype=np.float32)
    save_weights(tmp_path / "it", architecture, flat)
    loaded = load_weights(tmp_path / "it")
    assert loaded.architecture == architecture
    assert (loaded.flat == flat).all()


@pytest.mark.parametrize("memory", ["gru", "mingru"])
def test_a_memory_larger_than_its_weights_is_refused(tmp_path, memory):
    whole = Architecture(4, ActionHead("categorical", (2,)), hidden=(8,), memory=memory, memory_size=64)
    kept = SavedNetwork(whole, initial_weights(whole, 0), {})
    check_size(kept, tmp_path)
    with pytest.raises(FormatError, match=r"its architecture needs .* or more"):
        check_size(kept._replace(architecture=replace(whole, memory_size=1000)), tmp_path)


def test_what_is_not_a_file_of_weights(tmp_path):
    path = tmp_path / "it"
    with pytest.raises(InputError, match="There is no file"):
        load_weights(path)
    path.write_bytes(b"nonsense")
    with pytest.raises(FormatError, match="is not a safetensors file of Mosaic"):
        load_weights(path)
    save_file({"a": np.zeros(2)}, path)
    with pytest.raises(FormatError, match=r"does not hold the weights of a network \(mosaic-network-1\)"):
        load_weights(path)


def test_weights_that_do_not_fit_their_architecture(tmp_path):
    path, flat = tmp_path / "it", initial_weights(ARCHITECTURE, 3)
    with pytest.raises(FormatError, match=rf"These are {flat.size - 1} weights, but the architecture has {flat.size}"):
        save_weights(path, ARCHITECTURE, flat[:-1])
    save_weights(path, ARCHITECTURE, flat)
    arrays = load_file(path)
    arrays["policy.0.weight"] = np.ascontiguousarray(arrays["policy.0.weight"].T)
    facts = json.dumps({"format": FORMAT, "architecture": ARCHITECTURE.to_json()})
    save_file(arrays, path, {"mosaic": facts})
    with pytest.raises(FormatError, match=r"asks for policy.0.weight as float32 of shape \(4, 8\), but .* \(8, 4\)"):
        load_weights(path)


def test_a_users_own_network_is_kept_whole_although_the_architecture_is_plain(tmp_path):
    flat = np.arange(5, dtype=np.float32)
    save_weights(tmp_path / "it", ARCHITECTURE, flat, own_network=True)
    loaded = load_weights(tmp_path / "it")
    assert loaded.architecture == ARCHITECTURE
    np.testing.assert_array_equal(loaded.flat, flat)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_weights_that_are_not_finite_are_neither_saved_nor_loaded(tmp_path, value):
    architecture = Architecture(4, ActionHead("categorical", (2,)))
    weights = initial_weights(architecture, 1)
    path = tmp_path / "a.safetensors"
    save_weights(path, architecture, weights)
    weights[7] = value
    with pytest.raises(NotFiniteError, match=r"^The weights for b\.safetensors are not finite: 1 of .* diverged"):
        save_weights(tmp_path / "b.safetensors", architecture, weights)
    assert not (tmp_path / "b.safetensors").exists()
    arrays = load_file(path)
    name = next(iter(arrays))
    arrays[name] = np.full_like(arrays[name], value)
    facts = {"format": FORMAT, "architecture": architecture.to_json()}
    save_file(arrays, path, {"mosaic": json.dumps(facts)})
    with pytest.raises(FormatError, match=rf"a\.safetensors: the numbers of '{name}' are not finite"):
        load_weights(path)
