"""Comparison of an exported file with the policy that it was made from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space
from numpy.typing import NDArray

from mosaic.core.turn import Action
from mosaic.envs.vector.encoding import action_code
from mosaic.exports.observations import Sample
from mosaic.exports.progress import StepReport, ignore_step
from mosaic.policies.controller import PolicyController, PolicyRequest
from mosaic.policies.onnx.controller import GraphPolicyController
from mosaic.policies.onnx.interface import Graph

TOLERANCE = 1e-4
_EXCLUDED = -1e8  # outputs below it belong to illegal actions


@dataclass(frozen=True, slots=True)
class Parity:
    """Differences between a file and its policy, over all observations."""

    recorded: int
    random: int
    max_abs_diff: float  # of outputs and of Box actions
    action_agreement: float  # share of equal actions; equally good ones are equal
    ties: int  # observations on which the actions differ but are equally good
    tolerance: float  # for numbers up to 1; larger ones may differ in proportion

    @property
    def passed(self) -> bool:
        return self.max_abs_diff <= self.tolerance and self.action_agreement == 1.0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "passed": self.passed}


def compare(
    policy: PolicyController,
    module: Graph,
    file: Graph,
    request: PolicyRequest,
    samples: tuple[Sequence[Sample], Sequence[Sample]],
    tolerance: float,
    report: StepReport = ignore_step,
) -> Parity:
    """Play the policy and the file side by side on the same observations, recorded and random.

    Actions are compared with those of `policy`, the controller that plays as `run:`; outputs with those of `module`,
    the network that the file was traced from.
    """
    exported, traced = GraphPolicyController(file, request), GraphPolicyController(module, request)
    remembers = module.facts is not None and module.facts.memory > 0
    worst, equal, ties, count = 0.0, 0, 0, 0
    for sample in (each for part in samples for each in part):
        agent, turn = sample.agent, sample.turn
        if sample.first:
            for player in (policy, exported, traced):
                player.begin((agent,), count)
        row, wanted = exported.outputs(turn)[0], traced.outputs(turn)[0]
        worst = max(worst, _distance(row, wanted))
        action, asked = exported.act(turn)[agent], policy.act(turn)[agent]
        if remembers:
            traced.act(turn)
        space = request.spec.action_spaces[agent]
        if isinstance(space, spaces.Box):
            far = _distance(np.ravel(action), np.ravel(asked))
            worst, same = max(worst, far), far <= tolerance
        else:
            same = bool(np.array_equal(np.ravel(action), np.ravel(asked)))
            if not same and _equally_good(space, row, asked, tolerance):
                same, ties = True, ties + 1
        equal, count = equal + same, count + 1
        report("comparing", count, len(samples[0]) + len(samples[1]))
    return Parity(len(samples[0]), len(samples[1]), worst, equal / max(count, 1), ties, tolerance)


def _distance(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Return the largest difference; of numbers above 1, in proportion to the largest. NaN is infinitely far."""
    one, other = one.astype(np.float64), other.astype(np.float64)
    shown = (one > _EXCLUDED) & (other > _EXCLUDED)
    if np.isnan(one).any() or ((one > _EXCLUDED) != (other > _EXCLUDED)).any():
        return float("inf")
    if not shown.any():
        return 0.0
    scale = max(1.0, float(np.abs(other[shown]).max()))
    far = float(np.abs(one[shown] - other[shown]).max()) / scale
    return far if np.isfinite(far) else float("inf")


def _equally_good(space: Space[object], row: NDArray[np.float32], asked: Action, tolerance: float) -> bool:
    """Return whether the file gives the policy's action as much as its own: a table draws among equally good ones."""
    sizes = action_code(space).head.sizes
    start = getattr(space, "start", 0)
    chosen = np.ravel(np.asarray(asked) - start)
    for logits, choice in zip(np.split(row, np.cumsum(sizes)[:-1]), chosen, strict=True):
        scale = max(1.0, float(np.abs(logits[logits > _EXCLUDED]).max(initial=0.0)))
        if logits[int(choice)] < logits.max() - tolerance * scale:
            return False
    return True
