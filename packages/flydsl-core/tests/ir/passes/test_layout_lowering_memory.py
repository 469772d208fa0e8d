"""Views, copies and gemms after `fly-layout-lowering`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flydsl import layout as fl
from flydsl.dialects import atoms, fly
from flydsl.dialects import fly_types as ft
from flydsl.errors import UserError

LOWERING = "fly-layout-lowering"
L = fl.Layout


def memref(element: str, layout: str, alignment: int = 16, space: str = "global") -> str:
    return f'!fly.memref<{element}, "{space}", "{layout}", {alignment} : i64>'


def register(element: str, layout: fl.Layout, alignment: int = 4) -> Any:
    return fly.memref_alloca(ft.MemRefType(element, "register", layout, alignment))


def test_element_access_moves_the_pointer_once(lower: Any, filecheck: Any) -> None:
    def build(a: Any, i: Any, j: Any) -> None:
        value = fly.memref_load(a, (i, j))
        fly.memref_store(value, a, (j, 3))

    text = lower([memref("f32", "(8,4):(4,1)"), "i32", "i32"], build, LOWERING)
    filecheck(
        text,
        """
        // CHECK: gpu.func @f(%[[P:.*]]: !fly.ptr<{{.*}}>, %[[I:.*]]: i32, %[[J:.*]]: i32)
        // CHECK: %[[R:.*]] = arith.muli %[[I]], %c4_i32 overflow<nsw>
        // CHECK: %[[S:.*]] = arith.addi %[[R]], %[[J]] overflow<nsw>
        // CHECK: %[[Q:.*]] = "fly.add_offset"(%[[P]], %[[S]]){{.*}}, 4 : i64, "">
        // CHECK: %[[V:.*]] = "fly.ptr_load"(%[[Q]]) {{.*}} -> f32
        // CHECK: %[[T:.*]] = arith.muli %[[J]], %c4_i32
        // CHECK: %[[U:.*]] = arith.addi %[[T]], %c3_i32
        // CHECK: %[[W:.*]] = "fly.add_offset"(%[[P]], %[[U]])
        // CHECK: "fly.ptr_store"(%[[V]], %[[W]])
        """,
    )


def test_moves_by_block_and_thread_stay_apart(lower: Any, filecheck: Any) -> None:
    def build(a: Any, block: Any, thread: Any) -> None:
        tile = fly.slice(fly.logical_divide(a, L(256, 1)), (None, block))
        fly.memref_store(fly.memref_load(tile, thread), tile, thread)

    text = lower([memref("f32", "4096:1"), "i32", "i32"], build, LOWERING)
    filecheck(
        text,
        """
        // CHECK: gpu.func @f(%[[P:.*]]: !fly{{.*}}, %[[B:.*]]: i32, %[[T:.*]]: i32)
        // CHECK: %[[O:.*]] = arith.muli %[[B]], %c256_i32
        // CHECK: %[[Q:.*]] = "fly.add_offset"(%[[P]], %[[O]]){{.*}} -> {{.*}}, 16 : i64
        // CHECK: %[[R:.*]] = "fly.add_offset"(%[[Q]], %[[T]]){{.*}} -> {{.*}}, 4 : i64
        // CHECK: "fly.ptr_load"(%[[R]])
        // CHECK: "fly.ptr_store"(%{{.*}}, %[[R]])
        """,
    )


def test_offsets_that_may_exceed_32_bits_are_wide(lower: Any, filecheck: Any) -> None:
    def build(a: Any, i: Any) -> None:
        fly.memref_store(fly.memref_load(a, (i, i)), a, (0, 0))

    text = lower([memref("f32", "(?,?):(?{i64},1)"), "i32"], build, LOWERING)
    filecheck(
        text,
        """
        // CHECK: gpu.func @f(%[[P:.*]]: !fly{{.*}}, %[[S:arg3]]: i64, %[[I:arg4]]: i32)
        // CHECK: %[[W:.*]] = arith.extsi %[[I]] : i32 to i64
        // CHECK: arith.muli %[[W]], %[[S]] overflow<nsw> : i64
        // CHECK: "fly.ptr_store"(%{{.*}}, %[[P]])
        """,
    )


def test_whole_vectors_use_the_widest_aligned_runs(lower: Any, filecheck: Any) -> None:
    def build(a: Any, b: Any) -> None:
        fly.memref_store_vec(fly.memref_load_vec(a), b)

    kinds = [memref("f16", "(8,2):(1,64)"), memref("f16", "16:1", 4)]
    filecheck(
        lower(kinds, build, LOWERING),
        """
        // CHECK-COUNT-2: "fly.ptr_load"(%{{.*}}16 : i64, "">) -> vector<8xf16>
        // CHECK-COUNT-8: "fly.ptr_store"(%{{.*}}) : (vector<2xf16>, {{.*}} 4 : i64, "">)
        // CHECK-NOT: fly.ptr_store
        """,
    )


def test_a_strided_whole_is_loaded_by_elements(lower: Any, filecheck: Any) -> None:
    def build(a: Any, b: Any) -> None:
        fly.memref_store_vec(fly.memref_load_vec(a), b)

    text = lower([memref("f32", "4:?"), memref("f32", "4:1")], build, LOWERING)
    filecheck(
        text,
        """
        // CHECK-COUNT-4: "fly.ptr_load"(%{{.*}}) {{.*}} -> vector<1xf32>
        // CHECK: %[[V:.*]] = vector.from_elements
        // CHECK: "fly.ptr_store"(%[[V]]
        """,
    )


def test_a_swizzled_view_swizzles_the_offset(lower: Any, filecheck: Any) -> None:
    def build(i: Any, j: Any) -> None:
        layout = fl.ComposedLayout(fl.Swizzle(3, 0, 3), 0, L((8, 8), (8, 1)))
        shared = fly.memref_alloca(ft.MemRefType("f32", "shared", layout, 256), "tile")
        fly.memref_store(fly.memref_load(shared, (i, j)), shared, (j, i))

    filecheck(
        lower(["i32", "i32"], build, LOWERING),
        """
        // CHECK: %[[A:.*]] = "fly.alloca"() {bytes = 256 : i64, sym = "tile"}
        // CHECK: %[[X:.*]] = arith.addi
        // CHECK: %[[M:.*]] = arith.andi %[[X]], %c56_i32
        // CHECK: %[[H:.*]] = arith.shr{{[us]}}i %[[M]], %c3_i32
        // CHECK: %[[S:.*]] = arith.xori %[[X]], %[[H]]
        // CHECK: %[[P:.*]] = "fly.add_offset"(%[[A]], %[[S]])
        // CHECK: "fly.ptr_load"(%[[P]])
        """,
    )


def test_a_swizzled_pointer_swizzles_the_byte_address(lower: Any, filecheck: Any) -> None:
    def build(p: Any, i: Any) -> None:
        swizzled = fly.apply_swizzle(p, fl.Swizzle(3, 4, 3))
        fly.ptr_store(fly.ptr_load(fly.add_offset(swizzled, i)), swizzled)

    text = lower(['!fly.ptr<f32, "shared", 1024 : i64, "">', "i32"], build, LOWERING)
    filecheck(
        text,
        """
        // CHECK: %[[A:.*]] = "fly.ptrtoint"
        // CHECK: %[[M:.*]] = arith.andi %[[A]], %c896_i32
        // CHECK: %[[H:.*]] = arith.shrui %[[M]], %c3_i32
        // CHECK: %[[X:.*]] = arith.xori %[[A]], %[[H]]
        // CHECK: %[[P:.*]] = "fly.inttoptr"(%[[X]]) : (i32) -> !fly.ptr<f32, "shared", 4 : i64, "">
        // CHECK: "fly.ptr_load"(%[[P]])
        """,
    )


def test_copy_unrolls_the_modes_after_the_first(lower: Any, filecheck: Any) -> None:
    def build(a: Any) -> None:
        atom = fly.make_copy_atom(atoms.UniversalCopy(128), 32)
        fragment = register("f32", L((4, 2, 2), (1, 4, 8)))
        fly.copy(atom, a, fragment)

    text = lower([memref("f32", "(4,2,2):(1,32,1024)")], build, LOWERING)
    filecheck(
        text,
        """
        // CHECK: gpu.func @f(%[[P:.*]]: !fly
        // CHECK: %[[R:.*]] = "fly.alloca"() {bytes = 64 : i64}
        // CHECK: "fly.copy_atom_call"(%[[A:.*]], %[[P]], %[[R]])
        // CHECK: %[[P1:.*]] = "fly.add_offset"(%[[P]], %c32_i32)
        // CHECK: %[[R1:.*]] = "fly.add_offset"(%[[R]], %c4_i32)
        // CHECK: "fly.copy_atom_call"(%[[A]], %[[P1]], %[[R1]])
        // CHECK: "fly.add_offset"(%[[P]], %c1024_i32)
        // CHECK: "fly.copy_atom_call"
        // CHECK: "fly.add_offset"(%[[P]], %c1056_i32)
        // CHECK: "fly.copy_atom_call"
        // CHECK-NOT: "fly.copy_atom_call"
        """,
    )


def test_predicates_follow_the_rest_modes(lower: Any, filecheck: Any) -> None:
    def build(a: Any) -> None:
        atom = fly.make_copy_atom(atoms.UniversalCopy(32), 32)
        fragment = register("f32", L((1, 2), (1, 1)))
        predicates = register("i1", L(2, 1), 1)
        fly.copy(atom, a, fragment, predicates)

    text = lower([memref("f32", "(1,2):(1,8)")], build, LOWERING)
    filecheck(
        text,
        """
        // CHECK: %[[Q:.*]] = "fly.alloca"() {bytes = 2 : i64}
        // CHECK: %[[C:.*]] = "fly.ptr_load"(%[[Q]]) {{.*}} -> i1
        // CHECK: "fly.copy_atom_call"(%{{.*}}, %{{.*}}, %{{.*}}, %[[C]])
        // CHECK: %[[Q1:.*]] = "fly.add_offset"(%[[Q]], %c1_i32)
        // CHECK: %[[D:.*]] = "fly.ptr_load"(%[[Q1]]) {{.*}} -> i1
        // CHECK: "fly.copy_atom_call"(%{{.*}}, %{{.*}}, %{{.*}}, %[[D]])
        """,
    )


def test_scattered_registers_are_packed_around_a_copy(lower: Any, filecheck: Any) -> None:
    def build(a: Any) -> None:
        atom = fly.make_copy_atom(atoms.UniversalCopy(64), 32)
        wide = register("f32", L((2, 2), (1, 2)))
        fly.copy_atom_call(atom, a, fly.slice(wide, (1, None)))
        fly.memref_store_vec(fly.memref_load_vec(fly.slice(wide, (1, None))), a)

    text = lower([memref("f32", "2:1")], build, "fly-promote-regmem-to-vectorssa")
    filecheck(
        text,
        """
        // CHECK: %[[V:.*]] = "fly.copy_atom_call_ssa"
        // CHECK-SAME: -> vector<2xf32>
        // CHECK: "fly.ptr_store"(%[[S:.*]], %{{.*}})
        // CHECK-NOT: fly.alloca
        """,
    )


def test_gemm_reads_c_at_the_first_visit_and_d_later(lower: Any, filecheck: Any) -> None:
    def build() -> None:
        atom = fly.make_mma_atom(atoms.UniversalFMA("f32"))
        a, b = register("f32", L((1, 1, 2), (1, 1, 1))), register("f32", L((1, 2, 2), (1, 1, 2)))
        c, d = register("f32", L((1, 1, 2), (1, 1, 1))), register("f32", L((1, 1, 2), (1, 1, 1)))
        fly.gemm(atom, d, (a, b, c))

    filecheck(
        lower([], build, LOWERING),
        """
        // CHECK: %[[A:.*]] = "fly.alloca"() {bytes = 8 : i64}
        // CHECK: %[[B:.*]] = "fly.alloca"() {bytes = 16 : i64}
        // CHECK: %[[C:.*]] = "fly.alloca"() {bytes = 8 : i64}
        // CHECK: %[[D:.*]] = "fly.alloca"() {bytes = 8 : i64}
        // CHECK: "fly.mma_atom_call"(%[[M:.*]], %[[D]], %[[A]], %[[B]], %[[C]])
        // CHECK: "fly.mma_atom_call"(%[[M]], %[[D1:.*]], %[[A]], %[[B1:.*]], %[[C1:.*]])
        // CHECK: "fly.mma_atom_call"(%[[M]], %[[D]], %[[A1:.*]], %[[B2:.*]], %[[D]])
        // CHECK: "fly.mma_atom_call"(%[[M]], %[[D1]], %[[A1]], %{{.*}}, %[[D1]])
        // CHECK-NOT: fly.mma_atom_call
        """,
    )


def test_atom_state_stays_with_the_atom(lower: Any, filecheck: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr(atoms.UniversalCopy, "state", {"soffset": "i32"})

    def build(a: Any, i: Any) -> None:
        atom = fly.make_copy_atom(atoms.UniversalCopy(32), 32)
        tiled = fly.make_tiled_copy(atom, L((1, 1), (1, 1)), fly.make_tile(1))
        moved = fly.atom_set_value(tiled, "soffset", i)
        fly.copy(moved, a, register("f32", L(1, 1)))

    filecheck(
        lower([memref("f32", "1:1"), "i32"], build, LOWERING),
        """
        // CHECK: %[[A:.*]] = "fly.make_copy_atom"() : () -> !fly.copy_atom<
        // CHECK: %[[S:.*]] = "fly.atom_set_value"(%[[A]], %{{.*}}) {field = "soffset"}
        // CHECK-SAME: -> !fly.copy_atom<"universal_copy<32>", 32 : i64>
        // CHECK: "fly.copy_atom_call"(%[[S]]
        """,
    )


@pytest.mark.parametrize(
    ("layout", "bits"), [("4:2", 128), ("4:?", 128), ("(2,2):(1,4)", 128), ("2:0", 64)]
)
def test_a_copy_of_scattered_memory_is_refused(lower: Any, layout: str, bits: int) -> None:
    def build(a: Any) -> None:
        size = bits // 32
        atom = fly.make_copy_atom(atoms.UniversalCopy(bits), 32)
        fly.copy_atom_call(atom, a, register("f32", L(size, 1)))

    with pytest.raises(UserError, match="not contiguous") as caught:
        lower([memref("f32", layout)], build, LOWERING)
    assert caught.value.code == "FLY-U333"


def test_a_swizzle_that_tears_a_copy_apart_is_refused(lower: Any) -> None:
    def build(swizzle: fl.Swizzle) -> Callable[..., None]:
        def fill() -> None:
            layout = fl.ComposedLayout(swizzle, 0, L((8, 64), (64, 1)))
            shared = fly.memref_alloca(ft.MemRefType("f16", "shared", layout, 1024), "tile")
            row = fly.slice(fly.zipped_divide(shared, fly.make_tile(1, 8)), (None, 3))
            atom = fly.make_copy_atom(atoms.UniversalCopy(128), 16)
            fly.copy_atom_call(atom, row, register("f16", L(8, 1), 2))

        return fill

    assert "fly.copy_atom_call" in lower([], build(fl.Swizzle(3, 3, 3)), LOWERING)
    with pytest.raises(UserError, match="swizzle whose base keeps 8 elements together"):
        lower([], build(fl.Swizzle(3, 2, 3)), LOWERING)
