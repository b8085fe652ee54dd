"""Inner code: functions that only compiled code calls, kept as LLVM bitcode, without machine code of their own.

numba optimises a function together with all that it calls, and then writes machine code for it, at every level of the
calls. A function that Python never calls needs the first alone: its callers link its bitcode.

This changes what numba does inside, so it is done in the tested versions only; others compile as numba does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import numba
from numba.core import codegen, cpu, environment

# compiled code uses this file

_Untyped: TypeAlias = Any  # object of numba's or LLVM's compiler, neither of which is typed

TESTED = numba.__version__.startswith("0.68.")
OPTIONS = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}  # of numba's `njit`: there is no way in from Python
_CALLABLE = "_ZN7cpython", "cfunc."  # starts of the names of functions that Python and C call
_ENVIRONMENT = "_ZN08NumbaEnv"

_library: _Untyped = codegen.JITCodeLibrary
_generator: _Untyped = codegen.JITCPUCodegen
_cpu: _Untyped = cpu
_context: _Untyped = cpu.CPUContext
_lookup: _Untyped = environment.lookup_environment
_inner: ContextVar[bool] = ContextVar("inner", default=False)  # of the function that this thread compiles or loads


@contextmanager
def level(*, inner: bool) -> Iterator[None]:
    """Compile or load an inner function, or one that Python calls, within the block."""
    earlier = _inner.set(inner)
    try:
        yield
    finally:
        _inner.reset(earlier)


def _is_inner(library: _Untyped) -> bool:
    return getattr(library, "_mosaic_inner", False)


def _no_machine_code() -> None:
    finish, serialise = _library._finalize_final_module, _library.serialize_using_object_code
    make_executable, set_env = _context.get_executable, _generator.set_env

    def finish_module(self: _Untyped) -> None:
        if not _inner.get() or any(
            not function.is_declaration and function.name.startswith(_CALLABLE)
            for function in self._final_module.functions
        ):
            finish(self)
            return
        self._finalize_dynamic_globals()
        self._verify_declare_only_symbols()
        self._mosaic_inner = self._finalized = True

    def serialise_bitcode(self: _Untyped) -> _Untyped:
        if _is_inner(self):
            return self.name, "bitcode", self._get_module_for_linking().as_bitcode()
        return serialise(self)

    def executable(self: _Untyped, library: _Untyped, fndesc: _Untyped, env: _Untyped) -> _Untyped:
        if _is_inner(library):  # numba knows functions by such objects; this one is never called
            name, about = fndesc.qualname.split(".")[-1], "inner function"
            return _cpu._dynfunc.make_function(fndesc.lookup_module(), name, about, 0, env, (library,))
        made = make_executable(self, library, fndesc, env)
        for variable in library._final_module.global_variables:  # of inner functions, which have none of their own
            known = variable.name.startswith(_ENVIRONMENT) and _lookup(variable.name)
            if known:
                library.codegen.set_env(variable.name, known)
        return made

    def set_known_env(self: _Untyped, name: str, env: _Untyped) -> None:
        if self._engine.is_symbol_defined(name):
            set_env(self, name, env)

    _library._finalize_final_module, _library.serialize_using_object_code = finish_module, serialise_bitcode
    _context.get_executable, _generator.set_env = executable, set_known_env


if TESTED:
    _no_machine_code()
