"""What `fly-layout-lowering` emits computes what the layout algebra says, for run-time leaves."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flydsl import layout as fl
from flydsl import mlir
from flydsl.dialects import fly, fly_types
from flydsl.dialects.leaves import leaf_widths
from flydsl.dialects.verify import verify_module
from flydsl.mlir import ir
from flydsl.passes import layout_lowering

_spec = importlib.util.spec_from_file_location(
    "interpreter", Path(__file__).parents[1] / "interpreter.py"
)
assert _spec is not None
assert _spec.loader is not None
interpreter = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(interpreter)


def lowered(types: list[str], build: Callable[..., list[Any]], *, clean: bool = True) -> Any:
    """Return a func.func with parameters of builtin or Fly types that returns integers."""
    context = mlir.thread_context()
    parameters = ", ".join(f"%a{i}: {t}" for i, t in enumerate(types))
    module = mlir.parse_module(f"func.func @f({parameters}) {{ return }}", context)
    function = module.body.operations[0].operation
    block = function.regions[0].blocks[0]
    end = block.operations[0].operation
    with context, ir.Location.unknown():
        with ir.InsertionPoint(end):
            results = build(*block.arguments)
            ir.Operation.create("func.return", operands=results)
        end.erase()
        kind = ir.FunctionType.get([x.type for x in block.arguments], [r.type for r in results])
        function.attributes["function_type"] = ir.TypeAttr.get(kind)
    verify_module(module, "building")
    layout_lowering.run(module)
    verify_module(module, "fly-layout-lowering")
    if clean:
        mlir.run_pipeline(module, "builtin.module(canonicalize,cse)")
    return module, module.body.operations[0].operation


def leaves_of(value: Any) -> list[Any]:
    """Return the run-time leaves of a tuple or layout value as integers in the IR."""
    return fly.unpack(value)[1]


EXTENTS = st.integers(1, 12)
STRIDES = st.integers(0, 40)


@st.composite
def layouts(draw: st.DrawFn) -> tuple[fl.Layout, fl.Layout, list[int]]:
    """Draw a static layout, the same with some leaves unknown, and the values of those."""
    profile = draw(st.sampled_from(["1", "2", "3", "(2)1", "1(2)"]))
    counts = {"1": 1, "2": 2, "3": 3, "(2)1": 3, "1(2)": 3}
    numbers = [draw(EXTENTS) for _ in range(counts[profile])]
    steps = [draw(STRIDES) for _ in numbers]

    def nest(flat: list[Any]) -> Any:
        if profile == "(2)1":
            return ((flat[0], flat[1]), flat[2])
        if profile == "1(2)":
            return (flat[0], (flat[1], flat[2]))
        return flat[0] if len(flat) == 1 else tuple(flat)

    values: list[int] = []

    def hide(x: int) -> Any:
        if draw(st.booleans()):
            values.append(x)
            return fl.Dyn(32, 1)
        return x

    shape = nest([hide(x) for x in numbers])
    stride = nest([hide(x) for x in steps])
    return fl.Layout(nest(numbers), nest(steps)), fl.Layout(shape, stride), values


def _pack(kind: fly_types.FlyType, arguments: tuple[Any, ...]) -> Any:
    assert leaf_widths(kind) == [32] * len(arguments)
    return fly.pack(kind, arguments)


@settings(max_examples=60, deadline=None)
@given(layouts(), st.integers(0, 4000))
def test_crd2idx_of_an_integer(drawn: Any, index: int) -> None:
    static, dynamic, values = drawn

    def build(i: Any, *leaves: Any) -> list[Any]:
        layout = _pack(fly_types.LayoutType(dynamic), leaves)
        return leaves_of(fly.crd2idx(i, layout))

    _, function = lowered(["i32"] * (1 + len(values)), build)
    expected = fl.crd2idx(index, static)
    results = interpreter.call(function, [index, *values])
    if results:
        assert results == [expected]
    else:
        kind = fly_types.LayoutType(dynamic).layout
        assert fl.crd2idx(fl.Dyn(), kind) == expected


@settings(max_examples=60, deadline=None)
@given(layouts(), st.integers(0, 4000))
def test_idx2crd(drawn: Any, index: int) -> None:
    static, dynamic, values = drawn
    if any(s == 0 for s in fl.tuples.flatten(static.stride)):
        return

    def build(i: Any, *leaves: Any) -> list[Any]:
        return leaves_of(fly.idx2crd(i, _pack(fly_types.LayoutType(dynamic), leaves)))

    _, function = lowered(["i32"] * (1 + len(values)), build)
    expected = fl.idx2crd(index, static)
    symbolic = fl.idx2crd(fl.Dyn(), dynamic)
    flat = zip(fl.tuples.flatten(expected), fl.tuples.flatten(symbolic), strict=True)
    wanted = [x for x, known in flat if not isinstance(known, int)]
    assert interpreter.call(function, [index, *values]) == wanted


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 3), st.integers(0, 3), st.integers(1, 3), st.integers(0, 500), st.integers(0, 9)
)
def test_a_swizzled_layout(mask: int, base: int, shift: int, index: int, offset: int) -> None:
    composed = fl.ComposedLayout(
        fl.Swizzle(mask, base, shift), offset, fl.Layout((16, 32), (32, 1))
    )

    def build(i: Any, o: Any) -> list[Any]:
        kind = fly_types.ComposedLayoutType(
            fl.ComposedLayout(composed.inner, fl.Dyn(), composed.outer)
        )
        return leaves_of(fly.crd2idx(i, fly.pack(kind, [o])))

    _, function = lowered(["i32", "i32"], build)
    assert interpreter.call(function, [index, offset]) == [fl.crd2idx(index, composed)]


@pytest.mark.parametrize("value", [-9, -8, -1, 0, 1, 7, 8, 23])
@pytest.mark.parametrize("divisor", [1, 2, 8, 3, 7])
@pytest.mark.parametrize("op", ["int_tuple_div", "int_tuple_mod", "ceil_div"])
def test_division_rounds_down_for_negative_values_too(op: str, divisor: int, value: int) -> None:
    def build(x: Any) -> list[Any]:
        return leaves_of(getattr(fly, op)(fly.make_int_tuple(x), divisor))

    _, function = lowered(["i32"], build)
    expected = {
        "int_tuple_div": value // divisor,
        "int_tuple_mod": value % divisor,
        "ceil_div": -(-value // divisor),
    }[op]
    results = interpreter.call(function, [value])
    assert results == ([] if op == "int_tuple_mod" and divisor == 1 else [expected])


def test_wide_leaves_stay_wide() -> None:
    def build(x: Any, y: Any) -> list[Any]:
        return leaves_of(fly.int_tuple_mul(fly.make_int_tuple((x, y)), (3, 2**20)))

    _, function = lowered(["i64", "i32"], build)
    assert [str(t) for t in function.regions[0].blocks[0].arguments.types] == ["i64", "i32"]
    assert interpreter.call(function, [2**40, 5]) == [5 * 2**20, 3 * 2**40]


def test_divisions_by_powers_of_two_need_no_division() -> None:
    def build(i: Any) -> list[Any]:
        return leaves_of(fly.idx2crd(i, fl.Layout((4, (8, 2)), (1, (4, 32)))))

    module, _ = lowered(["i32"], build)
    text = str(module)
    assert "arith.shr" in text
    assert "arith.andi" in text
    assert "div" not in text
    assert "rem" not in text


def test_a_known_divisor_removes_the_remainder() -> None:
    def build(i: Any) -> list[Any]:
        scaled = fly.int_tuple_mul(fly.make_int_tuple(i), 8)
        return leaves_of(fly.int_tuple_div(scaled, 4)) + leaves_of(fly.int_tuple_mod(scaled, 3))

    module, function = lowered(["i32"], build)
    assert interpreter.call(function, [5]) == [10, 40 % 3]
    with mlir.thread_context():
        exact = fly_types.IntTupleType(fl.int_tuple_mod(fl.Dyn(32, 8), 4)).value
    assert exact == 0
    assert str(module).count("arith.") >= 2


def test_equal_subexpressions_are_emitted_once() -> None:
    def build(i: Any, n: Any) -> list[Any]:
        layout = fly.make_layout(fly.make_int_tuple((n, 4)), fly.make_int_tuple((1, n)))
        return leaves_of(fly.crd2idx(i, layout)) + leaves_of(fly.crd2idx(i, layout))

    module, function = lowered(["i32", "i32"], build, clean=False)
    assert str(module).count("floordivsi") == 1
    assert interpreter.call(function, [7, 3]) == [7, 7]
