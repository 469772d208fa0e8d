"""``flyc``: decorators, compilation and launch of kernels.

* `driver`: what a call of a launcher does; `compiled`: `compile` and `CompiledFunction`.
* `arguments`: how Python values become launcher arguments.
* `compilation`, `lowering`: one compile from trace to code; `timing` and `dumps` record it.
* `artifact`, `cache`, `persistence`: what a compile produces and where it is kept.
* `dispatch`, `direct`, `loading`: the launch path; `quickstart`: the first call of a process.
* `aot`: compiled launchers as files and as C.
* `builtin`: hook implementations.

A stage of the compiler is a pass (`flydsl.passes`) or belongs to a target's pipeline, not here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flydsl.caching import look_at_compiler as _look_at_compiler
from flydsl.compiler.driver import Driver as _Driver
from flydsl.deferred import imported_from
from flydsl.frontend import jit, kernel, set_driver

if TYPE_CHECKING:
    from flydsl.compiler.aot import load
    from flydsl.compiler.arguments import from_c_void_p, from_dlpack, from_torch_tensor
    from flydsl.compiler.compiled import CompiledFunction, compile  # noqa: A004 - the public name

__all__ = [
    "CompiledFunction",
    "compile",
    "from_c_void_p",
    "from_dlpack",
    "from_torch_tensor",
    "jit",
    "kernel",
    "load",
]

_LAZY = {
    "CompiledFunction": "flydsl.compiler.compiled",
    "compile": "flydsl.compiler.compiled",
    "from_c_void_p": "flydsl.compiler.arguments",
    "from_dlpack": "flydsl.compiler.arguments",
    "from_torch_tensor": "flydsl.compiler.arguments",
    "load": "flydsl.compiler.aot",
}

set_driver(_Driver())
_look_at_compiler()

# Import what a program that only launches does not need.
__getattr__ = imported_from(globals(), _LAZY)
