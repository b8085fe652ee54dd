"""RLlib's policies for export: dense networks, and modules with pictures, memory or distributions of values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from ray.rllib.algorithms.dqn.default_dqn_rl_module import QF_PREDS
from ray.rllib.core.columns import Columns
from ray.rllib.core.models.base import ENCODER_OUT
from torch import Tensor, nn

from mosaic.core.errors import InputError
from mosaic.core.ids import AgentID, PolicyID
from mosaic.envs.spaces import MASK
from mosaic.envs.vector.encoding import BRIGHTEST, action_code, picture_layout
from mosaic.exports.policy import ExportablePolicy
from mosaic.exports.torch_parts import Finish, RowPolicy, RowReader, RowScale, build_actor
from mosaic.models.weights_file import load_weights
from mosaic.policies.controller import PolicyRequest
from mosaic.workers.rllib.checkpoint.controllers import PolicyFacts, Scalers, read_facts, read_scalers, scaler_of
from mosaic.workers.rllib.checkpoint.policy_view import PolicyView
from mosaic.workers.rllib.config.algorithms import SQUASHED
from mosaic.workers.rllib.env.encoding import OBSERVATION
from mosaic.workers.rllib.learner.modules import module_class

States: TypeAlias = Any  # of a module with memory: a tensor, or states by the names of its parts


def make_exportable(folder: Path, policy: PolicyID, request: PolicyRequest) -> ExportablePolicy:
    """Return a policy that `export_policies` wrote into this folder."""
    facts = read_facts(folder, policy)
    if facts.get("code") is not None:
        raise InputError(
            f"'{policy}' acts with its user's own RLModule or connectors, Python code that a file cannot hold."
        )
    agent = request.agents[0]
    action = request.spec.action_spaces[agent]
    path = folder / facts["file"]
    if not facts["dense"]:
        return _module(path, facts, request)
    saved = load_weights(path)
    scalers = read_scalers(saved.extra)
    actor, memory = build_actor(saved.architecture, saved.flat)
    finish = _finish(action, facts, squash=facts["algorithm"] in SQUASHED)
    space = request.spec.observation_spaces[agent]
    return ExportablePolicy(
        RowPolicy(space, actor, scaler_of(scalers, agent), finish), memory, _agents_of(scalers, agent)
    )


def _agents_of(scalers: Scalers, agent: AgentID) -> tuple[AgentID, ...] | None:
    """Return the only agent where each has its own filter of observations."""
    return (agent,) if scalers and "" not in scalers else None


def _finish(action: spaces.Space[Any], facts: PolicyFacts, *, squash: bool) -> Finish | None:
    if not isinstance(action, spaces.Box):
        return None
    bounded = bool(np.isfinite(action.low).all() and np.isfinite(action.high).all())
    return Finish(action, squash=squash, scale=facts["normalize_actions"] and bounded)


def _module(path: Path, facts: PolicyFacts, request: PolicyRequest) -> ExportablePolicy:
    view = PolicyView(path, facts, request)
    agent = request.agents[0]
    module: Any = module_class(facts["algorithm"])(
        observation_space=view.space,
        action_space=view.first.action_space,
        inference_only=True,
        model_config=dict(facts["model_config"]),
    )
    module.set_state(view.weights)
    function = ModuleFunction(module, view, facts, request)
    return ExportablePolicy(function, function.memory, _agents_of(view.scalers, agent))


class ModuleFunction(nn.Module):
    """An RLModule from the leaves of an observation to logits, values or action numbers."""

    def __init__(self, module: nn.Module, view: PolicyView, facts: PolicyFacts, request: PolicyRequest) -> None:
        super().__init__()
        agent = request.agents[0]
        seen, acts = request.spec.observation_spaces[agent], request.spec.action_spaces[agent]
        scaler = scaler_of(view.scalers, agent)
        picture = view.first.is_picture
        self.reader: nn.Module = PictureReader(seen, facts["picture_size"]) if picture else RowReader(seen)
        self.module, self._values = module, facts["algorithm"] == "dqn"
        self._masked = isinstance(view.space, spaces.Dict)
        self._choices = view.first.choices
        self._numbers = isinstance(acts, spaces.Box)
        self._squash = facts["algorithm"] in SQUASHED
        self.finish = _finish(acts, facts, squash=False)
        initial: Any = module.get_initial_state
        self._initial = initial()
        self._shapes = [tuple(np.shape(part)) for part in _leaves(self._initial)]
        self.memory = sum(map(prod, self._shapes))
        self.scale = RowScale(scaler)
        self._width = action_code(acts).head.width

    def forward(
        self, seen: Sequence[Tensor], state: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        row = self.scale(self.reader(seen))
        shown: Any = {OBSERVATION: row, MASK: row.new_ones(row.shape[0], self._choices)} if self._masked else row
        batch: dict[str, Any] = {Columns.OBS: shown}
        if state is not None:
            shown = {key: part.unsqueeze(1) for key, part in shown.items()} if self._masked else shown.unsqueeze(1)
            batch = {Columns.OBS: shown, Columns.STATE_IN: self._unpacked(state)}
        module: Any = self.module
        if not self._values:
            answer = module.forward_inference(batch)
        elif module.uses_dueling and module.num_atoms == 1:
            answer = _dueling_values(module, batch)
        else:
            answer = module.compute_q_values(batch)
        outputs: Tensor = answer[QF_PREDS if self._values else Columns.ACTION_DIST_INPUTS]
        outputs = outputs.reshape(row.shape[0], -1)[:, : self._width]  # the means, without the deviations behind them
        if self._numbers and self._squash:
            outputs = torch.tanh(outputs)
        if self.finish is not None:
            outputs = self.finish(outputs)
        if state is None:
            return outputs, None
        after = [part.reshape(row.shape[0], -1) for part in _leaves(answer[Columns.STATE_OUT])]
        return outputs, torch.cat(after, 1)

    def _unpacked(self, state: Tensor) -> States:
        parts = torch.split(state, [prod(shape) for shape in self._shapes], 1)
        shaped = (part.reshape(-1, *shape) for part, shape in zip(parts, self._shapes, strict=True))
        return _like(self._initial, shaped)


def _dueling_values(module: Any, batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a dueling network; RLlib's own takes a mean without NaN, which ONNX does not have."""
    made = dict(module.encoder(batch))
    advantages, value = module.af(made[ENCODER_OUT]), module.vf(made[ENCODER_OUT])
    made[QF_PREDS] = advantages - advantages.mean(-1, keepdim=True) + value
    return made


def _leaves(states: States) -> Iterator[Any]:
    """Yield the arrays of a module's state, whose encoders may each have their own, in the order of their names."""
    if not isinstance(states, Mapping):
        yield states
        return
    for key in sorted(states):
        yield from _leaves(states[key])


def _like(template: States, parts: Iterator[Any]) -> States:
    """Return parts, in the order of `_leaves`, in the form of a template."""
    if not isinstance(template, Mapping):
        return next(parts)
    return {key: _like(template[key], parts) for key in sorted(template)}


class PictureReader(nn.Module):
    """A picture at another size, as Pillow's box filter gives it: along rows, rounded, along columns, rounded."""

    def __init__(self, space: spaces.Space[Any], size: int) -> None:
        super().__init__()
        assert isinstance(space, spaces.Box)
        if picture_layout(space) == "channels first":
            raise InputError(
                f"Pictures with the channels first, {space.shape}, cannot be exported from RLlib's networks."
            )
        self._shape = (*space.shape, 1) if len(space.shape) == 2 else space.shape
        for name, length in zip(("down", "across"), self._shape[:2], strict=True):
            self.register_buffer(name, torch.as_tensor(_box_weights(length, size), dtype=torch.float32))

    def forward(self, seen: Sequence[Tensor]) -> Tensor:
        picture = seen[0].reshape(-1, *self._shape).permute(0, 3, 1, 2)
        wide = torch.floor(picture @ self.across.T + 0.5)  # type: ignore[operator]
        small = torch.floor(self.down @ wide + 0.5)  # type: ignore[operator]
        return small.permute(0, 2, 3, 1) / float(BRIGHTEST)


def _box_weights(length: int, size: int) -> NDArray[np.float64]:
    """Return how much each of `length` pixels counts for each of `size`."""
    scale = length / size
    reach = max(scale, 1.0) / 2
    weights = np.zeros((size, length))
    for place in range(size):
        center = (place + 0.5) * scale
        first, last = max(int(center - reach + 0.5), 0), min(int(center + reach + 0.5), length)
        at = (np.arange(first, last) - center + 0.5) / max(scale, 1.0)
        counted = ((at > -0.5) & (at <= 0.5)).astype(np.float64)
        weights[place, first:last] = counted / counted.sum()
    return weights
