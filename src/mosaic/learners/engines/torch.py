"""Policy that acts and learns in torch: images, memory, a user's own module, CUDA."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from math import inf, log
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from mosaic.core.errors import InputError
from mosaic.core.user_code import load_code
from mosaic.learners.engines.sequences import Sequences, line_up, minibatches, sequences_per_minibatch
from mosaic.learners.engines.torch_ppo_update import (
    Distribution,
    Loss,
    Minibatch,
    adam_state,
    load_adam_state,
    ppo_loss,
)
from mosaic.models.architecture import Architecture
from mosaic.models.engine import LOSSES, Bytes, Experience, Floats, Ints, LearnSettings, StateArrays
from mosaic.models.packed_rows import PackedRows, Rows
from mosaic.models.random import generator_state, load_generator
from mosaic.models.torch_distributions import draw, likeliest
from mosaic.models.torch_net import (
    NetworkOutput,
    critic_place,
    flat_weights,
    load_flat,
    make_network,
    scale_of,
    state_size,
    tensor_names,
)
from mosaic.models.torch_rows import PackedTensor

ExtraLoss: TypeAlias = Callable[[nn.Module, Minibatch, NetworkOutput], Tensor]
ADAM_EPSILON = 1e-5  # as in the fused engine; torch's own 1e-8 makes the first steps too large
KL_PATIENCE = 1.5  # as in Stable-Baselines3
REPORTED = ("loss", *LOSSES, "anchor_kl", "gradient_norm", "extra_loss")


@dataclass(frozen=True, slots=True)
class TorchOptions:
    """Options of how the torch engine computes, not of what it computes."""

    device: str = "cpu"
    compiled: bool = False  # by torch.compile; the first calls then take a minute
    module: str | None = None  # python:MODULE:FACTORY, the user's own network
    extra_loss: str | None = None  # python:MODULE:FUNCTION(network, rows, answer) -> term added to the loss
    log_std: float = 0.0


DEFAULTS = TorchOptions()


class _Rollout(NamedTuple):
    """Rollout on the device; images stay bytes until a minibatch takes them."""

    obs: Tensor | PackedTensor
    critic_obs: Tensor | PackedTensor
    mask: Tensor | None
    act: Tensor
    logp: Tensor
    val: Tensor
    adv: Tensor
    ret: Tensor

    def rows(self, index: Tensor) -> Minibatch:
        return Minibatch(*(None if field is None else field[index] for field in self))  # type: ignore[arg-type]


class _Piece(NamedTuple):
    """Input of one gradient step, and the network's output for it."""

    rows: Minibatch
    answer: NetworkOutput


class TorchEngine:
    """One policy's network, memory states and optimiser.

    `draws` seeds the random numbers for acting and learning. Engines that start with equal weights and play one another
    need different seeds, or their actions coincide.
    """

    def __init__(
        self, architecture: Architecture, seed: int, options: TorchOptions = DEFAULTS, draws: int | None = None
    ) -> None:
        self.architecture = architecture
        self._device = checked_device(options.device)
        self._network = make_network(architecture, seed, options.log_std, options.module).to(self._device)
        if options.compiled and state_size(self._network):
            raise InputError("Networks with memory are not compiled: leave out `compiled` or memory.")
        self._ask: Callable[..., Any] = torch.compile(self._network) if options.compiled else self._network
        self._extra: ExtraLoss | None = None if options.extra_loss is None else load_code(options.extra_loss)
        self._names = tensor_names(self._network, architecture)
        self._optimiser = torch.optim.Adam(self._network.parameters(), eps=ADAM_EPSILON)
        draws = seed if draws is None else draws
        self._generator = torch.Generator(self._device).manual_seed(draws)
        self._shuffle = np.random.default_rng(draws)
        self._anchor: nn.Module | None = None
        self._states = torch.zeros(0, state_size(self._network), device=self._device)
        self._start_states = self._states

    @property
    def network(self) -> nn.Module:
        return self._network

    # -- weights

    def weights(self) -> Floats:
        return flat_weights(self._network, self._names)

    def load(self, flat: Floats) -> None:
        load_flat(self._network, flat, self._names)

    def training_state(self) -> StateArrays:
        """Return Adam's moments, in the order of the flat weights, and the number of steps."""
        return adam_state(self._optimiser, self._parameters())

    def load_training_state(self, state: StateArrays) -> None:
        load_adam_state(self._optimiser, self._parameters(), state)

    def acting_state(self) -> StateArrays:
        states: NDArray[np.float32] = self._states.cpu().numpy().copy()
        draws = self._generator.get_state().cpu().numpy().copy()
        return {"draws": draws, "shuffle": generator_state(self._shuffle), "states": states}

    def load_acting_state(self, state: StateArrays) -> None:
        draws = torch.from_numpy(state["draws"])
        if draws.shape == self._generator.get_state().shape:  # a CPU's and a GPU's random streams differ
            self._generator.set_state(draws)
        load_generator(self._shuffle, state["shuffle"])
        self._states = torch.from_numpy(state["states"]).to(self._device)

    def critic_place(self) -> slice:
        return critic_place(self._network, self._names)

    def set_anchor(self, flat: Floats) -> None:
        if self._remembers:
            raise InputError("kl_anchor needs a network without memory: leave one of them out.")
        self._anchor = deepcopy(self._network).requires_grad_(False)
        load_flat(self._anchor, flat, self._names)

    def seed_shuffles(self, seed: int) -> None:
        self._shuffle = np.random.default_rng(seed)

    def _parameters(self) -> Iterator[nn.Parameter]:
        parameters = dict(self._network.named_parameters())
        return (parameters[name] for name in self._names if name in parameters)

    # -- acting

    @torch.no_grad()
    def act(
        self,
        obs: Floats,
        critic_obs: Floats,
        mask: Bytes,
        slots: Ints,
        first: Bytes,
        act: Floats,
        logp: Floats,
        val: Floats,
    ) -> None:
        answer = self._decide(obs, critic_obs, slots, first)
        drawn = draw(self.architecture.head, answer.outputs, scale_of(self._network), self._mask(mask), self._generator)
        act[:, : self.architecture.head.parts] = _array(drawn.act)
        logp[:] = _array(drawn.logp)
        val[:] = _array(answer.value)

    @torch.no_grad()
    def greedy(self, obs: Floats, mask: Bytes, slots: Ints, first: Bytes, act: Floats) -> None:
        blind = np.zeros((len(obs), self.architecture.critic_observation), np.float32)
        answer = self._decide(obs, blind, slots, first)
        chosen = likeliest(self.architecture.head, answer.outputs, self._mask(mask))
        act[:, : self.architecture.head.parts] = _array(chosen)

    def stream(self, seed: int) -> torch.Generator:
        return torch.Generator(self._device).manual_seed(seed)

    @torch.no_grad()
    def sample(
        self,
        obs: Floats,
        mask: Bytes,
        slots: Ints,
        first: Bytes,
        act: Floats,
        temperature: float,
        streams: Sequence[tuple[torch.Generator, int]],
    ) -> None:
        blind = np.zeros((len(obs), self.architecture.critic_observation), np.float32)
        outputs, log_std = self._decide(obs, blind, slots, first).outputs, scale_of(self._network)
        if self.architecture.head.kind == "gaussian":
            assert log_std is not None
            log_std = log_std + log(temperature)
        else:
            outputs = outputs / temperature
        legal, row = self._mask(mask), 0
        for stream, count in streams:
            rows = slice(row, row + count)
            drawn = draw(self.architecture.head, outputs[rows], log_std, None if legal is None else legal[rows], stream)
            act[rows, : self.architecture.head.parts] = _array(drawn.act)
            row += count

    @torch.no_grad()
    def values(self, obs: Floats, critic_obs: Floats, slots: Ints) -> Floats:
        return _array(self._consider(obs, critic_obs, slots, np.zeros(len(obs), np.uint8))[0].value)

    @torch.no_grad()
    def explain(self, obs: Floats, mask: Bytes, slots: Ints, first: Bytes) -> tuple[Floats, Floats]:
        blind = np.zeros((len(obs), self.architecture.critic_observation), np.float32)
        answer, legal = self._consider(obs, blind, slots, first)[0], self._mask(mask)
        outputs = answer.outputs if legal is None else answer.outputs.masked_fill(legal == 0, -torch.inf)
        return _array(outputs.softmax(-1)), _array(answer.value)

    def begin_rollout(self) -> None:
        self._start_states = self._states.clone()

    def _decide(self, obs: Floats, critic_obs: Floats, slots: Ints, first: Bytes) -> NetworkOutput:
        """Return the network's output and advance the memory states."""
        answer, states = self._consider(obs, critic_obs, slots, first)
        if states is not None:
            self._states[self._places(slots)] = states
        return answer

    def _consider(
        self, obs: Floats, critic_obs: Floats, slots: Ints, first: Bytes
    ) -> tuple[NetworkOutput, Tensor | None]:
        """Return the network's output and the memory states after it."""
        seen, critic = self._seen(obs), self._critic_seen(critic_obs, len(obs))
        if not self._remembers:
            return NetworkOutput(*self._ask(seen, critic)), None
        places, begun = self._places(slots), self._tensor(first).to(seen.dtype)[None]
        answer, states = self._unroll(seen[None], critic[None], self._states[places], begun)
        return NetworkOutput(answer.outputs[0], answer.value[0]), states

    def _unroll(self, obs: Tensor, critic_obs: Tensor, states: Tensor, first: Tensor) -> tuple[NetworkOutput, Tensor]:
        unroll: Callable[..., Any] = self._network.unroll  # type: ignore[assignment]
        (outputs, value), states = unroll(obs, critic_obs, states, first)
        return NetworkOutput(outputs, value), states

    def _places(self, slots: Ints) -> Tensor:
        """Return the indices of the slots' memory states; new slots start with zeros."""
        missing = int(slots.max(initial=-1)) + 1 - len(self._states)
        if missing > 0:
            self._states = torch.cat([self._states, self._states.new_zeros(missing, self._states.shape[1])])
        return self._tensor(slots)

    @property
    def _remembers(self) -> bool:
        return self._states.shape[1] > 0

    # -- learning

    def learn(
        self, batch: Experience, sequence: Ints, first: Bytes, idx: Ints, settings: LearnSettings, lr: float
    ) -> dict[str, float]:
        for group in self._optimiser.param_groups:
            group["lr"] = lr
        rows = self._on_device(batch)
        steps: list[Tensor] = []
        for _ in range(settings.n_epochs):
            for piece in self._pieces(rows, sequence, first, idx, settings.batch_size):
                loss = self._loss(piece, settings)
                if _too_far(loss, settings.target_kl):
                    return self._report(steps)
                steps.append(self._improve(piece, loss, settings.max_grad_norm))
        return self._report(steps)

    @torch.no_grad()
    def measure(
        self, batch: Experience, sequence: Ints, first: Bytes, idx: Ints, settings: LearnSettings
    ) -> dict[str, float]:
        sums, count = torch.zeros(len(LOSSES), device=self._device), 0
        for piece in self._pieces(self._on_device(batch), sequence, first, idx, settings.batch_size):
            rows = len(piece.rows.act)
            sums += rows * torch.stack(self._loss(piece, settings)[1 : 1 + len(LOSSES)])
            count += rows
        return dict(zip(LOSSES, (sums / max(count, 1)).tolist(), strict=True))

    def _pieces(self, rows: _Rollout, sequence: Ints, first: Bytes, idx: Ints, batch_size: int) -> Iterator[_Piece]:
        """Return minibatches in a random order, of whole sequences where the network has memory."""
        if not self._remembers:
            return self._loose_rows(rows, idx, batch_size)
        begun = self._tensor(first).to(rows.logp.dtype)
        return self._whole_sequences(rows, begun, line_up(sequence, idx), batch_size)

    def _loose_rows(self, rows: _Rollout, idx: Ints, size: int) -> Iterator[_Piece]:
        for chosen in minibatches(self._shuffle.permutation(idx), size):
            piece = rows.rows(self._tensor(chosen))
            yield _Piece(piece, NetworkOutput(*self._ask(piece.obs, piece.critic_obs)))

    def _whole_sequences(
        self, rows: _Rollout, first: Tensor, sequences: Sequences, batch_size: int
    ) -> Iterator[_Piece]:
        """Replay each sequence from the memory state with which its rollout began."""
        size = sequences_per_minibatch(sequences, batch_size)
        known = len(self._start_states)
        for chosen in minibatches(self._shuffle.permutation(len(sequences.slots)), size):
            places = sequences.slots[chosen]
            states = self._states.new_zeros(len(chosen), self._states.shape[1])
            old = self._tensor(places < known)
            states[old] = self._start_states[self._tensor(places[places < known])]
            table = self._tensor(np.maximum(sequences.rows[chosen].T, 0))
            answer, _ = self._unroll(rows.obs[table], rows.critic_obs[table], states, first[table])
            learned = self._tensor(sequences.learned[chosen].T)
            yield _Piece(rows.rows(table[learned]), NetworkOutput(answer.outputs[learned], answer.value[learned]))

    def _loss(self, piece: _Piece, settings: LearnSettings) -> Loss:
        anchor: Distribution | None = None
        if self._anchor is not None:
            outputs, _ = self._anchor(piece.rows.obs, piece.rows.critic_obs)
            anchor = Distribution(outputs, scale_of(self._anchor))
        return ppo_loss(self.architecture.head, piece.answer, scale_of(self._network), piece.rows, settings, anchor)

    def _improve(self, piece: _Piece, loss: Loss, max_grad_norm: float) -> Tensor:
        """Take one Adam step; its statistics stay on the device until they are reported."""
        extra = torch.zeros_like(loss.total) if self._extra is None else self._extra(self._network, *piece)
        self._optimiser.zero_grad()
        torch.autograd.backward(loss.total + extra)
        norm = nn.utils.clip_grad_norm_(self._network.parameters(), max_grad_norm or inf)
        self._optimiser.step()
        return torch.stack([part.detach() for part in (*loss, norm, extra)])

    def _report(self, steps: list[Tensor]) -> dict[str, float]:
        """Return means over the gradient steps, and their number."""
        means = torch.stack(steps).mean(0).tolist() if steps else [0.0] * len(REPORTED)
        report = {**dict(zip(REPORTED, means, strict=True)), "minibatches": float(len(steps))}
        if self._anchor is None:
            del report["anchor_kl"]
        return report

    def _on_device(self, batch: Experience) -> _Rollout:
        return _Rollout(
            self._kept(batch.obs, self.architecture.observation),
            self._kept(batch.critic_obs, self.architecture.critic_observation),
            self._mask(batch.mask),
            self._tensor(batch.act[:, : self.architecture.head.parts]),
            *(self._tensor(field) for field in (batch.logp, batch.val, batch.adv, batch.ret)),
        )

    # -- numpy ⇄ device

    def _kept(self, rows: Rows, width: int) -> Tensor | PackedTensor:
        """Return the first columns of rows, to be indexed many times."""
        if width == 0:
            return torch.zeros(len(rows), 0, device=self._device)
        if isinstance(rows, PackedRows):
            return PackedTensor(rows.first(width), self._device)
        return self._tensor(rows[:, :width])

    def _seen(self, obs: Floats) -> Tensor:
        return self._tensor(obs[:, : self.architecture.observation])

    def _critic_seen(self, critic_obs: Floats, rows: int) -> Tensor:
        width = self.architecture.critic_observation
        if width == 0:  # such a critic reads the policy's observation
            return torch.zeros(rows, 0, device=self._device)
        return self._tensor(critic_obs[:, :width])

    def _mask(self, mask: Bytes) -> Tensor | None:
        return self._tensor(mask[:, : self.architecture.head.width]) if len(mask) else None

    def _tensor(self, array: NDArray[Any]) -> Tensor:
        return torch.from_numpy(array).to(self._device)


def checked_device(name: str) -> torch.device:
    """Return the device; raise an error that says what to type where it does not exist."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise InputError(f"There is no device named '{name}'. Known: cpu, cuda, cuda:0, cuda:1 ….") from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError("This torch finds no CUDA device. Use device=cpu, or install a torch built for CUDA.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        known = ", ".join(f"cuda:{number}" for number in range(torch.cuda.device_count()))
        raise InputError(f"There is no device named '{name}'. Known: cpu, {known}.")
    return device


def _too_far(loss: Loss, target_kl: float | None) -> bool:
    """Return whether the policy has moved too far from its data: the only check that must wait for the device."""
    return bool(target_kl and float(loss.kl) > KL_PATIENCE * target_kl)


def _array(tensor: Tensor) -> NDArray[np.float32]:
    return tensor.detach().to(torch.float32).cpu().numpy()
