"""Actions of SB3 policies: the outputs that an action space needs, and the actions that they mean."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from gymnasium import spaces
from gymnasium.spaces import Space

from mosaic.core.errors import FormatError, InputError
from mosaic.core.turn import Action
from mosaic.envs.space_json import space_from_json, space_to_json
from mosaic.envs.vector.encoding import ActionCode, ActionHead, Row, action_code
from mosaic.workers.sb3.checkpoint.facts import Sb3Facts
from mosaic.workers.sb3.checkpoint.layers import Layer, PolicyLayers

_CLOSE = 1e-4  # bounds that a zip gives as text have lost digits


def squashes(facts: Sb3Facts) -> bool:
    """Return whether numbers of the policy are squashed to ±1 and then scaled to the bounds of the actions."""
    return facts.family in ("squashed", "deterministic") or (facts.use_sde and facts.squash_output)


def head_of(facts: Sb3Facts) -> ActionHead:
    """Return the outputs that SB3's action space needs."""
    head = action_code(space_from_json(facts.action)).head
    continuous = facts.family in ("squashed", "deterministic")
    discrete = facts.family in ("values", "quantiles")
    if (continuous and head.kind != "gaussian") or (discrete and (head.kind != "categorical" or head.parts != 1)):
        raise FormatError(f"A {facts.algorithm} policy cannot act in {space_from_json(facts.action)}.")
    return head


def fitting_layers(facts: Sb3Facts, layers: PolicyLayers) -> PolicyLayers:
    """Return layers whose head has the outputs of `head_of`; raise if they are of another action space."""
    head, last = head_of(facts), layers.head
    if facts.action["space"] == "MultiBinary" and 2 * last.outputs == head.width:
        last = _both_choices(last)
    if last.outputs != head.width:
        raise FormatError(
            f"The weights give {last.outputs} numbers; actions of {space_from_json(facts.action)} need {head.width}."
        )
    return layers._replace(head=last)


def sb3_action(space: Space[object], facts: Sb3Facts) -> ActionCode | None:
    """Return the code of an env's actions; None if the policy learned other ones."""
    here = space_to_json(space)
    if isinstance(space, spaces.Box) and facts.action["space"] == "Box":
        trained = space_from_json(facts.action)
        assert isinstance(trained, spaces.Box)
        if trained.shape != space.shape or not _same_bounds(space, trained):
            return None
        code = action_code(space)
        return ActionCode(code.head, _unscaled(space)) if squashes(facts) else code
    keys = ("space", "n", "nvec", "shape")
    if all(here.get(key) == facts.action.get(key) for key in keys) and here["space"] != "Box":
        return action_code(space)
    return None


def check_squashed(space: Space[object], facts: Sb3Facts) -> None:
    """Raise if squashed actions have no bounds to be scaled to."""
    if squashes(facts) and isinstance(space, spaces.Box) and not space.is_bounded():
        raise InputError(f"A {facts.algorithm} policy scales its actions to their bounds, and {space} has none.")


def _same_bounds(here: spaces.Box, there: spaces.Box) -> bool:
    pairs = ((here.low, there.low), (here.high, there.high))
    return all(np.allclose(one, other, rtol=_CLOSE, atol=_CLOSE, equal_nan=False) for one, other in pairs)


def _unscaled(space: spaces.Box) -> Callable[[Row], Action]:
    low, high, shape, dtype = space.low, space.high, space.shape, space.dtype
    half = np.float32(0.5)

    def action(row: Row) -> Action:
        squashed = np.tanh(row.reshape(shape))
        return np.clip(low + half * (squashed + np.float32(1)) * (high - low), low, high).astype(dtype)

    return action


def _both_choices(layer: Layer) -> Layer:
    """Return logits of "no", which are 0, and "yes" for each bit, whose layer gives those of "yes" alone."""
    weight = np.zeros((2 * layer.outputs, layer.inputs), np.float32)
    bias = np.zeros(2 * layer.outputs, np.float32)
    weight[1::2], bias[1::2] = layer.weight, layer.bias
    return Layer(weight, bias)
