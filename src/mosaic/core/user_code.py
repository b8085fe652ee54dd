"""User code: its loader, by names such as `python:module:name` and `python:path/file.py:name`, and a guard on exits.

A policy or an env must not end its host process: within the guard, exits are errors.
"""

from __future__ import annotations

import errno
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from mosaic.core.errors import InputError, MosaicError, TrustError, unknown

PREFIX = "python:"
REFUSED = "MOSAIC_CODE_REFUSED"  # environment variable: why this process and its children do not load code
FOLDERS = "MOSAIC_CODE_FOLDERS"  # environment variable: further module folders, for child processes
_refused: ContextVar[str] = ContextVar("code_refused", default="")
_imported: ContextVar[str] = ContextVar("code_imported", default="")  # the module or file that is imported now


@contextmanager
def code_refused(why: str) -> Iterator[None]:
    """Refuse to load code within the block, where references come from an untrusted source."""
    token = _refused.set(why)
    try:
        yield
    finally:
        _refused.reset(token)


def check_code_allowed(what: str) -> None:
    """Raise TrustError where code is refused; call it before loading `what`, which is code or may run some."""
    why = _refused.get() or os.environ.get(REFUSED)
    if why:
        raise TrustError(f"'{what}' is not loaded: {why}")


def check_not_imported(what: str) -> None:
    """Raise InputError where imported code starts `what`; its processes would import that code and start more."""
    if source := _imported.get():
        raise InputError(
            f"{source} starts {what} while it is imported. Put the call below `if __name__ == '__main__':`, or into a "
            "file of its own."
        )


def load_code(reference: str) -> Any:
    """Return the object that `python:module:name` or `python:path/file.py:name` names.

    Modules are searched for in the working directory, in the installed packages and in the folders of
    `add_code_folder`.
    """
    check_code_allowed(reference)
    if not reference.startswith(PREFIX):
        raise InputError(f"'{reference}' is not {PREFIX}MODULE:NAME. Type: {PREFIX}{reference}")
    source, attribute = _split(reference)
    if not source or not attribute:
        raise InputError(
            f"'{reference}' is not python:MODULE:NAME or python:FILE.py:NAME, for example python:my_policies:greedy."
        )
    folders = [os.getcwd(), *_code_folders()]
    sys.path[:0] = [folder for folder in folders[:1] if folder not in sys.path]
    sys.path += [folder for folder in folders[1:] if folder not in sys.path]
    token = _imported.set(source)
    try:
        value: object = _load_file(Path(source)) if source.endswith(".py") else importlib.import_module(source)
    except InputError as error:
        raise InputError(f"'{reference}': {error}") from error
    except FileNotFoundError as error:
        if error.filename != source:
            raise _failed(reference, source, error) from error
        raise InputError(
            f"'{reference}': there is no file '{source}' (looked in {folders[0]}). Give its path relative to "
            "that folder, or an absolute path."
        ) from error
    except ModuleNotFoundError as error:
        if error.name is None or not f"{source}.".startswith(f"{error.name}."):
            raise InputError(f"'{reference}': {source} needs the module '{error.name}': {error}.") from error
        raise InputError(
            f"'{reference}': there is no module '{error.name}'. "
            f"Looked in {', '.join(folders)} and in the installed packages; a file my.py is named python:my:NAME, one "
            "elsewhere python:PATH/my.py:NAME."
        ) from error
    except (Exception, SystemExit) as error:
        raise _failed(reference, source, error) from error
    finally:
        _imported.reset(token)
    for part in attribute.split("."):
        if not hasattr(value, part):
            raise unknown(f"name in {source}", part, (n for n in dir(value) if not n.startswith("_")))
        value = getattr(value, part)
    return value


def absolute_code(reference: str) -> str:
    """Return the reference with an absolute path to the file it names, for use from any working directory."""
    source, attribute = _split(reference) if reference.startswith(PREFIX) else ("", "")
    if not source.endswith(".py") or not attribute:
        return reference
    return f"{PREFIX}{os.path.abspath(os.path.expanduser(source))}:{attribute}"


def add_code_folder(folder: str) -> None:
    """Search for modules in this folder too, after all others; also in child processes."""
    if folder and folder not in _code_folders():
        os.environ[FOLDERS] = os.pathsep.join([*_code_folders(), folder])


def _code_folders() -> list[str]:
    return list(filter(None, os.environ.get(FOLDERS, "").split(os.pathsep)))


def _split(reference: str) -> tuple[str, str]:
    """Return the module or file, and the name in it."""
    text = reference.removeprefix(PREFIX)
    file, dot_py, name = text.partition(".py:")
    if dot_py:
        return f"{file}.py", name
    module, _, name = text.partition(":")
    return module, name


def _load_file(path: Path) -> ModuleType:
    """Import a file under a unique name, once per content: its stem may be the name of another module."""
    whole = path.expanduser().absolute()
    try:
        facts = whole.stat()
    except OSError as error:
        raise FileNotFoundError(errno.ENOENT, "no such file", str(path)) from error
    digest = blake2b(f"{whole} {facts.st_mtime_ns} {facts.st_size}".encode(), digest_size=6).hexdigest()
    name = f"mosaic_file_{whole.stem}_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    if str(whole.parent) not in sys.path:
        sys.path.append(str(whole.parent))  # for modules beside it
    spec = importlib.util.spec_from_file_location(name, whole)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _failed(reference: str, source: str, error: BaseException) -> InputError:
    return InputError(f"'{reference}': importing {source} failed: {type(error).__name__}: {error}")


class ProcessExitError(MosaicError):
    """Attempt of foreign code to end the process."""


_lock = threading.Lock()
_blocks = 0  # open blocks in all threads
_mine = threading.local()  # `blocks`: open blocks of this thread
_exit = os._exit


@contextmanager
def exits_refused(who: str = "Foreign code") -> Iterator[None]:
    """Raise ProcessExitError where code in the block calls `sys.exit()` or `os._exit()`.

    `who` is named where the exit was not caught earlier. Other threads, such as the one that ends a process with its
    parent, and forked children are not affected: they must be able to exit.
    """
    global _blocks
    _mine.blocks = getattr(_mine, "blocks", 0) + 1
    with _lock:
        _blocks += 1
        if _blocks == 1:
            owner = os.getpid()
            os._exit = lambda status: _refuse(status, owner)
    try:
        yield
    except SystemExit as error:
        raise ProcessExitError(f"{who} {describe_exit(error)}.") from error
    finally:
        _mine.blocks -= 1
        with _lock:
            _blocks -= 1
            if _blocks == 0:
                os._exit = _exit


def describe_exit(error: SystemExit) -> str:
    return f"tried to end the process with sys.exit({'' if error.code is None else repr(error.code)})"


def _refuse(status: int, owner: int) -> NoReturn:
    if os.getpid() != owner or not getattr(_mine, "blocks", 0):
        _exit(status)
    raise ProcessExitError(f"Tried to end the process with os._exit({status}).")
