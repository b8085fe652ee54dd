"""Architectures, and where their weights lie."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mosaic.core.errors import FormatError, InputError, UnknownNameError
from mosaic.envs.vector.encoding import ActionHead, RowPart
from mosaic.models.architecture import Architecture
from mosaic.models.fused import build_model
from mosaic.models.layout import count_weights, initial_weights, orthogonal, tensors

widths = st.integers(1, 40)
layers = st.lists(widths, max_size=3).map(tuple)
heads = st.lists(st.integers(1, 9), min_size=1, max_size=3).map(lambda sizes: ActionHead("categorical", tuple(sizes)))
heads |= st.integers(1, 6).map(lambda numbers: ActionHead("gaussian", (numbers,)))


@st.composite
def architectures(draw):
    shared = draw(st.booleans())
    critic = (
        {} if shared else {"critic_observation": draw(st.integers(0, 30)), "critic_hidden": draw(st.none() | layers)}
    )
    activation = draw(st.sampled_from(["tanh", "relu", "silu"]))
    return Architecture(draw(widths), draw(heads), draw(layers), activation, shared, **critic)


@given(architectures())
def test_tensors_follow_one_another_without_gaps(architecture):
    places = tensors(architecture)
    assert places[0].start == 0
    assert all(before.end == after.start for before, after in pairwise(places))
    assert len({place.name for place in places}) == len(places)
    flat = np.arange(places[-1].end, dtype=np.float32)
    assert np.concatenate([place.of(flat).ravel() for place in places]).tolist() == flat.tolist()


@given(architectures())
def test_a_model_finds_every_tensor(architecture):
    model = build_model(architecture)
    starts = {place.name: place.start for place in tensors(architecture)}
    for name, net in (("policy", model.policy), ("value", model.policy if architecture.shared else model.value)):
        if name == "policy" or not architecture.shared:
            assert [starts[f"{name}.{layer}.weight"] for layer in range(len(net.weights))] == net.weights.tolist()
            ends = net.weights + net.dims[:-1] * net.dims[1:]
            assert [starts[f"{name}.{layer}.bias"] for layer in range(len(net.weights))] == ends.tolist()
    assert model.policy.dims[-1] == architecture.head.width + architecture.shared
    if architecture.head.kind == "gaussian":
        assert model.head.log_std + architecture.head.width == count_weights(architecture)


@given(architectures())
def test_architectures_survive_json(architecture):
    assert Architecture.from_json(architecture.to_json()) == architecture


def test_architectures_of_the_torch_engine_survive_json():
    parts = (RowPart("image", 0, (8, 8, 3), True), RowPart("speed", 192, (2,), False))
    architecture = Architecture(194, ActionHead("categorical", (4,)), parts=parts, memory="lstm", memory_size=32)
    assert not architecture.plain
    assert Architecture.from_json(architecture.to_json()) == architecture


@settings(max_examples=30)
@given(widths, widths)
def test_first_matrices_are_orthogonal(rows, columns):
    found = orthogonal(np.random.default_rng(0), rows, columns, 2.0)
    short = found if rows < columns else found.T
    np.testing.assert_allclose(short @ short.T, 4 * np.eye(min(rows, columns)), atol=1e-10)


def test_first_weights_treat_actions_nearly_alike_and_follow_the_seed():
    architecture = Architecture(4, ActionHead("gaussian", (3,)), (8, 8), shared=True)
    flat = initial_weights(architecture, 1, log_std=-0.5)
    places = {place.name: place.of(flat) for place in tensors(architecture)}
    norms = np.linalg.norm(places["policy.2.weight"], axis=0)
    np.testing.assert_allclose(norms, [0.01, 0.01, 0.01, 1.0], rtol=1e-5)
    assert (places["log_std"] == -0.5).all()
    assert not places["policy.0.bias"].any()
    assert (flat == initial_weights(architecture, 1, -0.5)).all()
    assert (flat != initial_weights(architecture, 2, -0.5)).any()


def test_what_no_network_can_be():
    head = ActionHead("categorical", (2,))
    with pytest.raises(UnknownNameError, match=r"no activation named 'tan'\. Did you mean 'tanh'"):
        Architecture(4, head, activation="tan")
    with pytest.raises(UnknownNameError, match=r"no memory named 'lsd'.*Known: gru, lstm, mingru"):
        Architecture(4, head, memory="lsd")
    with pytest.raises(InputError, match="Every width of a network must be at least 1"):
        Architecture(4, head, hidden=(64, 0))
    with pytest.raises(InputError, match="A shared network has no critic of its own"):
        Architecture(4, head, shared=True, critic_observation=8)
    with pytest.raises(InputError, match="supports neither pictures nor LSTMs: use the torch engine"):
        build_model(Architecture(4, head, memory="lstm"))
    with pytest.raises(InputError, match="A network with pictures or an LSTM has no such layout"):
        tensors(Architecture(4, head, memory="lstm"))


def test_documents_that_are_no_architecture():
    good = Architecture(4, ActionHead("categorical", (2,))).to_json()
    with pytest.raises(UnknownNameError, match="Did you mean 'hidden'"):
        Architecture.from_json({**good, "hiden": [3]})
    with pytest.raises(FormatError, match=r"not the architecture of a network \(KeyError\('head'\)\)"):
        Architecture.from_json({key: value for key, value in good.items() if key != "head"})
    with pytest.raises(FormatError, match="not the architecture of a network"):
        Architecture.from_json(None)
