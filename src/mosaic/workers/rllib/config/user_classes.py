"""A user's own classes for RLlib: loaded and checked, and sent to other processes by value."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeAlias

from ray import cloudpickle
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.rllib.connectors.connector_v2 import ConnectorV2
from ray.rllib.core.learner.torch.torch_learner import TorchLearner
from ray.rllib.core.rl_module.torch.torch_rl_module import TorchRLModule

from mosaic.core.errors import InputError
from mosaic.core.user_code import load_code
from mosaic.workers.rllib.config.user_options import UserCodeOptions

Connectors: TypeAlias = Callable[..., list[ConnectorV2]]
_FOUND_ANYWHERE = ("site-packages", "dist-packages")  # modules in such folders are installed on every machine


@dataclass(frozen=True, slots=True)
class UserClasses:
    rl_module: type[TorchRLModule] | None = None
    learner: type[TorchLearner] | None = None
    callbacks: tuple[type[RLlibCallback], ...] = ()
    env_to_module: Connectors | None = None
    module_to_env: Connectors | None = None
    learner_connector: Connectors | None = None


def load_user_classes(options: UserCodeOptions, own_learner: type[TorchLearner]) -> UserClasses:
    """Load the classes that the options name; raise InputError for one that RLlib cannot use with `own_learner`."""
    return UserClasses(
        rl_module=_rl_module(options.rl_module, own_learner),
        learner=_class("learner", options.learner, own_learner),
        callbacks=tuple(_callback(reference) for reference in options.callbacks),
        env_to_module=connectors("env_to_module", options.env_to_module, ("env", "spaces", "device")),
        module_to_env=connectors("module_to_env", options.module_to_env, ("env", "spaces")),
        learner_connector=connectors(
            "learner_connector", options.learner_connector, ("observation_space", "action_space")
        ),
    )


def load_rl_module(reference: str) -> type[TorchRLModule]:
    found = _class("rl_module", reference, TorchRLModule)
    assert found is not None
    return found


def connectors(option: str, reference: str | None, arguments: tuple[str, ...]) -> Connectors | None:
    """Return a function that makes the connectors which a class or function makes."""
    if reference is None:
        return None
    code = load_code(reference)
    wanted = f"a ConnectorV2 class, or a function of ({', '.join(arguments)}) that returns connectors"
    if isinstance(code, type):
        if not issubclass(code, ConnectorV2):
            raise _refusal(option, reference, code, wanted)
        check_call(option, reference, code, ())
    elif callable(code):
        check_call(option, reference, code, arguments)
    else:
        raise _refusal(option, reference, code, wanted)
    send_by_value(code)
    return partial(_make_connectors, code, f"{option}={reference}")


def _make_connectors(code: Callable[..., Any], said: str, *given: object) -> list[ConnectorV2]:
    made = code() if isinstance(code, type) else code(*given)
    pieces = list(made) if isinstance(made, list | tuple) else [made]
    for piece in pieces:
        if not isinstance(piece, ConnectorV2):
            raise InputError(f"{said} returned {piece!r}: it should return a ConnectorV2, or a list of them.")
    return pieces


def _rl_module(reference: str | None, learner: type[TorchLearner]) -> type[TorchRLModule] | None:
    found = _class("rl_module", reference, TorchRLModule)
    if found is None:
        return None
    missing = [api.__name__ for api in learner.rl_module_required_apis() if not issubclass(found, api)]
    if missing:
        raise InputError(
            f"rl_module={reference}: {learner.__name__} trains modules with {' and '.join(missing)}, and "
            f"{found.__name__} does not derive from {'it' if len(missing) == 1 else 'them'}. Add the base class "
            f"(ray.rllib.core.rl_module.apis), or derive from the algorithm's default module."
        )
    return found


def _callback(reference: str) -> type[RLlibCallback]:
    found = _class("callbacks", reference, RLlibCallback)
    assert found is not None
    check_call("callbacks", reference, found, ())
    return found


def _class(option: str, reference: str | None, base: type[Any]) -> type[Any] | None:
    if reference is None:
        return None
    found = load_code(reference)
    if not isinstance(found, type) or not issubclass(found, base):
        raise _refusal(option, reference, found, f"a class derived from {base.__module__}.{base.__name__}")
    send_by_value(found)
    return found


def _refusal(option: str, reference: str, found: object, wanted: str) -> InputError:
    is_what = f"the class {found.__name__}" if isinstance(found, type) else f"a {type(found).__name__}"
    return InputError(f"{option}={reference} is {is_what}. It should be {wanted}.")


def check_call(option: str, reference: str, code: Callable[..., Any], arguments: tuple[str, ...]) -> None:
    try:
        signature = inspect.signature(code)
    except ValueError:  # compiled code may not tell
        return
    try:
        signature.bind(*arguments)
    except TypeError as error:
        raise InputError(
            f"{option}={reference} is called with ({', '.join(arguments)}), and its signature is {signature}: {error}."
        ) from error


def send_by_value(code: object) -> None:
    """Send the code's module, and modules beside it, with what refers to them: other processes need no file.

    Modules of installed packages and of Mosaic exist wherever RLlib's processes run.
    """
    name = getattr(code, "__module__", None)
    module = sys.modules.get(str(name))
    file = getattr(module, "__file__", None)
    if file is None or not _is_local(file):
        return
    resolved = cache(os.path.realpath)  # thousands of modules lie in a few hundred folders
    folder = resolved(os.path.dirname(file))
    for each in list(sys.modules.values()):
        beside = getattr(each, "__file__", None)
        if beside is not None and resolved(os.path.dirname(beside)) == folder and _is_local(beside):
            cloudpickle.register_pickle_by_value(each)  # type: ignore[no-untyped-call]


def _is_local(file: str) -> bool:
    place = Path(file).resolve()
    standard, own = Path(inspect.__file__).resolve().parent, Path(__file__).resolve().parents[3]
    installed = bool(set(_FOUND_ANYWHERE) & set(place.parts))
    return not (installed or place.is_relative_to(standard) or place.is_relative_to(own))
