"""Learner values of an SB3 model under the names that all workers use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mosaic.models.weights_file import check_finite

# SB3's names of what the others report too; other names stay as they are.
_NAMES: Mapping[str, str] = {"policy_gradient_loss": "policy_loss"}


def learner_values(model: Any) -> dict[str, float]:
    """Return what the last updates logged, and forget it; raise if the network is not finite any more."""
    for name, tensor in model.policy.state_dict().items():
        check_finite(tensor.detach().cpu().numpy(), f"After {model.num_timesteps:,} steps the weights '{name}'")
    values: dict[str, float] = {}
    for key, value in model.logger.name_to_value.items():
        section, _, name = key.partition("/")
        number = float(value)
        if section not in ("train", "rollout") or not math.isfinite(number):
            continue
        if name == "entropy_loss":
            values["entropy"] = -number
        else:
            values[_NAMES.get(name, name)] = number
    model.logger.dump(model.num_timesteps)
    return values
