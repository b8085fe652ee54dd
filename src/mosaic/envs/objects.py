"""Environments given as Python objects: Gymnasium and PettingZoo envs, classes, factories and registered ids."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, cast

from mosaic.config.programs import absolute_environment
from mosaic.config.sections import EnvironmentConfig, split_id
from mosaic.core.errors import InputError
from mosaic.core.ids import EnvID
from mosaic.core.plugins import plugins
from mosaic.core.user_code import PREFIX
from mosaic.envs.env import Env, EnvFacts, EnvSpec

if TYPE_CHECKING:
    from gymnasium.envs.registration import EnvSpec as GymnasiumSpec

Environment: TypeAlias = object
"""An id, a configuration, an Env, an env of Gymnasium or PettingZoo, or a class or function that makes one."""

_STUB = """\"\"\"Code of a script or notebook, kept for the processes that need it.\"\"\"
from pathlib import Path

import cloudpickle

{name} = cloudpickle.loads(Path(__file__).with_name("env.pickle").read_bytes())
"""


def is_described(env: Environment) -> TypeGuard[EnvID | EnvironmentConfig]:
    """Return whether the env is given by a name or a configuration, not as an object."""
    return isinstance(env, str | EnvironmentConfig)


def registered_environment(env: EnvID | EnvironmentConfig) -> EnvironmentConfig:
    """Return the configuration of a named env; an id that Gymnasium has registered needs no family.

    A file of code is named by its absolute path from here on.
    """
    if isinstance(env, EnvironmentConfig):
        return absolute_environment(env) if env.family in ("python", "godot") else env
    family, _ = split_id(env)
    if family not in ("python", *plugins("mosaic.envs")):
        import gymnasium

        if env in gymnasium.registry:
            return EnvironmentConfig(family="gym", env_id=env)
    return absolute_environment(EnvironmentConfig(env_id=env))


def env_from_object(given: object, options: dict[str, object]) -> Env:
    """Make an Env, in this process, of an env object or of a class or function that makes one."""
    from mosaic.envs.adapters.user import adapt, check_options, drawing_options

    facts = EnvFacts(EnvironmentConfig(family="python", env_id=_name_of(given), options=options))
    if isinstance(getattr(given, "spec", None), EnvSpec) and not isinstance(given, type):
        return cast(Env, given)
    if not callable(given):
        if options:
            raise InputError(f"Options {options} are for making an env, and {type(given).__name__} is one already.")
        return adapt(given, facts)
    drawing = drawing_options(given, options)
    check_options(given, _name_of(given), {**options, **drawing}, options)
    return adapt(given(**options, **drawing), facts)


def stored_environment(env: Environment, home: Path, options: dict[str, object] | None = None) -> EnvironmentConfig:
    """Return a configuration from which other processes can make the env, storing its code in `home` if needed.

    A registered env is named by its id, a class or function of a module by its module. Anything that a script or
    notebook defines, and any other object, is pickled by value.
    """
    options = dict(options or {})
    if is_described(env):
        config = registered_environment(env)
        return config.model_copy(update={"options": {**config.options, **options}}) if options else config
    spec = getattr(env, "spec", None)
    if isinstance(spec, EnvSpec) and not isinstance(env, type):
        return spec.facts.config
    if spec is not None and _is_plain_gymnasium(env, spec):
        return EnvironmentConfig(family="gym", env_id=spec.id, options={**_kwargs(spec), **options})
    advice = "Give the class, or a function that makes the env, instead of the object."
    return EnvironmentConfig(env_id=stored_code(env, home, advice), options=options)


def stored_code(given: object, home: Path, advice: str) -> str:
    """Return the reference by which other processes load an object, storing it in `home` if no module has it.

    `advice` is what the error says for an object that cannot be pickled.
    """
    return _module_reference(given) or _keep(given, home, advice)


def _is_plain_gymnasium(env: object, spec: GymnasiumSpec) -> bool:
    """Return whether `gymnasium.make` with this spec makes the same env: no wrapper was added since."""
    import gymnasium

    return (
        isinstance(env, gymnasium.Env)
        and spec.id in gymnasium.registry
        and not spec.additional_wrappers
        and isinstance(gymnasium.registry[spec.id].entry_point, str)
    )


def _kwargs(spec: GymnasiumSpec) -> dict[str, object]:
    return {key: value for key, value in spec.kwargs.items() if key != "render_mode"}


def _module_reference(given: object) -> str | None:
    """Return how other processes import a class or function; None if only this one can."""
    module, name = getattr(given, "__module__", ""), getattr(given, "__qualname__", "")
    found: object = sys.modules.get(module)
    if not name or "<" in name or module == "__main__" or getattr(found, "__file__", None) is None:
        return None
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{PREFIX}{module}:{name}" if found is given else None


def _keep(given: object, home: Path, advice: str) -> str:
    """Write the object below the store, once for each content, and return the reference that loads it."""
    import cloudpickle  # type: ignore[import-untyped]

    from mosaic.envs.code_pickles import digest_of, dumps

    name = _name_of(given).rpartition(":")[2].rpartition(".")[2]
    name = name if name.isidentifier() else "make"
    module = sys.modules.get(getattr(given, "__module__", ""))
    if module is not None and module.__name__ != "__main__" and getattr(module, "__file__", None) is None:
        cloudpickle.register_pickle_by_value(module)  # made by a program: no other process can import it
    try:
        made = given if callable(given) else _Copies(given)
        written, digest = dumps(made), digest_of(made)
    except Exception as error:
        raise InputError(
            f"This {type(given).__name__} cannot be sent to other processes: {type(error).__name__}: {error}. {advice}"
        ) from error
    folder = home / "code" / digest
    file = folder / f"{name}.py"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        (folder / "env.pickle").write_bytes(written)
        file.write_text(_STUB.format(name=name))
    return f"{PREFIX}{file}:{name}"


class _Copies:
    """A factory of copies of one env object: each process unpickles its own."""

    def __init__(self, env: object) -> None:
        self._env = env

    def __call__(self) -> object:
        from copy import deepcopy

        return deepcopy(self._env)


def _name_of(given: object) -> str:
    if hasattr(given, "__qualname__"):
        return f"{given.__module__}:{given.__qualname__}"
    return f"{type(given).__module__}:{type(given).__qualname__}"
