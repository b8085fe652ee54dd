"""Whether processes find room on nodes, each of them whole on one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

_TINY = 1e-6  # shares of a GPU are sums of rounded numbers


class Need(NamedTuple):
    """Of one process. Of GPUs a part of one, or whole ones: Ray gives out nothing else."""

    gpus: float
    cpus: int


class Node(NamedTuple):
    """What is free on one machine."""

    cpus: int
    gpus: float


def packs(needs: Iterable[Need], nodes: Iterable[Node]) -> bool:
    """The largest first, each on the first node that takes it."""
    rooms = [_Room(node.cpus, _devices(node.gpus)) for node in nodes]
    return all(any(room.take(need) for room in rooms) for need in sorted(needs, reverse=True))


@dataclass(slots=True)
class _Room:
    cpus: int
    devices: list[float]  # what is free of each GPU

    def take(self, need: Need) -> bool:
        left = _without(need.gpus, self.devices)
        if left is None or need.cpus > self.cpus:
            return False
        self.cpus, self.devices = self.cpus - need.cpus, left
        return True


def _devices(gpus: float) -> list[float]:
    """All that is not whole is taken to be of one GPU."""
    return [1.0] * int(gpus) + [gpus % 1]


def _without(gpus: float, devices: list[float]) -> list[float] | None:
    """None where they do not have it."""
    if gpus > 1 and gpus % 1:
        return None
    left = sorted(devices)  # the fullest that will do comes first
    for part in [1.0] * int(gpus) or [gpus]:
        place = next((k for k, free in enumerate(left) if free >= part - _TINY), None)
        if place is None:
            return None
        left[place] -= part
    return left
