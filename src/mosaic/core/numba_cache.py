"""numba's `njit` and `cfunc` with a cache that notices every change of our compiled code.

numba checks only whether the file that defines a function has changed. Our loops call functions of other files, so
after an upgrade the old machine code would be run silently. The cache folder is therefore named after numba's version
and a hash of all files that use these decorators, or that say with the line USED that machine code holds their
functions, constants or tuple types (a test finds those that do not say so). Within it, a file of ours has the same
place wherever Mosaic is installed: another environment or checkout of the same code compiles nothing again.

Compiled functions keep their own copies of the functions they call. numba would let copies of one function replace each
other within a process, and copies that were optimised for different callers round differently: a process that compiles
would compute other numbers than one that loads the same functions from the cache.

Processes that need the same function at the same time compile it once: the others wait for the first and load it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from threading import Event
from time import monotonic
from typing import Any, TypeAlias

import numba
from llvmlite.binding import Linkage
from numba import types
from numba.core import ccallback, cgutils, codegen, event, sigutils
from numba.core.caching import CompileResultCacheImpl, FunctionCache, UserProvidedCacheLocator
from numba.core.runtime import nrt
from numba.experimental import function_type  # noqa: F401 (registers cfuncs as an argument type with numba's dispatch)
from numba.extending import intrinsic
from platformdirs import user_cache_path

from mosaic.core import inner_code
from mosaic.core.compile_time import timer

Compiled: TypeAlias = Any  # function in machine code: takes every type that numba can compile, not only the annotated
_Untyped: TypeAlias = Any  # object of numba's or LLVM's compiler, neither of which is typed

_numba: _Untyped = numba
_callbacks: _Untyped = ccallback
_generator: _Untyped = cgutils
_signatures: _Untyped = sigutils
_runtime: _Untyped = nrt.rtsys
_events: _Untyped = event


class SourceLocator(UserProvidedCacheLocator):
    """Place of a file's machine code in the cache folder: for our files by their path below `SOURCES`."""

    @classmethod
    def get_suitable_cache_subpath(cls, py_file: str) -> str:
        path = Path(py_file).resolve()
        if path.is_relative_to(SOURCES):
            return "_".join(path.relative_to(SOURCES).parts[:-1])
        elsewhere: str = super().get_suitable_cache_subpath(py_file)  # type: ignore[no-untyped-call]
        return elsewhere


class SourceCacheImpl(CompileResultCacheImpl):
    _locator_classes = [SourceLocator, *CompileResultCacheImpl._locator_classes]  # noqa: RUF012 (as in numba)


class CompileTurn:
    """Lock file of the function that this process compiles, used under numba's compiler lock.

    Only the outermost function has one, never those that it calls: no process waits while another waits for it.
    """

    def __init__(self) -> None:
        self._owner: ReadyCodeCache | None = None
        self._descriptor = -1

    def take(self, cache: ReadyCodeCache) -> bool:
        """Wait until no other process compiles the function; False for a nested one, and where waiting is of no use."""
        if self._owner is not None:
            return False
        try:
            descriptor = os.open(cache.lock_file(), os.O_RDWR | os.O_CREAT)
        except OSError:  # a folder that cannot be written to: no process could load what this one compiles
            return False
        if not self._lock(descriptor, cache.function):
            os.close(descriptor)
            return False
        self._owner, self._descriptor = cache, descriptor
        return True

    def _lock(self, descriptor: int, function: str) -> bool:
        if _try_lock(descriptor):
            return True
        with timer.compiling(function):
            deadline_s, pause = monotonic() + WAIT_FOR_OTHERS_S, Event()
            while monotonic() < deadline_s:
                pause.wait(0.05)
                if _try_lock(descriptor):
                    return True
        return False

    def give_back(self, cache: ReadyCodeCache) -> None:
        if self._owner is cache:
            self._owner = None
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # a process that was forked meanwhile has the file open too
            os.close(self._descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


_turn = CompileTurn()
# Then this process compiles the function too: the other may be suspended, or have far less of the cores.
WAIT_FOR_OTHERS_S = 60.0


class ReadyCodeCache(FunctionCache):
    """Cache that loads compiled functions without loading numba's type registries first.

    numba loads them before it looks into its cache, which takes 0.15 s of a start that compiles nothing. Code that does
    compile loads them by itself.
    """

    _impl_class = SourceCacheImpl

    def load_overload(self, sig: _Untyped, target_context: _Untyped) -> _Untyped:
        _runtime.initialize(target_context)  # the reference counting that compiled code calls
        with self._guard_against_spurious_io_errors():
            cache: _Untyped = self
            found = cache._load_overload(sig, target_context)
            if found is None and _turn.take(self):
                found = cache._load_overload(sig, target_context)  # compiled by another process meanwhile
            return found

    @property
    def function(self) -> str:
        cache: _Untyped = self
        return str(cache._py_func.__name__)

    def lock_file(self) -> Path:
        cache: _Untyped = self
        folder = Path(cache.cache_path)
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{cache._impl.filename_base}.lock"

    @contextmanager
    def compiling_once(self) -> Iterator[None]:
        """Let other processes compile the function from the end of the block on."""
        try:
            yield
        finally:
            _turn.give_back(self)


class InnerCacheImpl(SourceCacheImpl):
    def get_filename_base(self, fullname: str, abiflags: str) -> str:
        return f"inner-{super().get_filename_base(fullname, abiflags)}"  # type: ignore[no-untyped-call]


class InnerCodeCache(ReadyCodeCache):
    """Cache of the forms of functions that only compiled code calls."""

    _impl_class = InnerCacheImpl


class ReadyCFunc(_callbacks.CFunc):  # type: ignore[misc]
    """`cfunc` with such a cache."""

    def compile(self) -> None:
        with inner_code.level(inner=False), self._cache.compiling_once():
            super().compile()

    def _compile_uncached(self) -> _Untyped:
        with timer.compiling(self.__name__):
            return super()._compile_uncached()


def ready_dispatcher(function: Callable[..., object], options: dict[str, object]) -> Compiled:
    """Decorate a function with numba and this cache; compiled code calls a form of it that Python cannot call.

    To be called from Python, a function needs code that turns each of its arguments into machine values: for the tuples
    of arrays that our loops hand on, that is most of the code and of the time to compile it.
    """
    dispatcher = _with_cache(_numba.njit(**options)(function), _cache_of(function))
    if not inner_code.TESTED:
        return dispatcher

    @cache
    def inner() -> Compiled:
        with _own_cache():
            return _with_cache(_numba.njit(**options, **inner_code.OPTIONS)(function), _inner_cache_of(function))

    dispatcher.get_call_template = lambda args, kws: inner().get_call_template(args, kws)
    dispatcher.get_overload = lambda signature: inner().get_overload(signature)
    return dispatcher


def _with_cache(dispatcher: Compiled, own: ReadyCodeCache) -> Compiled:
    dispatcher._cache = own
    compile_or_load, inner = dispatcher.compile, isinstance(own, InnerCodeCache)

    def compile_once(signature: _Untyped) -> _Untyped:
        with inner_code.level(inner=inner), own.compiling_once():
            return compile_or_load(signature)

    dispatcher.compile = compile_once
    return dispatcher


def ready_cfunc(function: Callable[..., object], signature: object, options: dict[str, object]) -> Compiled:
    """Build a `cfunc` with this cache; numba's decorator compiles at once, before the cache can be set."""
    made = ReadyCFunc(function, _signatures.normalize_signature(signature), locals={}, options=options)
    made._cache = _cache_of(function)
    made.compile()
    return made


def _cache_of(function: Callable[..., object]) -> ReadyCodeCache:
    return ReadyCodeCache(function)  # type: ignore[no-untyped-call]


def _inner_cache_of(function: Callable[..., object]) -> InnerCodeCache:
    return InnerCodeCache(function)  # type: ignore[no-untyped-call]


SOURCES = Path(__file__).resolve().parent.parent
USED = "# compiled code uses this file"
_MARKS = b"from mosaic.core.numba_cache import", USED.encode()


def njit(*signature: object, **options: object) -> Callable[[Callable[..., object]], Compiled]:
    """Decorate as `numba.njit` does; a function that calls itself needs its signature, and is compiled at once."""

    def compiled(function: Callable[..., object]) -> Compiled:
        with _own_cache():
            if signature or not options.get("cache"):
                return _numba.njit(*signature, **options)(function)
            return ready_dispatcher(function, _without_cache(options))

    return compiled


def cfunc(signature: object, **options: object) -> Callable[[Callable[..., object]], Compiled]:
    """Compile at once, for one signature: a pointer that compiled code takes as an argument and that is cached."""

    def compiled(function: Callable[..., object]) -> Compiled:
        with _own_cache():
            if not options.get("cache"):
                return _numba.cfunc(signature, **options)(function)
            return ready_cfunc(function, signature, _without_cache(options))

    return compiled


def _without_cache(options: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in options.items() if name != "cache"}


def function_at(signature: _Untyped) -> Compiled:
    """Return a function, for compiled code, that turns the address of a `cfunc` with this signature into a callable."""
    pointer = types.FunctionType(signature)

    @intrinsic
    def function(context: _Untyped, address: _Untyped) -> _Untyped:
        def generate(target: _Untyped, builder: _Untyped, signature: _Untyped, arguments: _Untyped) -> _Untyped:
            made = _generator.create_struct_proxy(pointer)(target, builder)
            made.c_addr = builder.inttoptr(arguments[0], _generator.voidptr_t)
            made.py_addr = made.jit_addr = _generator.get_null_value(_generator.voidptr_t)
            return made._getvalue()

        return pointer(types.intp), generate

    return function


def _memory_at(context: _Untyped, address: _Untyped) -> _Untyped:
    """Turn an address into what `numba.carray` takes, in compiled code. Nothing keeps that memory alive."""

    def generate(target: _Untyped, builder: _Untyped, signature: _Untyped, arguments: _Untyped) -> _Untyped:
        return builder.inttoptr(arguments[0], target.get_value_type(types.voidptr))

    return types.voidptr(types.intp), generate


memory_at: Compiled = intrinsic(_memory_at)
carray: Compiled = _numba.carray  # builds an array over memory, in compiled code


def _keep_copies_private() -> None:
    library: _Untyped = codegen.CPUCodeLibrary
    optimise = library._optimize_final_module

    def optimise_with_private_copies(self: _Untyped) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.linkonce_odr:
                function.linkage = "internal"
        optimise(self)

    library._optimize_final_module = optimise_with_private_copies


_keep_copies_private()


class _CompileListener(event.Listener):
    """Listener for numba's compilation of functions that are not in its cache."""

    def on_start(self, event: _Untyped) -> None:
        timer.begin(event.data["dispatcher"].py_func.__name__)

    def on_end(self, event: _Untyped) -> None:
        timer.end()


_events.register("numba:compile", _CompileListener())


@contextmanager
def _own_cache() -> Iterator[None]:
    earlier = _numba.config.CACHE_DIR
    _numba.config.CACHE_DIR = str(cache_folder())  # read when a function is decorated; others keep their own
    try:
        yield
    finally:
        _numba.config.CACHE_DIR = earlier


@cache
def cache_folder() -> Path:
    return user_cache_path("mosaic") / f"compiled-{fingerprint(SOURCES)}"


def fingerprint(sources: Path) -> str:
    """Hash all compiled code below a folder."""
    digest = hashlib.blake2b(numba.__version__.encode(), digest_size=8)
    for content in compiled_files(sources).values():
        digest.update(content)
    return digest.hexdigest()


def compiled_files(sources: Path) -> dict[Path, bytes]:
    """Return the files below a folder whose content is in machine code."""
    contents = ((path, path.read_bytes()) for path in sorted(sources.rglob("*.py")))
    return {path: content for path, content in contents if any(mark in content for mark in _MARKS)}
