"""The target-neutral passes: one file and one function ``run(module, target, **options)`` each.

They turn a traced module (DESIGN §4) into one where functions hold only gpu, arith, scf, math and
vector operations, ``!fly.ptr`` values and atom calls on vectors. The files beside the passes hold
what they share: `rewriting`, `ssa` (leaves that emit arithmetic), `pointers`, `lowering_memory`,
`lowering_atoms`, `promoted_access`, `host_launch`.

To add a pass: write ``flydsl/passes/<name>.py``, add a line to `PASSES`, and a FileCheck test of
the same name in ``tests/ir/passes``.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

__all__ = ["PASSES"]

PASSES: Mapping[str, str] = MappingProxyType(
    {
        "fly-rewrite-func-signature": "flydsl.passes.rewrite_func_signature:run",
        "fly-canonicalize": "flydsl.passes.canonicalize:run",
        "fly-layout-lowering": "flydsl.passes.layout_lowering:run",
        "fly-int-swizzle-simplify": "flydsl.passes.int_swizzle_simplify:run",
        "fly-convert-atom-call-to-ssa-form": "flydsl.passes.convert_atom_call_to_ssa_form:run",
        "fly-promote-regmem-to-vectorssa": "flydsl.passes.promote_regmem_to_vectorssa:run",
        "fly-mark-stores": "flydsl.passes.mark_stores:run",
        "fly-host-lowering": "flydsl.passes.host_lowering:run",
    }
)
"""Pass name -> ``"module:function"``, in pipeline order."""
