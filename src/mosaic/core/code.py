"""Loading of user code named as `python:module:name`, and where that is refused."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from mosaic.core.errors import InputError, TrustError, unknown

PREFIX = "python:"
REFUSED = "MOSAIC_CODE_REFUSED"  # environment variable: why this process and those it starts load no code
_refused: ContextVar[str] = ContextVar("code_refused", default="")


@contextmanager
def code_refused(why: str) -> Iterator[None]:
    """Refuse to load code within the block: what names it there was written by a stranger."""
    token = _refused.set(why)
    try:
        yield
    finally:
        _refused.reset(token)


def load_code(reference: str) -> Any:
    """The object that `python:module:name` names. Modules are looked for in the working folder too."""
    why = _refused.get() or os.environ.get(REFUSED)
    if why:
        raise TrustError(f"'{reference}' is not loaded: {why}")
    if not reference.startswith(PREFIX):
        raise InputError(f"'{reference}' is not {PREFIX}MODULE:NAME. Type: {PREFIX}{reference}")
    module_name, _, attribute = reference.removeprefix(PREFIX).partition(":")
    if not module_name or not attribute:
        raise InputError(f"'{reference}' is not python:MODULE:NAME, for example python:my_policies:greedy.")
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        value: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise InputError(f"'{reference}': {module_name} needs the module '{error.name}': {error}.") from error
        raise InputError(
            f"'{reference}': there is no module '{error.name}'. "
            f"Looked in {folder} and in the installed packages; a file my.py is named python:my:NAME."
        ) from error
    except (Exception, SystemExit) as error:
        raise InputError(f"'{reference}': importing {module_name} failed: {type(error).__name__}: {error}") from error
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise unknown(f"name in {module_name}", part, (n for n in dir(value) if not n.startswith("_")))
        value = getattr(value, part)
    return value
