"""SB3's policies for export: SB3's preprocessing, its network, and the scaling of squashed actions in torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from gymnasium import spaces
from gymnasium.spaces import Space
from torch import Tensor, nn

from mosaic.envs.space_json import Document
from mosaic.exports.policy import ExportablePolicy
from mosaic.exports.torch_parts import Finish, RowReader, RowScale
from mosaic.policies.controller import PolicyRequest
from mosaic.workers.sb3.checkpoint.actions import fitting_layers, head_of, squashes
from mosaic.workers.sb3.checkpoint.controllers import agent_codes
from mosaic.workers.sb3.checkpoint.facts import Sb3Facts, Sb3Policy, load_policy_file
from mosaic.workers.sb3.checkpoint.layers import read_layers
from mosaic.workers.sb3.checkpoint.network import Sb3Network
from mosaic.workers.sb3.checkpoint.rows import BYTE, is_picture, part_documents


def load_exportable(path: Path, request: PolicyRequest) -> ExportablePolicy:
    """Return a policy that `write_policy` wrote."""
    policy = load_policy_file(path)
    agent_codes(policy.facts, request)  # refuses spaces that do not fit
    function = Sb3Function(policy, request)
    return ExportablePolicy(function, function.memory)


class Sb3Function(nn.Module):
    """An SB3 policy from the leaves of an observation to logits, values or action numbers."""

    def __init__(self, policy: Sb3Policy, request: PolicyRequest) -> None:
        super().__init__()
        facts, agent = policy.facts, request.agents[0]
        action = request.spec.action_spaces[agent]
        self.reader = _reader(request.spec.observation_spaces[agent], facts)
        self.scale = RowScale(policy.scaler)
        self.network = Sb3Network(policy, fitting_layers(facts, read_layers(policy, head_of(facts).width)))
        squashed = isinstance(action, spaces.Box) and squashes(facts)
        self.finish = Finish(action, squash=True, scale=True) if isinstance(action, spaces.Box) and squashed else None
        fresh = self.network.fresh_memory(1)
        self._layers, self._size = (0, 0) if fresh is None else (fresh[0].shape[0], fresh[0].shape[2])
        self.memory = 2 * self._layers * self._size

    def forward(
        self, seen: Sequence[Tensor], state: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        rows = self.scale(self.reader(seen))
        found = self.network(rows, None if state is None else self._unpacked(state))
        outputs = found.outputs if self.finish is None else self.finish(found.outputs)
        if state is None:
            return outputs, None
        return outputs, torch.cat([part.permute(1, 0, 2).flatten(1) for part in found.memory], 1)

    def _unpacked(self, state: Tensor) -> tuple[Tensor, Tensor]:
        parts = state.reshape(-1, 2, self._layers, self._size).permute(1, 2, 0, 3)
        return parts[0].contiguous(), parts[1].contiguous()


def _reader(space: Space[object], facts: Sb3Facts) -> nn.Module:
    """Return the reader of SB3's rows; envs that SB3 saw through Mosaic's own encoding have Mosaic's rows."""
    documents = list(part_documents(facts.observation))
    if isinstance(space, spaces.Dict):
        if [key for key, _ in documents if key is not None and key in space.spaces] != [key for key, _ in documents]:
            return RowReader(space)
        if any(isinstance(part, spaces.Dict | spaces.Tuple) for part in space.spaces.values()):
            return RowReader(space)
        places = [list(space.spaces).index(str(key)) for key, _ in documents]
        parts = [_part(space[str(key)], document, facts) for key, document in documents]
        return _Joined(places, parts)
    (key, document) = documents[0]
    fits = key is None and document["space"] == type(space).__name__ and not isinstance(space, spaces.Tuple)
    if not fits or (isinstance(space, spaces.Box) and str(space.dtype) != document["dtype"]):
        return RowReader(space)
    return _Joined([0], [_part(space, document, facts)])


def _part(space: Space[object], document: Document, facts: Sb3Facts) -> nn.Module:
    if not isinstance(space, spaces.Box):
        return RowReader(space)
    picture = is_picture(document)
    turned = picture and tuple(space.shape) != tuple(document["shape"])
    return _Numbers(space.shape, scaled=picture and facts.normalize_images, turned=turned)


class _Numbers(nn.Module):
    """Numbers of a Box; images are divided by 255, with their channels first."""

    def __init__(self, shape: tuple[int, ...], *, scaled: bool, turned: bool) -> None:
        super().__init__()
        self._shape, self._scaled, self._turned = shape or (1,), scaled, turned

    def forward(self, seen: Sequence[Tensor]) -> Tensor:
        leaf = seen[0].reshape(-1, *self._shape)
        leaf = leaf.permute(0, 3, 1, 2) if self._turned else leaf
        return (leaf / float(BYTE) if self._scaled else leaf).flatten(1)


class _Joined(nn.Module):
    """Parts of a row, each read from one leaf."""

    def __init__(self, places: Sequence[int], parts: Sequence[nn.Module]) -> None:
        super().__init__()
        self._places, self.parts = list(places), nn.ModuleList(parts)

    def forward(self, seen: Sequence[Tensor]) -> Tensor:
        rows = [part([seen[place]]) for place, part in zip(self._places, self.parts, strict=True)]
        return rows[0] if len(rows) == 1 else torch.cat(rows, 1)
