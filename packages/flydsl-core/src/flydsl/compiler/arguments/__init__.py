"""Launcher arguments: from a Python value and an annotation to an `ArgSpec`.

* `dtypes`: element types by the names that array libraries give them.
* `tensors`: tensors of torch, NumPy and everything with an array interface or DLPack.
* `foreign`: reading array interfaces and DLPack capsules.
* `scalars`: numbers and streams.
* `compile_time`: compile-time values.
* `structs`: structs, field by field.
* `wrappers`: `from_dlpack`, `from_torch_tensor`, `from_c_void_p`: arguments with a chosen layout.
* `describe`: the order in which these are tried (the core's answer to ``flydsl_argument``).

To support another kind of value, implement the hook ``flydsl_argument`` in a plugin, or add a
module here and a line in `describe`.
"""

from __future__ import annotations

from flydsl.compiler.arguments.describe import describe
from flydsl.compiler.arguments.wrappers import (
    PointerArgument,
    TensorArgument,
    from_c_void_p,
    from_dlpack,
    from_torch_tensor,
)

__all__ = [
    "PointerArgument",
    "TensorArgument",
    "describe",
    "from_c_void_p",
    "from_dlpack",
    "from_torch_tensor",
]
