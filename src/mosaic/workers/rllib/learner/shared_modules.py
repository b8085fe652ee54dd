"""Networks of several policies that share a part, a critic or an encoder: one object, stepped once."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule, MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.utils.typing import TensorType
from torch import nn

from mosaic.core.errors import MosaicError
from mosaic.workers.rllib.config.setup import RllibSetup

CRITIC = "critic"  # attribute of a central critic in modules
ENCODER = "encoder"  # its attribute in RLlib's default modules; contains both if policy and value have one each
_PARTS = "shared_parts"  # in the settings of the modules together


def parts_in_common(setup: RllibSetup) -> tuple[str, ...]:
    """Return the names of the shared attributes. A single policy shares nothing."""
    if len(setup.modules) == 1:
        return ()
    asked = {CRITIC: setup.roles.plan.central, ENCODER: setup.options.shared_encoder}
    return tuple(name for name, wanted in asked.items() if wanted)


def modules_together(setup: RllibSetup, specs: dict[str, RLModuleSpec]) -> MultiRLModuleSpec:
    parts = parts_in_common(setup)
    if not parts:
        return MultiRLModuleSpec(rl_module_specs=specs)
    return MultiRLModuleSpec(
        multi_rl_module_class=SharingModules, rl_module_specs=specs, model_config={_PARTS: list(parts)}
    )


class SharingModules(MultiRLModule):
    """Modules that all use the first one's shared parts."""

    def setup(self) -> None:
        super().setup()  # type: ignore[no-untyped-call]
        for name in shared_parts(self):
            self._share(name)

    def _share(self, name: str) -> None:
        holders = {key: module for key, module in self._rl_modules.items() if hasattr(module, name)}
        if not holders:
            return  # env runners have no critics
        first, *others = holders
        part = getattr(holders[first], name)
        for other in others:
            if _shapes(part) != _shapes(getattr(holders[other], name)):
                raise MosaicError(f"The policies '{first}' and '{other}' cannot share one {name}: its sizes differ.")
            setattr(holders[other], name, part)


class SharingLearner(TorchLearner):
    """Learner that steps a shared part once: RLlib gives each module an optimizer for everything it has."""

    def get_parameters(self, module: Any) -> list[nn.Parameter]:
        """Return a module's parameters; the shared parts belong to the first module."""
        if module is self._first:
            return list(module.parameters())
        shared = {id(parameter) for parameter in self._shared()}
        return [parameter for parameter in module.parameters() if id(parameter) not in shared]

    def compute_gradients(self, loss_per_module: dict[str, TensorType], **also: object) -> dict[Hashable, TensorType]:
        """Compute gradients, averaging those of shared parts.

        A shared part gets the mean over the policies in the minibatch, as if their samples were one policy's.
        """
        gradients = super().compute_gradients(loss_per_module, **also)
        for parameter in self._shared():
            if gradients.get(parameter) is not None:
                gradients[parameter] /= len(loss_per_module)
        return gradients

    @property
    def _first(self) -> Any:
        return next(iter(self.module.values()))

    def _shared(self) -> list[nn.Parameter]:
        return [p for name in shared_parts(self.module) for p in getattr(self._first, name).parameters()]


def shared_parts(modules: MultiRLModule) -> list[str]:
    assert isinstance(modules.model_config, dict)
    names: list[str] = modules.model_config[_PARTS]
    return names


def _shapes(part: nn.Module) -> list[tuple[str, tuple[int, ...]]]:
    return [(name, tuple(parameter.shape)) for name, parameter in part.named_parameters()]
