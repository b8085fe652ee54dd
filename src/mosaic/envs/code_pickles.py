"""Pickles of classes, functions and objects of a script or notebook, and digests of them that repeat.

cloudpickle gives each class a random id and keeps a table of them. Where such a pickle is loaded in the process that
wrote it, the table leads to the user's own class, and its methods are overwritten with copies whose globals are those
of the pickle: later cells of a notebook would silently run old code. A random id also makes every pickle of one class
a different one. The pickles of this file have no such ids: loading one makes new classes, and never touches others.
"""

from __future__ import annotations

from hashlib import blake2b
from io import BytesIO
from types import CodeType
from typing import Any, TypeVar

import cloudpickle  # type: ignore[import-untyped]

_PLAIN = (bool, bytes, float, int, str, type(None))
_CLASS_PARTS = 6  # a class that is pickled by value has: constructor, arguments, state, two of None, state setter
_TYPE_VAR_ARGUMENTS = 6  # name, bound, constraints, covariant, contravariant, id


def dumps(given: object) -> bytes:
    """Pickle an object with the code that it needs and no module has."""
    return _written(_Untracked, given)


def digest_of(given: object) -> str:
    """Return a digest that is the same in every process as long as nothing that is pickled changes.

    The order of sets, which differs between processes, and the file names of notebook cells do not count.
    """
    return blake2b(_written(_Repeatable, given), digest_size=8).hexdigest()


def _written(pickler: type[_Untracked], given: object) -> bytes:
    buffer = BytesIO()
    pickler(buffer).dump(given)
    return buffer.getvalue()


def _type_var(variable: TypeVar) -> tuple[Any, ...]:
    """Reduce a type variable as cloudpickle does, without its id; one of a module is imported from there."""
    make, arguments = cloudpickle.Pickler.dispatch_table[TypeVar](variable)
    if len(arguments) < _TYPE_VAR_ARGUMENTS:
        return make, arguments
    _check_id(arguments[-1])
    return make, (*arguments[:-1], None)  # without an id nothing is looked up


class _Untracked(cloudpickle.Pickler):  # type: ignore[misc]
    """A pickler of cloudpickle that writes classes and type variables without ids."""

    dispatch_table = cloudpickle.Pickler.dispatch_table.new_child({TypeVar: _type_var})

    def reducer_override(self, given: object) -> Any:
        reduced = super().reducer_override(given)
        if not isinstance(given, type) or not isinstance(reduced, tuple) or len(reduced) < _CLASS_PARTS:
            return reduced  # a function, an object, or a class that is imported
        make, (*arguments, tracked, extra), *state = reduced
        _check_id(tracked)
        return make, (*arguments, None, extra), *state


class _Repeatable(_Untracked):
    """A pickler whose output is compared, never loaded."""

    dispatch_table = _Untracked.dispatch_table.new_child(
        {CodeType: lambda code: cloudpickle.Pickler.dispatch_table[CodeType](code.replace(co_filename=""))}
    )

    def persistent_id(self, given: object) -> Any:
        """Return the sorted contents of a set of plain values, and None for everything else."""
        if type(given) in (set, frozenset) and all(type(each) in _PLAIN for each in given):  # type: ignore[attr-defined]
            return type(given).__name__, sorted(map(repr, given))  # type: ignore[call-overload]
        return None


def _check_id(tracked: object) -> None:
    """Raise where a release of cloudpickle has no id in the place in which it is replaced."""
    if not isinstance(tracked, str):
        raise TypeError(
            f"cloudpickle {cloudpickle.__version__} writes classes in a form that this Mosaic does not know; "
            "install the release that is in constraints.txt"
        )
