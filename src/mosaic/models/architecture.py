"""Network architectures as plain data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast, get_args

from mosaic.core.errors import FormatError, InputError, unknown
from mosaic.envs.vector.encoding import ActionHead, RowPart

Activation: TypeAlias = Literal["tanh", "relu", "silu"]
Memory: TypeAlias = Literal["lstm", "gru", "mingru"]

ACTIVATIONS: tuple[str, ...] = get_args(Activation)
MEMORIES: tuple[str, ...] = get_args(Memory)
FUSED_MEMORIES = (None, "gru", "mingru")
HEADS = ("categorical", "gaussian", "squashed")


@dataclass(frozen=True, slots=True)
class Architecture:
    """A network from an observation row to an action head and a value. Plain data: both engines build from it."""

    observation: int  # width of the row that the policy reads
    head: ActionHead
    hidden: tuple[int, ...] = (64, 64)
    activation: Activation = "tanh"
    shared: bool = False  # one net outputs both actions and value
    critic_observation: int = 0  # width of a centralised critic's row; 0: the critic reads the policy's row
    critic_hidden: tuple[int, ...] | None = None  # None: same as `hidden`
    parts: tuple[RowPart, ...] = ()  # where images are in the row; the torch engine applies convolutions to them
    memory: Memory | None = None
    memory_size: int = 64

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise unknown("activation", self.activation, ACTIVATIONS)
        if self.memory is not None and self.memory not in MEMORIES:
            raise unknown("memory", self.memory, MEMORIES)
        if self.head.kind not in HEADS:
            raise unknown("action head", self.head.kind, HEADS)
        widths = (self.observation, *self.head.sizes, *self.hidden, *self.critic_layers, self.memory_size)
        if min(widths) < 1 or self.critic_observation < 0 or not self.head.sizes:
            raise InputError(f"Every width of a network must be at least 1: {self}.")
        if self.shared and (self.critic_observation or self.critic_hidden is not None):
            raise InputError(
                "A shared network has no critic of its own: leave critic_observation and critic_hidden out, "
                "or set shared=False."
            )

    @property
    def critic_layers(self) -> tuple[int, ...]:
        return self.hidden if self.critic_hidden is None else self.critic_hidden

    @property
    def features(self) -> int:
        """Return the width of what the dense layers read: the observation, or the memory's output."""
        return self.observation if self.memory is None else self.memory_size

    @property
    def plain(self) -> bool:
        """Return whether the network has dense layers only."""
        return self.memory is None and self.fusible

    @property
    def fusible(self) -> bool:
        """Return whether the fused engine can compute the network."""
        return self.memory in FUSED_MEMORIES and not any(part.picture for part in self.parts)

    def to_json(self) -> dict[str, Any]:
        return {
            "observation": self.observation,
            "head": {"kind": self.head.kind, "sizes": list(self.head.sizes)},
            "hidden": list(self.hidden),
            "activation": self.activation,
            "shared": self.shared,
            "critic_observation": self.critic_observation,
            "critic_hidden": None if self.critic_hidden is None else list(self.critic_hidden),
            "parts": [[part.name, part.start, list(part.shape), part.picture] for part in self.parts],
            "memory": self.memory,
            "memory_size": self.memory_size,
        }

    @classmethod
    def from_json(cls, data: Any) -> Architecture:
        try:
            return _read(dict(data))
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"This is not the architecture of a network ({error!r}): {data!r}.") from error


def _read(data: Mapping[str, Any]) -> Architecture:
    stranger = next((key for key in data if key not in Architecture.__dataclass_fields__), None)
    if stranger is not None:
        raise unknown("part of an architecture", stranger, Architecture.__dataclass_fields__)
    critic_hidden = data["critic_hidden"]
    return Architecture(
        observation=int(data["observation"]),
        head=ActionHead(kind=data["head"]["kind"], sizes=_widths(data["head"]["sizes"])),
        hidden=_widths(data["hidden"]),
        activation=cast(Activation, data["activation"]),
        shared=bool(data["shared"]),
        critic_observation=int(data["critic_observation"]),
        critic_hidden=None if critic_hidden is None else _widths(critic_hidden),
        parts=tuple(
            RowPart(str(name), int(start), _widths(shape), bool(picture))
            for name, start, shape, picture in data["parts"]
        ),
        memory=cast(Memory | None, data["memory"]),
        memory_size=int(data["memory_size"]),
    )


def _widths(values: Any) -> tuple[int, ...]:
    return tuple(int(value) for value in values)
