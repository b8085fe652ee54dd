"""How machine code is taken from numba's cache without what only compiling needs.

Before numba looks whether a function lies in its cache, it loads all its knowledge of types and of how each of them is
compiled: 0.15 s of a start that compiles nothing. Whatever does compile asks for that by itself.
"""

from __future__ import annotations

from typing import Any, cast

from numba.core import ccallback, sigutils
from numba.core.caching import FunctionCache
from numba.core.runtime import nrt
from numba.experimental import function_type  # noqa: F401 (tells numba's dispatch what kind of argument a cfunc is)

from mosaic.core.compile_time import timer

_callbacks, _signatures, _runtime = cast(Any, ccallback), cast(Any, sigutils), cast(Any, nrt.rtsys)


class ReadyCodeCache(FunctionCache):
    def load_overload(self, sig: Any, target_context: Any) -> Any:
        _runtime.initialize(target_context)  # what machine code calls to count references to arrays
        with self._guard_against_spurious_io_errors():
            return cast(Any, self)._load_overload(sig, target_context)


_CFunc: Any = _callbacks.CFunc


class ReadyCFunc(_CFunc):  # type: ignore[misc]
    def _compile_uncached(self) -> Any:
        with timer.compiling(self.__name__):
            return super()._compile_uncached()


def ready_dispatcher(dispatcher: Any) -> Any:
    """A function that numba has decorated and is to keep in its cache, before its first call."""
    dispatcher._cache = _cache_of(dispatcher.py_func)
    return dispatcher


def ready_cfunc(function: Any, signature: Any, options: dict[str, Any]) -> Any:
    """What numba's own decorator makes; that one compiles at once and leaves no moment to give it this cache."""
    made = ReadyCFunc(function, _signatures.normalize_signature(signature), locals={}, options=options)
    made._cache = _cache_of(function)
    made.compile()
    return made


def _cache_of(function: Any) -> Any:
    return cast(Any, ReadyCodeCache)(function)
