"""Builders infer result types and refuse wrong operands before anything is created."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from flydsl import layout as fl
from flydsl.dialects import atoms, fly
from flydsl.dialects import fly_types as ft
from flydsl.dialects.definition import OPS
from flydsl.errors import UserError
from flydsl.mlir import ir

L = fl.Layout


def kind(value: Any) -> str:
    return str(value.type)


def test_tuples_take_integers_of_every_width(building: list[Any]) -> None:
    _, i, j, x, _ = building
    made = fly.make_int_tuple((4, (i, None, j), x))
    assert kind(made) == '!fly.int_tuple<"(4,(?,*,?{i64}),?{i64})">'
    assert [str(v.type) for v in made.owner.operands] == ["i32", "i64", "i64"]
    assert kind(fly.make_int_tuple((1, 2))) == '!fly.int_tuple<"(1,2)">'


def test_a_leaf_keeps_its_divisor_in_a_new_tuple(building: list[Any]) -> None:
    _, i, _, _, _ = building
    scaled = fly.int_tuple_mul(fly.make_int_tuple(i), 8)
    assert kind(fly.make_coord((scaled, 1))) == '!fly.int_tuple<"(?{div=8},1)">'


def test_python_values_are_operands(building: list[Any]) -> None:
    _, i, _, _, _ = building
    layout = fly.make_layout((i, 8), (1, fly.make_int_tuple(i)))
    assert kind(layout) == '!fly.layout<"(?,8):(1,?)">'
    assert kind(fly.composition(L(16, 1), L((2, 4), (4, 1)))) == '!fly.layout<"(2,4):(4,1)">'
    assert kind(fly.crd2idx((i, 2), L((4, 8), (8, 1)))) == '!fly.int_tuple<"?{div=2}">'


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda i: fly.get_scalar(fly.size((i, 1))), "i32"),
        (lambda i: fly.get_scalar(fly.size((i, 4))), "i64"),
        (lambda i: fly.elem_less((i, 1), (3, 4)), "i1"),
        (lambda i: fly.select((i, 2, 3), indices=[2, 0]), '!fly.int_tuple<"(3,?)">'),
        (lambda _i: fly.get(L((4, (2, 3)), (1, (4, 8))), mode=(1, 0)), '!fly.layout<"2:4">'),
        (lambda _i: fly.append(L(4, 1), L(2, 8), n=3), '!fly.layout<"(4,2,2):(1,8,8)">'),
        (lambda _i: fly.complement(L(4, 1), 24), '!fly.layout<"6:4">'),
        (lambda _i: fly.complement(L(4, 2), None), '!fly.layout<"2:1">'),
        (
            lambda _i: fly.recast_layout(L((4, 8), (8, 1)), old_type_bits=32, new_type_bits=16),
            '!fly.layout<"(4,16):(16,1)">',
        ),
        (
            lambda i: fly.make_view((i, 0), fly.make_identity_layout((4, 8))),
            '!fly.coord_tensor<"(?,0)", "(4,8):(1E0,1E1)">',
        ),
    ],
)
def test_result_types(building: list[Any], build: Callable[[Any], Any], expected: str) -> None:
    assert kind(build(building[1])) == expected


def test_views_of_pointers(building: list[Any]) -> None:
    _, i, j, _, _ = building
    pointer = fly.inttoptr(ft.PtrType("f32", "global", 16), j)
    view = fly.make_view(pointer, L((4, 8), (8, 1)))
    assert kind(view) == '!fly.memref<f32, "global", "(4,8):(8,1)", 16 : i64>'
    row = fly.slice(view, (i, None))
    assert kind(row) == '!fly.memref<f32, "global", "8:1", 16 : i64>'
    assert kind(fly.slice(view, (None, i))) == '!fly.memref<f32, "global", "4:8", 4 : i64>'
    assert kind(fly.get_iter(row)) == '!fly.ptr<f32, "global", 16 : i64, "">'
    assert kind(fly.memref_load_vec(row)) == "vector<8xf32>"
    assert kind(fly.ptrtoint(pointer)) == "i64"
    assert kind(fly.recast_iter("f16", pointer)) == '!fly.ptr<f16, "global", 16 : i64, "">'
    assert kind(fly.get_dyn_shared()) == '!fly.ptr<i8, "shared", 1024 : i64, "">'


def test_a_swizzled_pointer_gives_a_swizzled_view(building: list[Any]) -> None:
    shared = fly.apply_swizzle(fly.get_dyn_shared("f16"), fl.Swizzle(3, 4, 3))
    view = fly.make_view(shared, L((8, 64), (64, 1)))
    expected = '!fly.memref<f16, "shared", "S<3,3,3> o 0 o (8,64):(64,1)", 1024 : i64>'
    assert kind(view) == expected
    assert building


def test_fragments(building: list[Any]) -> None:
    fragment = fly.make_fragment_like(L((4, 2), (2, 1)), "f16")
    assert kind(fragment) == '!fly.memref<f16, "register", "(4,2):(1,4)", 2 : i64>'
    assert kind(fly.make_fragment_like(fragment)) == kind(fragment)
    assert building


def _view(layout: fl.Layout, element: str = "f32", alignment: int = 16) -> Any:
    where = ft.PtrType("i8", "shared", 1024)
    pointer = fly.recast_iter(
        ft.PtrType(element, "shared", alignment), fly.alloca(where, 4096, "s")
    )
    return fly.make_view(pointer, layout)


def _register(layout: fl.Layout, element: str = "f32") -> Any:
    return fly.memref_alloca(ft.MemRefType(element, "register", layout, 4))


_FMA = atoms.UniversalFMA("f32")
_MISTAKES: dict[str, Callable[[Any, Any], Any]] = {
    "profile": lambda i, _f: fly.make_layout((4, i), 1),
    "float": lambda _i, _f: fly.make_int_tuple((1.5, 2)),
    "float value": lambda _i, f: fly.make_int_tuple((f, 2)),
    "float operand": lambda _i, f: fly.crd2idx(f, L(4, 1)),
    "no tuple": lambda _i, _f: fly.as_value(object()),
    "empty": lambda _i, _f: fly.make_int_tuple(()),
    "slice keeps nothing": lambda _i, _f: fly.slice(L((4, 8), (1, 4)), (1, 2)),
    "slice rank": lambda _i, _f: fly.slice(_view(L((4, 8), (8, 1))), (None, 1, 2)),
    "mode": lambda _i, _f: fly.get(L((4, 8), (1, 4)), mode=(2,)),
    "load wildcard": lambda _i, _f: fly.memref_load(_view(L((4, 8), (8, 1))), (None, 1)),
    "load rank": lambda _i, _f: fly.memref_load(_view(L((4, 8), (8, 1))), (1, 2, 3)),
    "store type": lambda i, _f: fly.memref_store(i, _view(L(4, 1)), 0),
    "store vector": lambda _i, f: fly.memref_store_vec(f, _view(L(4, 1))),
    "vector extent": lambda _i, _f: fly.memref_load_vec(_view(L(fl.Dyn(), 1))),
    "coordinates have no memory": lambda _i, _f: fly.memref_load(
        fly.make_view((0, 0), fly.make_identity_layout((4, 8))), (0, 0)
    ),
    "alloca dynamic": lambda _i, _f: _register(L(fl.Dyn(), 1)),
    "alloca empty": lambda _i, _f: _register(L(0, 1)),
    "alloca space": lambda _i, _f: fly.alloca(ft.PtrType("f32", "global", 4), 16),
    "alloca name": lambda _i, _f: fly.alloca(ft.PtrType("f32", "shared", 4), 16),
    "alloca size": lambda _i, _f: fly.alloca(ft.PtrType("f32", "register", 4), 0),
    "register address": lambda _i, _f: fly.ptrtoint(fly.get_iter(_register(L(4, 1)))),
    "register pointer": lambda i, _f: fly.inttoptr(ft.PtrType("f32", "register", 4), i),
    "recast alignment": lambda _i, _f: fly.recast_iter(
        "f32", fly.get_iter(_view(L(4, 1), "i8", 1))
    ),
    "recast space": lambda _i, _f: fly.recast_iter(
        ft.PtrType("f32", "global", 4), fly.get_dyn_shared()
    ),
    "swizzled twice": lambda _i, _f: fly.apply_swizzle(
        fly.apply_swizzle(fly.get_dyn_shared(), fl.Swizzle(1, 2, 3)), fl.Swizzle(1, 2, 3)
    ),
    "offset": lambda _i, _f: fly.add_offset(fly.get_dyn_shared(), (1, 2)),
    "store through": lambda i, _f: fly.ptr_store(i, fly.get_dyn_shared()),
    "copy size": lambda _i, _f: fly.copy_atom_call(
        fly.make_copy_atom(atoms.UniversalCopy(128), 32), _view(L(2, 1)), _register(L(4, 1))
    ),
    "copy element": lambda _i, _f: fly.copy_atom_call(
        fly.make_copy_atom(atoms.UniversalCopy(64), 32), _view(L(4, 1), "f16"), _register(L(2, 1))
    ),
    "copy rest": lambda _i, _f: fly.copy(
        fly.make_copy_atom(atoms.UniversalCopy(64), 32),
        _view(L((2, 3), (1, 2))),
        _register(L((2, 4), (1, 2))),
    ),
    "copy rank": lambda _i, _f: fly.copy(
        fly.make_copy_atom(atoms.UniversalCopy(64), 32),
        _view(L((2, 3), (1, 2))),
        _register(L(2, 1)),
    ),
    "copy atom": lambda i, _f: fly.copy(i, _view(L(2, 1)), _register(L(2, 1))),
    "atom width": lambda _i, _f: fly.make_copy_atom(atoms.UniversalCopy(64), 48),
    "atom state": lambda i, _f: fly.atom_set_value(
        fly.make_copy_atom(atoms.UniversalCopy(64), 32), "soffset", i
    ),
    "gemm rank": lambda _i, _f: fly.gemm(
        fly.make_mma_atom(_FMA), _register(L(1, 1)), (_register(L((1, 2), (1, 1))),) * 3
    ),
    "gemm extent": lambda _i, _f: fly.gemm(
        fly.make_mma_atom(_FMA),
        _register(L((1, 2, 2), (1, 1, 2))),
        (
            _register(L((1, 3), (1, 1))),
            _register(L((1, 2), (1, 1))),
            _register(L((1, 2, 2), (1, 1, 2))),
        ),
    ),
    "gemm order": lambda _i, _f: fly.gemm(
        fly.make_mma_atom(_FMA),
        _register(L(1, 1)),
        (_register(L(1, 1)),) * 3,
        traversal_order="MKX",
    ),
    "mma values": lambda _i, _f: fly.mma_atom_call(
        fly.make_mma_atom(_FMA), *(_register(L(2, 1)) for _ in range(4))
    ),
}


@pytest.mark.parametrize("mistake", _MISTAKES)
def test_mistakes_raise_before_the_operation_exists(building: list[Any], mistake: str) -> None:
    module, i, _, _, f = building
    with pytest.raises(UserError) as caught:
        _MISTAKES[mistake](i, f)
    assert caught.value.code.startswith("FLY-U")
    assert module.operation.verify()


def test_locations_and_insertion_points_are_the_ambient_ones(building: list[Any]) -> None:
    module, i, _, _, _ = building
    with ir.Location.file("user.py", 7, 3):
        value = fly.int_tuple_add(fly.make_int_tuple(i), 1)
    assert 'loc("user.py":7:3)' in str(value.owner.location)
    body = list(module.body.operations[0].regions[0].blocks[0].operations)
    assert body[-2].operation == value.owner


def test_every_operation_has_a_builder() -> None:
    internal = {"static", "pack", "unpack", "output_buffer"}
    assert {name for name in OPS if name not in internal} <= set(fly.__all__)
