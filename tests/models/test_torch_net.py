"""Networks in torch: same layout as the fused ones, pictures, memory, a user's own module, heads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mosaic.core.errors import InputError
from mosaic.envs.vector.encoding import ActionHead, RowPart
from mosaic.models.architecture import Architecture
from mosaic.models.layout import initial_weights, tensors
from mosaic.models.torch_distributions import draw, judge, likeliest
from mosaic.models.torch_net import (
    TorchNet,
    dense_names,
    flat_weights,
    load_flat,
    make_network,
    scale_of,
    state_size,
    tensor_names,
)

CHOICE = ActionHead("categorical", (3,))
PLAIN = Architecture(observation=5, head=CHOICE, hidden=(8, 6))
SMALL_PICTURE = RowPart("view", 2, (9, 10, 3), True)
FLAT = RowPart("place", 0, (2,), False)
WITH_PICTURE = replace(PLAIN, observation=2 + 270, parts=(FLAT, SMALL_PICTURE))


@pytest.mark.parametrize(
    "architecture",
    [
        PLAIN,
        replace(PLAIN, shared=True, activation="relu"),
        replace(PLAIN, critic_observation=9, critic_hidden=(4,), activation="silu"),
        replace(PLAIN, head=ActionHead("gaussian", (2,))),
    ],
    ids=["separate", "shared", "central", "gaussian"],
)
def test_a_plain_network_has_the_tensors_of_the_flat_layout(architecture: Architecture) -> None:
    network = TorchNet(architecture, seed=3, log_std=-0.5)
    shapes = {name: tuple(tensor.shape) for name, tensor in network.named_parameters()}
    assert shapes == {tensor.name: tensor.shape for tensor in tensors(architecture)}
    flat = flat_weights(network, tensor_names(network, architecture))
    np.testing.assert_array_equal(flat, initial_weights(architecture, 3, -0.5))


def test_dense_layers_compute_the_layout() -> None:
    network = TorchNet(PLAIN, seed=0)
    flat = np.random.default_rng(0).standard_normal(len(initial_weights(PLAIN, 0))).astype(np.float32)
    load_flat(network, flat, dense_names(PLAIN))
    named = {tensor.name: tensor.of(flat) for tensor in tensors(PLAIN)}
    rows = np.random.default_rng(1).standard_normal((4, 5)).astype(np.float32)
    for net, found in zip(("policy", "value"), network(torch.from_numpy(rows), torch.zeros(4, 0)), strict=True):
        x = rows
        for layer in range(3):
            x = x @ named[f"{net}.{layer}.weight"] + named[f"{net}.{layer}.bias"]
            x = np.tanh(x) if layer < 2 else x
        np.testing.assert_allclose(found.detach().numpy(), x.reshape(found.shape), rtol=1e-4, atol=1e-5)


def test_weights_of_another_network_are_refused() -> None:
    with pytest.raises(InputError, match="hold 7 numbers, the network needs 232: they belong to another architecture"):
        load_flat(TorchNet(PLAIN, seed=0), np.zeros(7, np.float32), dense_names(PLAIN))


@pytest.mark.parametrize("side", [8, 20, 36, 84])
def test_pictures_of_any_size_become_features(side: int) -> None:
    picture = RowPart("observation", 0, (side, side, 1), True)
    architecture = replace(PLAIN, observation=side * side, parts=(picture,))
    outputs, value = TorchNet(architecture, seed=0)(torch.rand(3, side * side), torch.zeros(3, 0))
    assert (outputs.shape, value.shape) == ((3, 3), (3,))


def test_a_picture_and_numbers_beside_it_both_matter_and_columns_beyond_do_not() -> None:
    network = TorchNet(WITH_PICTURE, seed=0)
    rows = torch.rand(1, 272)
    same = network(rows, torch.zeros(1, 0)).value
    for column in (0, 1, 2, 271):
        other = rows.clone()
        other[0, column] += 1.0
        assert network(other, torch.zeros(1, 0)).value != same


def test_picture_rows_are_height_width_channels() -> None:
    network = TorchNet(WITH_PICTURE, seed=0)
    assert network.encoder is not None
    seen: list[Tensor] = []
    first = network.encoder.pictures[0].layers[0]  # type: ignore[index]
    first.register_forward_hook(lambda module, args, out: seen.append(args[0]))
    picture = np.random.default_rng(0).random((9, 10, 3), np.float32)
    rows = np.concatenate([np.zeros(2, np.float32), picture.ravel()])[None]
    network(torch.from_numpy(rows), torch.zeros(1, 0))
    np.testing.assert_array_equal(seen[0][0].numpy(), picture.transpose(2, 0, 1))


@pytest.mark.parametrize("kind", ["lstm", "gru"])
def test_memory_unrolled_at_once_or_step_by_step_is_the_same_and_begins_anew(kind: Any) -> None:
    architecture = replace(WITH_PICTURE, memory=kind, memory_size=7)
    network = TorchNet(architecture, seed=0)
    assert state_size(network) == (14 if kind == "lstm" else 7)
    rows, nothing = torch.rand(6, 2, 272), torch.zeros(6, 2, 0)
    first = torch.zeros(6, 2)
    first[0] = 1
    first[3, 1] = 1
    state = torch.zeros(2, state_size(network))
    together, last = network.unroll(rows, nothing, torch.rand(2, state_size(network)), first)
    for step in range(6):
        alone, state = network.unroll(rows[step : step + 1], nothing[:1], state, first[step : step + 1])
        torch.testing.assert_close(alone.outputs[0], together.outputs[step])
    torch.testing.assert_close(state, last)
    anew, _ = network.unroll(rows[3:], nothing[3:], torch.zeros(2, state_size(network)), first[3:])
    torch.testing.assert_close(anew.value[:, 1], together.value[3:, 1])
    assert not torch.allclose(anew.value[:, 0], together.value[3:, 0])


@pytest.mark.parametrize("head", [CHOICE, ActionHead("categorical", (2, 4)), ActionHead("gaussian", (2,))], ids=str)
def test_drawn_actions_are_judged_as_they_were_drawn(head: ActionHead) -> None:
    generator = torch.Generator().manual_seed(0)
    outputs = torch.randn(500, head.width, generator=generator)
    scale = torch.tensor([0.3, -1.0]) if head.kind == "gaussian" else None
    mask = None if scale is not None else torch.ones(500, head.width, dtype=torch.uint8)
    if mask is not None:
        mask[:, 1] = 0
    act, logp = draw(head, outputs, scale, mask, generator)
    assert act.shape == (500, head.parts)
    judged = judge(head, outputs, scale, mask, act)
    torch.testing.assert_close(judged.logp, logp)
    best = judge(head, outputs, scale, mask, likeliest(head, outputs, mask)).logp
    assert (best >= judged.logp).all()
    if mask is not None:
        assert (act[:, 0] != 1).all()


def test_actions_come_as_often_as_their_probabilities_say() -> None:
    outputs = torch.tensor([0.0, 1.0, -1.0]).repeat(20000, 1)
    act, _ = draw(CHOICE, outputs, None, None, torch.Generator().manual_seed(1))
    shares = np.bincount(act[:, 0].numpy().astype(int), minlength=3) / 20000
    np.testing.assert_allclose(shares, torch.softmax(outputs[0], 0).numpy(), atol=0.015)


def test_heads_agree_with_torch_distributions() -> None:
    outputs, act = torch.randn(9, 3), torch.randint(0, 3, (9, 1)).float()
    judged = judge(CHOICE, outputs, None, None, act)
    reference = torch.distributions.Categorical(logits=outputs)
    torch.testing.assert_close(judged.logp, reference.log_prob(act[:, 0]))
    torch.testing.assert_close(judged.entropy, reference.entropy())
    scale, numbers = torch.tensor([0.2, -0.4, 0.0]), torch.randn(9, 3)
    judged = judge(ActionHead("gaussian", (3,)), outputs, scale, None, numbers)
    normal = torch.distributions.Normal(outputs, scale.exp())
    torch.testing.assert_close(judged.logp, normal.log_prob(numbers).sum(1))
    torch.testing.assert_close(judged.entropy, normal.entropy().sum(1))


class OwnNetwork(nn.Module):
    def __init__(self, architecture: Architecture) -> None:
        super().__init__()
        self.both = nn.Linear(architecture.observation, architecture.head.width + 1)

    def forward(self, obs: Tensor, critic_obs: Tensor) -> tuple[Tensor, Tensor]:
        out = self.both(obs)
        return out[:, :-1], out[:, -1]


class FlatValue(OwnNetwork):
    def forward(self, obs: Tensor, critic_obs: Tensor) -> tuple[Tensor, Tensor]:
        outputs, value = super().forward(obs, critic_obs)
        return outputs, value[:, None]


def no_module(architecture: Architecture) -> int:
    return 3


def test_a_module_of_the_users_own_starts_from_the_seed_and_leaves_the_global_stream_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(1)
    torch.manual_seed(5)
    made = make_network(PLAIN, 1, module=f"python:{__name__}:OwnNetwork")
    assert type(made).__name__ == "OwnNetwork"
    assert scale_of(made) is None
    assert torch.rand(1) == expected
    again = make_network(PLAIN, 1, module=f"python:{__name__}:OwnNetwork")
    names = tensor_names(made, PLAIN)
    assert names == ("both.weight", "both.bias")
    np.testing.assert_array_equal(flat_weights(made, names), flat_weights(again, names))


@pytest.mark.parametrize(
    ("factory", "head", "message"),
    [
        ("no_module", CHOICE, r"made a int\. A network's factory takes the architecture and returns a torch.nn.Module"),
        (
            "FlatValue",
            CHOICE,
            r"gave outputs of shape \(2, 3\) and values of shape \(2, 1\); it must give \(2, 3\) and",
        ),
        (
            "OwnNetwork",
            ActionHead("gaussian", (2,)),
            r"the module needs log_std = torch.nn.Parameter\(torch.zeros\(2\)\)",
        ),
    ],
)
def test_a_module_that_breaks_its_promise_is_refused(factory: str, head: ActionHead, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_network(replace(PLAIN, head=head), 0, module=f"python:{__name__}:{factory}")
