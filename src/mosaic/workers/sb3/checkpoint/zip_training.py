"""Networks, learned coefficients and optimizers of a zip that SB3 wrote, as a run starts from them: `training.init`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

import torch
from numpy.typing import NDArray

from mosaic.core.errors import FormatError, InputError
from mosaic.envs.space_json import space_differences, space_to_json
from mosaic.models.weights_file import check_finite
from mosaic.workers.sb3.checkpoint.actions import sb3_action
from mosaic.workers.sb3.checkpoint.facts import Sb3Facts
from mosaic.workers.sb3.checkpoint.rows import observation_differences, sb3_row
from mosaic.workers.sb3.checkpoint.statistics import Moments
from mosaic.workers.sb3.checkpoint.writer import describe_model
from mosaic.workers.sb3.checkpoint.zip_file import Sb3Zip, read_tensors
from mosaic.workers.sb3.checkpoint.zip_policy import NeedsPickleError, describe_zip, zip_statistics

Arrays: TypeAlias = dict[str, NDArray[Any]]

_VARIABLES = "pytorch_variables.pth"
_SHARED = "features_extractor."  # of an older SB3, which has one for actor and critic
_CLIP, _EPSILON = 10.0, 1e-8  # of VecNormalize in a run
_OPTIONS = {"activation": "activation_fn", "norm_eps": "batch_norm_eps"}  # others have the names of their options
_OF_NETWORKS = ("activation", "use_sde", "use_expln", "squash_output", "clip_mean", "norm_eps", "normalize_images")


class ZipStart(NamedTuple):
    """Parts of a zip that a run starts from, under the names they have in checkpoints of runs."""

    numbers: Mapping[str, Any]
    arrays: Arrays
    moments: Moments | None  # of VecNormalize


def read_start(found: Sb3Zip, algorithm: str, model: Any, reference: str, *, optimizer: bool) -> ZipStart:
    """Read a zip for this model; raise InputError if its spaces or its kind of network differ."""
    try:
        facts = describe_zip(found, algorithm).facts
    except NeedsPickleError as error:
        reason = str(error).partition(", which only a pickle")[0]
        raise InputError(
            f"{reason}. A run of the worker sb3 cannot start from it: its own networks have none of a user's classes."
        ) from error
    _check_facts(reference, facts, model)
    names, variables = model._get_torch_save_params()
    arrays: Arrays = {f"state/policy/{name}": array for name, array in _named_as_now(found, model)}
    coefficients = read_tensors(found, _VARIABLES) if variables else {}
    for name in variables:
        tensor = coefficients.get(name) if isinstance(coefficients, Mapping) else None
        if isinstance(tensor, torch.Tensor):
            arrays[f"variable/{name}"] = _number_array(found, name, tensor)
    groups: dict[str, Any] = {}
    for name in names if optimizer else ():
        part = _attribute(model, name)
        if isinstance(part, torch.optim.Optimizer):
            groups[name] = part.state_dict()["param_groups"]  # this run's options count
            arrays.update(_optimizer_arrays(found, name, part))
    return ZipStart({"algorithm": algorithm, "optimizers": groups}, arrays, _moments(found, reference))


def network_text(found: Sb3Zip) -> str:
    """Return the network's options as the zip tells them, for people."""
    kwargs = found.fields.get("policy_kwargs") or {}
    told = kwargs.get("net_arch") if isinstance(kwargs, Mapping) else None
    return f"It has net_arch {told}." if told else "It has SB3's default net_arch."


def _check_facts(reference: str, there: Sb3Facts, model: Any) -> None:
    here = describe_model(model).facts
    found: list[str] = []
    if sb3_row(model.observation_space, there) is None:
        found += observation_differences(model.observation_space, there.observation, "the observation")
    if sb3_action(model.action_space, there) is None:
        found += space_differences(space_to_json(model.action_space), there.action, "the action")
    if found:
        raise InputError(f"'{reference}' was trained with other spaces: {'; '.join(found)}.")
    for name in _OF_NETWORKS:
        ours, theirs = getattr(here, name), getattr(there, name)
        if ours != theirs:
            option = _OPTIONS.get(name, name)
            found.append(f"{option} is {_text(ours)} here and {_text(theirs)} there")
    if found:
        raise InputError(f"'{reference}' has another network than this run: {'; '.join(found)}. Set them alike.")


def _named_as_now(found: Sb3Zip, model: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the weights by the names of the installed version."""
    yield from found.weights.items()
    if getattr(model.policy, "share_features_extractor", False):
        for name, array in found.weights.items():
            for new in (f"pi_{name}", f"vf_{name}"):
                if name.startswith(_SHARED) and new not in found.weights and new in model.policy.state_dict():
                    yield new, array


def _optimizer_arrays(found: Sb3Zip, name: str, optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, NDArray[Any]]]:
    read = read_tensors(found, f"{name}.pth")
    state = read.get("state") if isinstance(read, Mapping) else None
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    if not isinstance(state, Mapping) or not all(isinstance(each, Mapping) for each in state.values()):
        raise FormatError(f"'{found.path}': {name}.pth is not the state of an optimizer.")
    for number, values in state.items():
        if not isinstance(number, int) or not 0 <= number < len(parameters):
            raise FormatError(
                f"'{found.path}': {name}.pth has a parameter {number!r}, and there are {len(parameters)}."
            )
        for key, value in values.items():
            array = _number_array(found, f"{name}.{number}.{key}", torch.as_tensor(value))
            if array.shape not in ((), tuple(parameters[number].shape)):
                raise FormatError(
                    f"'{found.path}': {key} of parameter {number} in {name}.pth has the shape {array.shape}, and the "
                    f"parameter {tuple(parameters[number].shape)}."
                )
            yield f"optimizer/{name}/{number}/{key}", array


def _number_array(found: Sb3Zip, name: str, tensor: torch.Tensor) -> NDArray[Any]:
    if tensor.layout != torch.strided or tensor.is_quantized or tensor.is_complex():
        raise FormatError(f"'{found.path}': '{name}' is not a plain array of numbers.")
    array = tensor.detach().float().numpy().copy()
    check_finite(array, f"'{found.path}': the numbers of '{name}'", FormatError)
    return array


def _moments(found: Sb3Zip, reference: str) -> Moments | None:
    statistics = zip_statistics(found)
    if statistics is None or not statistics.moments:
        return None
    if None not in statistics.moments:
        raise InputError(f"'{reference}': a run normalises observations that are one array, and these are a Dict.")
    if (statistics.clip, statistics.epsilon) != (_CLIP, _EPSILON):
        raise InputError(
            f"'{reference}' was trained with VecNormalize's clip_obs {statistics.clip:g} and epsilon "
            f"{statistics.epsilon:g}; a run has {_CLIP:g} and {_EPSILON:g}, and its networks would see other numbers."
        )
    return statistics.moments[None]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _attribute(model: Any, path: str) -> Any:
    for name in path.split("."):
        model = getattr(model, name)
    return model
