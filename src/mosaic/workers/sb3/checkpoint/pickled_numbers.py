"""Numbers in a pickle, read without unpickling: opcodes are followed, and nothing that they name is imported or called.

A pickle is a program. This reader keeps what the program would build as plain records (`Made`), so that a forged file
can at most be refused.
"""

from __future__ import annotations

import pickletools
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST = 1 << 26  # bytes of a file
_MOST = 100_000  # opcodes
_ARRAYS = ("numpy.core.multiarray", "numpy._core.multiarray")
_BUFFERS = ("numpy.core.numeric", "numpy._core.numeric")
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_LITERALS = frozenset(
    [
        "INT",
        "BININT",
        "BININT1",
        "BININT2",
        "LONG",
        "LONG1",
        "LONG4",
        "FLOAT",
        "BINFLOAT",
        "STRING",
        "BINSTRING",
        "SHORT_BINSTRING",
        "UNICODE",
        "BINUNICODE",
        "SHORT_BINUNICODE",
        "BINUNICODE8",
        "BINBYTES",
        "SHORT_BINBYTES",
        "BINBYTES8",
        "BYTEARRAY8",
    ]
)
_TUPLES = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MARK = object()


class UnreadablePickleError(ValueError):
    """Pickle that holds more than numbers in known places, or is damaged."""


@dataclass(eq=False, slots=True)
class GlobalName:
    """Class or function that a pickle names."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(eq=False, slots=True)
class Made:
    """Object that a pickle would make by calling what it names."""

    maker: GlobalName
    arguments: tuple[Any, ...]
    state: Any = None
    entries: dict[Any, Any] = field(default_factory=dict)


def read_pickle(data: bytes, allowed: tuple[str, ...]) -> Any:
    """Return what a pickle would build, as records; raise if it names anything that is not allowed.

    `allowed` are full names, and packages with a dot behind them.
    """
    if len(data) > LARGEST:
        raise UnreadablePickleError(f"it has more than {LARGEST:,} bytes")
    reader = _Reader(allowed)
    try:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if number == _MOST:
                raise UnreadablePickleError(f"it has more than {_MOST:,} steps")
            reader.step(opcode.name, argument)
        return reader.result()
    except UnreadablePickleError:
        raise
    except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise UnreadablePickleError(f"it is damaged: {str(error)[:200] or type(error).__name__}") from error


class _Reader:
    """The stack of a pickle's program."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._allowed = allowed
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def result(self) -> Any:
        (found,) = self._stack
        return found

    def step(self, name: str, argument: Any) -> None:
        stack = self._stack
        match name:
            case "PROTO" | "FRAME" | "STOP":
                pass
            case "NONE" | "NEWTRUE" | "NEWFALSE":
                stack.append(_CONSTANTS[name])
            case _ if name in _LITERALS:
                stack.append(argument)
            case "EMPTY_DICT" | "EMPTY_LIST" | "EMPTY_TUPLE":
                stack.append({"EMPTY_DICT": dict, "EMPTY_LIST": list, "EMPTY_TUPLE": tuple}[name]())
            case "MARK":
                stack.append(_MARK)
            case "TUPLE":
                stack.append(tuple(self._marked()))
            case "TUPLE1" | "TUPLE2" | "TUPLE3":
                stack.append(tuple(self._pop(_TUPLES[name])))
            case "APPEND" | "APPENDS":
                values = self._marked() if name == "APPENDS" else self._pop(1)
                self._expect(list).extend(values)
            case "SETITEM" | "SETITEMS":
                self._set(self._marked() if name == "SETITEMS" else self._pop(2))
            case "MEMOIZE" | "PUT" | "BINPUT" | "LONG_BINPUT":
                self._memo[len(self._memo) if name == "MEMOIZE" else argument] = stack[-1]
            case "GET" | "BINGET" | "LONG_BINGET":
                stack.append(self._memo[argument])
            case "GLOBAL":
                stack.append(self._named(*argument.split(" ", 1)))
            case "STACK_GLOBAL":
                stack.append(self._named(*self._pop(2)))
            case "REDUCE" | "NEWOBJ":
                self._make()
            case "BUILD":
                (state,) = self._pop(1)
                made = self._expect(Made)
                if made.state is not None:
                    raise UnreadablePickleError("it sets an object twice")
                made.state = state
            case _:
                raise UnreadablePickleError(f"its step {name} belongs to no array of numbers")

    def _pop(self, count: int) -> list[Any]:
        if len(self._stack) < count or any(each is _MARK for each in self._stack[-count:]):
            raise UnreadablePickleError("it is damaged: a step finds too few values")
        found = self._stack[-count:]
        del self._stack[-count:]
        return found

    def _marked(self) -> list[Any]:
        place = next((at for at in range(len(self._stack) - 1, -1, -1) if self._stack[at] is _MARK), None)
        if place is None:
            raise UnreadablePickleError("it is damaged: a step finds no mark")
        found = self._stack[place + 1 :]
        del self._stack[place:]
        return found

    def _expect(self, kind: type) -> Any:
        if not self._stack or not isinstance(self._stack[-1], kind):
            raise UnreadablePickleError("it is damaged: a step finds a value of another kind")
        return self._stack[-1]

    def _set(self, flat: list[Any]) -> None:
        target = self._expect(object)
        entries = target.entries if isinstance(target, Made) else target
        if not isinstance(entries, dict) or len(flat) % 2:
            raise UnreadablePickleError("it is damaged: a step finds no dict")
        for key, value in zip(flat[::2], flat[1::2], strict=True):
            if not isinstance(key, str | int):
                raise UnreadablePickleError("a key is neither a text nor a number")
            entries[key] = value

    def _named(self, module: Any, name: Any) -> GlobalName:
        known = isinstance(module, str) and isinstance(name, str)
        below = tuple(each for each in self._allowed if each.endswith("."))
        if not known or not (f"{module}.{name}" in self._allowed or f"{module}.".startswith(below)):
            raise UnreadablePickleError(
                f"it names {str(module)[:80]}.{str(name)[:80]}, which is not an array of numbers"
            )
        return GlobalName(module, name)

    def _make(self) -> None:
        maker, arguments = self._pop(2)
        if not isinstance(maker, GlobalName) or not isinstance(arguments, tuple):
            raise UnreadablePickleError("it calls what it does not name")
        self._stack.append(Made(maker, arguments))


def array_of(made: Any, most: int) -> NDArray[np.float64]:
    """Return an array of at most `most` numbers from its record, or a single number as one of no dimensions."""
    if isinstance(made, bool | int | float):
        return np.full((), made, np.float64)
    if not isinstance(made, Made):
        raise UnreadablePickleError("an array of numbers is missing")
    match made.maker.module, made.maker.name, made.arguments, made.state:
        case module, "scalar", (kind, bytes() as data), None if module in _ARRAYS:
            return _decoded(data, kind, (), "C", most)
        case module, "_reconstruct", _, (_, tuple() as shape, kind, bool() as fortran, bytes() as data) if (
            module in _ARRAYS
        ):
            return _decoded(data, kind, shape, "F" if fortran else "C", most)
        case module, "_frombuffer", (bytes() | bytearray() as data, kind, tuple() as shape, str() as order), None if (
            module in _BUFFERS
        ):
            return _decoded(bytes(data), kind, shape, order, most)
    raise UnreadablePickleError(f"{made.maker} is not an array of numbers")


def _decoded(data: bytes, kind: Any, shape: tuple[Any, ...], order: str, most: int) -> NDArray[np.float64]:
    dtype = _dtype(kind)
    if not all(isinstance(size, int) and 0 <= size <= most for size in shape):
        raise UnreadablePickleError(f"an array has the shape {str(shape)[:80]}")
    count = int(np.prod(shape, dtype=np.float64)) if shape else 1
    if count > most or count * dtype.itemsize != len(data):
        raise UnreadablePickleError(f"an array of shape {shape} has {len(data):,} bytes")
    return np.frombuffer(data, dtype).reshape(shape, order="F" if order == "F" else "C").astype(np.float64)


def _dtype(made: Any) -> np.dtype[Any]:
    if not isinstance(made, Made) or str(made.maker) != "numpy.dtype" or not made.arguments:
        raise UnreadablePickleError("an array has no kind of numbers")
    name, state = made.arguments[0], made.state
    if name not in ("f4", "f8", "i4", "i8", "u1") or not isinstance(state, tuple) or len(state) < 2:
        raise UnreadablePickleError(f"an array is of the kind {str(name)[:20]!r}")
    return np.dtype(f"{'>' if state[1] == '>' else '<'}{name}")


def fields_of(made: Any, maker: str) -> Mapping[str, Any]:
    """Return the attributes of an object of a class."""
    if not isinstance(made, Made) or str(made.maker) != maker or not isinstance(made.state, dict):
        raise UnreadablePickleError(f"it is not a {maker.rpartition('.')[2]}")
    return made.state
