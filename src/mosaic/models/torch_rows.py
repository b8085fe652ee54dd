"""Packed observation rows on torch's device."""

from __future__ import annotations

import torch
from torch import Tensor

from mosaic.envs.vector.encoding import BRIGHTEST
from mosaic.models.packed_rows import PackedRows, RowPacking


class PackedTensor:
    """Rows that become float32 when indexed: the device holds bytes, and only a few rows at a time are unpacked."""

    def __init__(self, rows: PackedRows, device: torch.device) -> None:
        self._packing: RowPacking = rows.packing
        self._data = torch.from_numpy(rows.data).to(device)
        # Divide by a tensor on the device: on CUDA, a plain number would be multiplied by its rounded inverse.
        self._brightest = torch.tensor(float(BRIGHTEST), device=device)

    def __getitem__(self, index: Tensor) -> Tensor:
        packed = self._data[index]
        parts = []
        for stretch in self._packing.stretches:
            kept = packed[..., stretch.at : stretch.at + stretch.size]
            if stretch.picture:
                parts.append(kept.to(torch.float32) / self._brightest)
            else:  # a copy, because its numbers must begin at a multiple of four bytes
                parts.append(kept.clone(memory_format=torch.contiguous_format).view(torch.float32))
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)
