"""Device functions compiled for the host."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from flydsl_rocdl.devlib import FUNCTIONS, definition


@functools.cache
def host_function(name: str) -> Callable[..., Any]:
    """Return the function on arrays of its type."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    text, declarations = definition(name)
    arity = FUNCTIONS[name].arity
    number = FUNCTIONS[name].kind
    loads = "\n".join(
        f"  %g{i} = getelementptr {number}, ptr %p{i}, i64 %i\n  %x{i} = load {number}, ptr %g{i}"
        for i in range(arity)
    )
    pointers = ", ".join(f"ptr %p{i}" for i in range(arity))
    arguments = ", ".join(f"{number} %x{i}" for i in range(arity))
    source = (
        "\n".join(declarations)
        + f"""
{text}
define void @loop({pointers}, ptr %o, i64 %n) {{
entry:
  br label %next
next:
  %i = phi i64 [ 0, %entry ], [ %j, %next ]
{loads}
  %r = call {number} @__fly_{name}({arguments})
  %g = getelementptr {number}, ptr %o, i64 %i
  store {number} %r, ptr %g
  %j = add i64 %i, 1
  %c = icmp eq i64 %j, %n
  br i1 %c, label %done, label %next
done:
  ret void
}}
"""
    )
    module = llvm.parse_assembly(source)
    module.verify()
    machine = llvm.Target.from_default_triple().create_target_machine(opt=1)
    engine = llvm.create_mcjit_compiler(module, machine)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (arity + 1), ctypes.c_int64)
    function = kind(engine.get_function_address("loop"))

    def call(*inputs: Any) -> Any:
        assert engine is not None  # owns the code
        out = np.empty_like(inputs[0])
        function(*(x.ctypes.data for x in inputs), out.ctypes.data, len(out))
        return out

    return call
