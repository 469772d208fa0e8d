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
    "load": """
      %c = "fly.static"() : () -> !fly.int_tuple<"0">
      %v = "fly.memref_load"(%m, %c) : (!fly.memref<f32, "global", "4:1", 16 : i64>,
        !fly.int_tuple<"0">) -> f16""",
    "store": """
      %c = "fly.static"() : () -> !fly.int_tuple<"0">
      "fly.memref_store"(%i, %m, %c) : (i32, !fly.memref<f32, "global", "4:1", 16 : i64>,
        !fly.int_tuple<"0">) -> ()""",
    "vector load": """
      %v = "fly.memref_load_vec"(%m) : (!fly.memref<f32, "global", "4:1", 16 : i64>)
        -> vector<8xf32>""",
    "vector store": """
      %z = arith.constant dense<0.0> : vector<2xf32>
      "fly.memref_store_vec"(%z, %m) : (vector<2xf32>,
        !fly.memref<f32, "global", "4:1", 16 : i64>) -> ()""",
    "pointer store": """
      "fly.ptr_store"(%i, %p) : (i32, !fly.ptr<f32, "global", 4 : i64, "">) -> ()""",
    "ordering": """
      %v = "fly.ptr_load"(%p) {ordering = "release"} : (!fly.ptr<f32, "global", 4 : i64, "">)
        -> f32""",
    "atomic": """
      %v = "fly.atomic_rmw"(%p, %i) {operation = "add", ordering = "monotonic"}
        : (!fly.ptr<f32, "global", 4 : i64, "">, i32) -> i32""",
    "operation": """
      %z = arith.constant 0.0 : f32
      %v = "fly.atomic_rmw"(%p, %z) {operation = "nand", ordering = "monotonic"}
        : (!fly.ptr<f32, "global", 4 : i64, "">, f32) -> f32""",
    "swap": """
      %z = arith.constant 0 : i64
      %v, %ok = "fly.atomic_cas"(%q, %i, %z) {success_ordering = "monotonic",
        failure_ordering = "monotonic", weak = false}
        : (!fly.ptr<i32, "global", 4 : i64, "">, i32, i64) -> (i32, i1)""",
    "fence": """
      "fly.fence"() {ordering = "monotonic"} : () -> ()""",
}

PARAMETERS = """%i: i32, %m: !fly.memref<f32, "global", "4:1", 16 : i64>,
    %p: !fly.ptr<f32, "global", 4 : i64, "">, %q: !fly.ptr<i32, "global", 4 : i64, "">"""


@pytest.mark.parametrize("what", BROKEN)
def test_broken_operations_are_found(what: str) -> None:
    text = f"func.func @f({PARAMETERS}) {{ {BROKEN[what]}\n return }}"
    module = mlir.parse_module(text, mlir.thread_context())
    mlir.verify(module)
    with pytest.raises(CompilerBug, match="after some-pass") as caught:
        verify_module(module, "some-pass")
    assert caught.value.code == "FLY-B314"
