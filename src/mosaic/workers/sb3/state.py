"""Training state of an SB3 model, from which a run resumes: arrays in safetensors and numbers in JSON, no pickles."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from mosaic.core.errors import FormatError, InputError
from mosaic.models.weights_file import check_finite
from mosaic.workers.sb3.checkpoint.writer import algorithm_of

TRAINING, NUMBERS = "training.safetensors", "training.json"
Arrays: TypeAlias = dict[str, NDArray[Any]]

_COUNTERS = ("num_timesteps", "_n_updates", "_episode_num", "_current_progress_remaining")
_OF_VALUES = ("exploration_rate", "_n_calls")  # of DQN and QR-DQN
_LEARNED = ("state/", "optimizer/", "variable/")


def save_state(folder: Path, model: Any, more: Arrays) -> None:
    """Write everything that learning continues from, together with `more` arrays of the run."""
    from safetensors.numpy import save_file

    arrays: Arrays = dict(more)
    numbers: dict[str, Any] = {
        "counters": {name: getattr(model, name) for name in (*_COUNTERS, *_OF_VALUES) if hasattr(model, name)}
    }
    numbers["algorithm"] = algorithm_of(model)
    numbers["optimizers"] = dict(_learned(model, arrays))
    if getattr(model, "replay_buffer", None) is not None:
        numbers["replay"] = _replay(model.replay_buffer, arrays)
    numbers["random"] = _generators(model, arrays)
    for number, noise in enumerate(_noises(model)):
        if noise.noise_prev is not None:
            arrays[f"noise/{number}"] = np.asarray(noise.noise_prev)
    for name, array in arrays.items():
        if name.startswith(_LEARNED):
            check_finite(array, f"After {model.num_timesteps:,} steps the numbers of '{name}'")
    save_file({name: np.array(array, order="C") for name, array in arrays.items()}, folder / TRAINING)
    (folder / NUMBERS).write_text(json.dumps(numbers))


def load_state(folder: Path, model: Any) -> Arrays:
    """Put the state back into a new model with the same options; return all arrays."""
    numbers, arrays = read_state(folder)
    load_learned(model, numbers, arrays, str(folder))
    for name, value in numbers["counters"].items():
        setattr(model, name, value)
    if "replay" in numbers:
        _load_replay(model.replay_buffer, numbers["replay"], arrays)
    _load_generators(model, numbers["random"], arrays)
    for number, noise in enumerate(_noises(model)):
        if f"noise/{number}" in arrays:
            noise.noise_prev = arrays[f"noise/{number}"]
    return arrays


def read_state(folder: Path) -> tuple[dict[str, Any], Arrays]:
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    if not (folder / TRAINING).is_file() or not (folder / NUMBERS).is_file():
        raise InputError(f"{folder} has no {TRAINING}: this checkpoint can be played, but not trained further.")
    try:
        numbers, arrays = json.loads((folder / NUMBERS).read_text()), load_file(folder / TRAINING)
    except (SafetensorError, ValueError) as error:
        raise FormatError(f"{folder}: the training state cannot be read: {error}") from error
    for name, array in arrays.items():
        if name.startswith(_LEARNED):
            check_finite(array, f"{folder / TRAINING}: the numbers of '{name}'")
    return numbers, arrays


def load_learned(model: Any, numbers: Mapping[str, Any], arrays: Arrays, where: str, *, optimizer: bool = True) -> None:
    """Load networks, optimizers and learned coefficients."""
    names, variables = model._get_torch_save_params()
    try:
        for name in names:
            part = _attribute(model, name)
            if isinstance(part, torch.nn.Module):
                part.load_state_dict(_tensors(arrays, f"state/{name}/"))
            elif optimizer:
                part.load_state_dict(_optimizer(numbers["optimizers"][name], _tensors(arrays, f"optimizer/{name}/")))
        for name in variables:
            _attribute(model, name).data.copy_(torch.from_numpy(arrays[f"variable/{name}"]))
    except (KeyError, RuntimeError, ValueError) as error:
        raise InputError(f"{where} is of a model of another shape or algorithm: {error}") from error


def _learned(model: Any, arrays: Arrays) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Fill in the arrays of networks and optimizers; yield the groups of each optimizer."""
    names, variables = model._get_torch_save_params()
    for name in names:
        part = _attribute(model, name)
        state = part.state_dict()
        if isinstance(part, torch.nn.Module):
            arrays.update({f"state/{name}/{key}": _array(tensor) for key, tensor in state.items()})
            continue
        for number, values in state["state"].items():
            arrays.update({f"optimizer/{name}/{number}/{key}": _array(tensor) for key, tensor in values.items()})
        yield name, state["param_groups"]
    for name in variables:
        arrays[f"variable/{name}"] = _array(_attribute(model, name))


def _optimizer(groups: list[dict[str, Any]], tensors: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    state: dict[int, dict[str, torch.Tensor]] = {}
    for name, tensor in tensors.items():
        number, key = name.split("/")
        state.setdefault(int(number), {})[key] = tensor
    return {"state": state, "param_groups": groups}


def _tensors(arrays: Arrays, start: str) -> dict[str, torch.Tensor]:
    return {name.removeprefix(start): torch.from_numpy(a) for name, a in arrays.items() if name.startswith(start)}


def _array(value: Any) -> NDArray[Any]:
    return value.detach().cpu().numpy().copy() if isinstance(value, torch.Tensor) else np.asarray(value)


def _attribute(model: Any, path: str) -> Any:
    for name in path.split("."):
        model = getattr(model, name)
    return model


def _replay(buffer: Any, arrays: Arrays) -> dict[str, Any]:
    """Fill in the filled part of a replay buffer; return its position."""
    for name, array in _columns(buffer):
        filled = buffer.size() if len(array) == buffer.buffer_size else len(array)
        arrays[f"replay/{name}"] = array[:filled]
    return {"pos": buffer.pos, "full": buffer.full}


def _load_replay(buffer: Any, place: Mapping[str, Any], arrays: Arrays) -> None:
    for name, array in _columns(buffer):
        saved = arrays.get(f"replay/{name}")
        if saved is None or saved.shape[1:] != array.shape[1:] or len(saved) > len(array):
            shape = "none" if saved is None else saved.shape
            raise InputError(f"The replay buffer's '{name}' has the shape {shape}, and this run's {array.shape}.")
        array[: len(saved)] = saved
    buffer.pos, buffer.full = int(place["pos"]), bool(place["full"])


def end_episodes(buffer: Any) -> None:
    """Mark the last step of every slot as truncated: new episodes follow, and none continues from there."""
    if buffer is None or not (buffer.full or buffer.pos):
        return
    last = (buffer.pos - 1) % buffer.buffer_size
    buffer.dones[last] = 1
    if buffer.handle_timeout_termination:
        buffer.timeouts[last] = 1
    if hasattr(buffer, "truncate_last_trajectory"):
        buffer.truncate_last_trajectory()


def _columns(buffer: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    for name, value in sorted(vars(buffer).items()):
        parts = value.items() if isinstance(value, dict) else [("", value)]
        for key, array in parts:
            if isinstance(array, np.ndarray) and array.dtype != object and array.ndim > 1:
                yield f"{name}/{key}" if key else name, array


def _generators(model: Any, arrays: Arrays) -> dict[str, Any]:
    """Fill in the states of torch's and numpy's global generators; return those of Python and of the action space."""
    kind, words, position, has_gauss, gauss = np.random.get_state(legacy=True)
    assert kind == "MT19937"
    arrays["random/torch"], arrays["random/numpy"] = torch.get_rng_state().numpy(), np.asarray(words)
    if model.device.type == "cuda":
        arrays["random/cuda"] = torch.cuda.get_rng_state(model.device).numpy()
    version, inner, following = random.getstate()
    return {
        "numpy": [int(position), int(has_gauss), float(gauss)],
        "python": [version, list(inner), following],
        "actions": model.action_space.np_random.bit_generator.state,
    }


def _load_generators(model: Any, numbers: Mapping[str, Any], arrays: Arrays) -> None:
    torch.set_rng_state(torch.from_numpy(arrays["random/torch"]))
    if model.device.type == "cuda" and "random/cuda" in arrays:  # else it was trained on the CPU so far
        torch.cuda.set_rng_state(torch.from_numpy(arrays["random/cuda"]), model.device)
    np.random.set_state(("MT19937", arrays["random/numpy"], *numbers["numpy"]))
    version, inner, following = numbers["python"]
    random.setstate((version, tuple(inner), following))
    model.action_space.np_random.bit_generator.state = numbers["actions"]


@contextmanager
def kept_generators() -> Iterator[None]:
    """Restore the global generators of torch and numpy afterwards, so that an evaluation changes nothing."""
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()
    try:
        yield
    finally:
        torch.set_rng_state(torch_state)
        np.random.set_state(numpy_state)


def _noises(model: Any) -> list[Any]:
    """Return the action noises with a memory, one for each slot."""
    noise = getattr(model, "action_noise", None)
    return [each for each in getattr(noise, "noises", [noise]) if hasattr(each, "noise_prev")]
