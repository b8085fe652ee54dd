"""Types of options: constructor arguments of Stable-Baselines3 as values that a configuration file can hold."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import reduce
from inspect import Parameter
from operator import or_
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

from pydantic import AfterValidator, Field

from mosaic.config.field_types import SHAPES_CHECKPOINTS
from mosaic.core.user_code import PREFIX

_SCHEDULE = re.compile(r"linear(_[0-9.eE+-]+)?")
_NOISE = re.compile(r"(normal|ornstein-uhlenbeck)_([0-9.eE+-]+)")
_AUTO = re.compile(r"auto(_[0-9.eE+-]+)?")
_LAYERS = ("pi", "vf", "qf")

LINEAR = "'linear' falls from the default to 0, 'linear_0.001' from 0.001"
NOISE = "normal_0.1 or ornstein-uhlenbeck_0.1 (with its deviation); None: no noise"


def number_after(text: str, what: str) -> float | None:
    """Return the number of 'linear_0.001'; None if there is none."""
    _, mark, digits = text.partition("_")
    if not mark:
        return None
    try:
        value = float(digits)
    except ValueError:
        raise ValueError(f"'{digits}' of the {what} '{text}' should be a number") from None
    if not 0 < value < 1e9:
        raise ValueError(f"the number of the {what} '{text}' should be positive")
    return value


def _schedule(value: float | str) -> float | str:
    if isinstance(value, str):
        if not _SCHEDULE.fullmatch(value):
            raise ValueError("it should be a number, 'linear' or 'linear_NUMBER', such as linear_0.001")
        number_after(value, "schedule")
    elif not 0 < value <= 1e6:
        raise ValueError("it should be more than 0")
    return value


def _noise(value: str) -> str:
    found = _NOISE.fullmatch(value)
    if found is None:
        raise ValueError("it should be normal_NUMBER or ornstein-uhlenbeck_NUMBER, such as normal_0.1")
    number_after(value, "noise")
    return value


def _auto(value: float | str) -> float | str:
    if isinstance(value, str):
        if not _AUTO.fullmatch(value):
            raise ValueError("it should be a number, 'auto' or 'auto_NUMBER', such as auto_0.1")
        number_after(value, "coefficient")
    return value


def _code(value: str) -> str:
    if not value.startswith(PREFIX):
        raise ValueError("it should be python:MODULE:CLASS, such as python:my_buffers:Prioritised")
    return value


def _widths(value: list[int] | dict[str, list[int]]) -> list[int] | dict[str, list[int]]:
    parts = value if isinstance(value, dict) else {"pi": value}
    for name, widths in parts.items():
        if name not in _LAYERS:
            raise ValueError(f"its parts should be pi, vf or qf, not '{name}'")
        if len(widths) > 16 or not all(1 <= width <= 65_536 for width in widths):
            raise ValueError("it should hold at most 16 widths of 1 to 65536")
    return value


Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False)]
Scheduled: TypeAlias = Annotated[Number | str, AfterValidator(_schedule)]
Noise: TypeAlias = Annotated[str, AfterValidator(_noise)]
Code: TypeAlias = Annotated[str, AfterValidator(_code)]
Coefficient: TypeAlias = Annotated[Number | str, AfterValidator(_auto)]
Count: TypeAlias = Annotated[int, Field(ge=1, le=1_000_000_000)]
Frequency: TypeAlias = Count | tuple[Count, Literal["step", "episode"]]
Widths: TypeAlias = Annotated[list[int] | dict[str, list[int]], AfterValidator(_widths), SHAPES_CHECKPOINTS]
Layers: TypeAlias = Annotated[list[int], AfterValidator(_widths), SHAPES_CHECKPOINTS]
Activation: TypeAlias = Annotated[
    Literal["Tanh", "ReLU", "SiLU", "ELU", "GELU", "LeakyReLU", "Mish", "SELU", "Sigmoid", "Softplus", "Identity"],
    SHAPES_CHECKPOINTS,
]
Optimizer: TypeAlias = Literal["Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adagrad", "RMSprop", "SGD"]


class OptionType(NamedTuple):
    """Type and default of an option."""

    type: Any
    default: object
    remark: str = ""  # added to the argument's own description


def option_type(argument: Parameter) -> OptionType | None:
    """Return the option that stands for a constructor's argument; None if it has no plain form."""
    given = set(get_args(argument.annotation)) if _is_union(argument.annotation) else {argument.annotation}
    empty = NoneType in given
    name, default = argument.name, argument.default
    if name.endswith("_kwargs"):
        return OptionType(dict[str, Any] | None, None, "None: its defaults")
    match name:
        case "net_arch":
            shared = any(get_origin(each) is dict for each in given)
            return OptionType((Widths if shared else Layers) | None, None, "None: SB3's widths for the observation")
        case "activation_fn":
            return OptionType(Activation, default.__name__, "A name of torch.nn")
        case "optimizer_class":
            return OptionType(Optimizer | None, None, "A name of torch.optim; None: the algorithm's own")
        case "action_noise":
            return OptionType(Noise | None, None, NOISE)
        case "train_freq":
            return OptionType(Frequency, default, "A number of steps, or [1, episode]")
    if name.endswith("_class"):
        return OptionType(Code | None, None, "python:MODULE:CLASS; None: SB3's own")
    if any(_is_function(each) for each in given):
        return OptionType(Scheduled | None if empty else Scheduled, default, LINEAR)
    if given == {str, float}:
        return OptionType(Coefficient, default)
    kinds = [each for each in (bool, int, float, str) if each in given]
    if not kinds:
        return None
    plain: Any = reduce(or_, (Number if each is float else each for each in kinds))
    if kinds == [float] and default is not None:
        default = float(default)
    return OptionType(plain | None if empty else plain, default)


def _is_union(annotation: object) -> bool:
    return isinstance(annotation, UnionType) or get_origin(annotation) is Union


def _is_function(annotation: object) -> bool:
    return annotation is Callable or get_origin(annotation) is Callable
