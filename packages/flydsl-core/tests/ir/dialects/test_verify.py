"""The verifier notices what IRDL cannot."""

from __future__ import annotations

import pytest

from flydsl import mlir
from flydsl.dialects.verify import verify_module
from flydsl.errors import CompilerBug

BROKEN = {
    "wrong result": """
      %l = "fly.static"() : () -> !fly.layout<"16:1">
      %t = "fly.static"() : () -> !fly.layout<"4:1">
      %d = "fly.logical_divide"(%l, %t) : (!fly.layout<"16:1">, !fly.layout<"4:1">)
        -> !fly.layout<"(4,8):(1,4)">""",
    "missing leaf": """
      %t = "fly.make_int_tuple"(%i) {operandSegmentSizes = array<i32: 1, 0>}
        : (i32) -> !fly.int_tuple<"(?,?)">""",
    "wrong width": """
      %t = "fly.make_int_tuple"(%i) {operandSegmentSizes = array<i32: 1, 0>}
        : (i32) -> !fly.int_tuple<"?{i64}">""",
    "profile": """
      %s = "fly.static"() : () -> !fly.int_tuple<"(4,8)">
      %d = "fly.static"() : () -> !fly.int_tuple<"1">
      %l = "fly.make_layout"(%s, %d) : (!fly.int_tuple<"(4,8)">, !fly.int_tuple<"1">)
        -> !fly.layout<"(4,8):(1,1)">""",
    "type": """
      %l = "fly.static"() : () -> !fly.layout<"16">""",
    "copy": """
      %a = "fly.make_copy_atom"() : () -> !fly.copy_atom<"universal_copy<128>", 32 : i64>
      %r = "fly.memref_alloca"() : () -> !fly.memref<f32, "register", "2:1", 4 : i64>
      "fly.copy_atom_call"(%a, %r, %r) : (!fly.copy_atom<"universal_copy<128>", 32 : i64>,
        !fly.memref<f32, "register", "2:1", 4 : i64>,
        !fly.memref<f32, "register", "2:1", 4 : i64>) -> ()""",
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_operations_are_found(what: str) -> None:
    text = f"func.func @f(%i: i32) {{ {BROKEN[what]}\n return }}"
    module = mlir.parse_module(text, mlir.thread_context())
    mlir.verify(module)
    with pytest.raises(CompilerBug, match="after some-pass") as caught:
        verify_module(module, "some-pass")
    assert caught.value.code == "FLY-B314"
