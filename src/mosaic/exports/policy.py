"""Description of a policy that can be exported, as workers give it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from mosaic.core.ids import AgentID

if TYPE_CHECKING:
    from torch import Tensor


class PolicyFunction(Protocol):
    """A policy as a `torch.nn.Module`.

    It is given the leaves of the observation space in Gymnasium's order, each as float32 [batch, …] with the env's own
    numbers (a Discrete is one number), the state of each agent's memory, or None, and the legal actions as float32
    [batch, choices], or None. It returns rows: logits or values of each choice, or the numbers of a Box action, and the
    new state. Illegal actions are excluded and numbers are clipped to the bounds by the caller.
    """

    def __call__(
        self, leaves: Sequence[Tensor], state: Tensor | None, mask: Tensor | None
    ) -> tuple[Tensor, Tensor | None]: ...


@dataclass(frozen=True, slots=True)
class ExportablePolicy:
    """One policy of a checkpoint, ready to be traced."""

    function: PolicyFunction  # a torch.nn.Module
    memory: int = 0  # numbers of an agent's state
    agents: tuple[AgentID, ...] | None = None  # those of the request that it is right for; None: all
