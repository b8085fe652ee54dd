"""Networks of several policies that have a part in common, a critic or an encoder: one object, stepped once."""

from __future__ import annotations

from typing import Any

from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule, MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from torch import nn

from mosaic.core.errors import MosaicError
from mosaic.workers.rllib.config.setup import Setup

CRITIC = "critic"  # as modules call a central critic
ENCODER = "encoder"  # as RLlib's default modules call it; where policy and value have one each, it holds both
_PARTS = "shared_parts"  # in the settings of the modules together


def parts_in_common(setup: Setup) -> tuple[str, ...]:
    """By the names of the modules' attributes. A policy that is alone shares nothing."""
    if len(setup.modules) == 1:
        return ()
    asked = {CRITIC: setup.casting.plan.central, ENCODER: setup.options.shared_encoder}
    return tuple(name for name, wanted in asked.items() if wanted)


def modules_together(setup: Setup, specs: dict[str, RLModuleSpec]) -> MultiRLModuleSpec:
    parts = parts_in_common(setup)
    if not parts:
        return MultiRLModuleSpec(rl_module_specs=specs)
    return MultiRLModuleSpec(
        multi_rl_module_class=SharingModules, rl_module_specs=specs, model_config={_PARTS: list(parts)}
    )


class SharingModules(MultiRLModule):
    """The first module's part is everybody's."""

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
    """RLlib gives each module an optimizer for all it has: a shared part would be stepped by each of them."""

    def get_parameters(self, module: Any) -> list[Any]:
        """The shared parts belong to the first module."""
        if module is self._first:
            return list(module.parameters())
        shared = {id(parameter) for parameter in self._shared()}
        return [parameter for parameter in module.parameters() if id(parameter) not in shared]

    def compute_gradients(self, loss_per_module: dict[str, Any], **also: Any) -> dict[Any, Any]:
        """A shared part gets the mean over the policies in the minibatch, as if their samples were one policy's."""
        gradients = super().compute_gradients(loss_per_module, **also)
        for parameter in self._shared():
            if gradients.get(parameter) is not None:
                gradients[parameter] /= len(loss_per_module)
        return gradients

    @property
    def _first(self) -> Any:
        return next(iter(self.module.values()))

    def _shared(self) -> list[Any]:
        return [p for name in shared_parts(self.module) for p in getattr(self._first, name).parameters()]


def shared_parts(modules: MultiRLModule) -> list[str]:
    assert isinstance(modules.model_config, dict)
    names: list[str] = modules.model_config[_PARTS]
    return names


def _shapes(part: nn.Module) -> list[tuple[str, tuple[int, ...]]]:
    return [(name, tuple(parameter.shape)) for name, parameter in part.named_parameters()]
