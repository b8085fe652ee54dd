"""The processor's cycle counter for compiled loops: where the time goes, at the price of a few nanoseconds."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@intrinsic
def _cycles(typingctx: Any) -> Any:
    """LLVM's readcyclecounter as int64; only differences and their ratios mean anything."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        counter = builder.module.declare_intrinsic("llvm.readcyclecounter", (), ir.FunctionType(word, ()))
        return builder.call(counter, ())

    return types.int64(), codegen


cycles: Any = _cycles
