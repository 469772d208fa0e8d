"""Leaf arithmetic after strength reduction computes what Python computes, in few operations."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flydsl import mlir
from flydsl.dialects.verify import verify_module
from flydsl.layout import leaf
from flydsl.mlir import ir
from flydsl.passes.ranges import of_operation
from flydsl.passes.ssa import Emitter
from flydsl.passes.strength import magic

_spec = importlib.util.spec_from_file_location(
    "interpreter", Path(__file__).parents[1] / "interpreter.py"
)
assert _spec is not None
assert _spec.loader is not None
interpreter = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(interpreter)

OPS = {
    "add": (leaf.add, lambda a, b: a + b),
    "sub": (leaf.sub, lambda a, b: a - b),
    "mul": (leaf.mul, lambda a, b: a * b),
    "floordiv": (leaf.floordiv, lambda a, b: a // b),
    "ceildiv": (leaf.ceildiv, lambda a, b: -(-a // b)),
    "mod": (leaf.mod, lambda a, b: a % b),
    "min": (leaf.minimum, min),
    "max": (leaf.maximum, max),
    "xor": (leaf.xor, lambda a, b: a ^ b),
    "and": (leaf.bitand, lambda a, b: a & b),
    "shr": (leaf.shr, lambda a, b: a >> b),
    "lt": (leaf.lt, lambda a, b: a < b),
    "eq": (leaf.eq, lambda a, b: a == b),
}
MASKS = [0, 1, 3, 7, 31, 63, 255, 1023]
CONSTANTS = [0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32, 48, 63, 64, 96, 100, 128, 255, 256]


@st.composite
def expressions(draw: st.DrawFn, depth: int = 5) -> Any:
    """Draw ``("in", number)``, an int, or ``(op, left, right)``."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        if draw(st.booleans()):
            return draw(st.sampled_from(CONSTANTS))
        return ("in", draw(st.integers(0, 2)))
    op = draw(st.sampled_from(["add", "mul", "floordiv", "mod", *list(OPS)[:-2]]))
    left = draw(expressions(depth - 1))
    if op == "shr":
        return (op, left, draw(st.integers(0, 8)))
    if op in ("floordiv", "ceildiv", "mod", "mul", "and"):
        constant = st.sampled_from(CONSTANTS[1:])
        right = draw(constant) if draw(st.integers(0, 3)) else draw(expressions(depth - 1))
        return (op, left, right)
    return (op, left, draw(expressions(depth - 1)))


class OutOfRangeError(Exception):
    """An intermediate result does not fit 32 bits, or something is divided by zero or less."""


def evaluate(tree: Any, inputs: list[int]) -> int:
    if isinstance(tree, int):
        return tree
    if tree[0] == "in":
        return inputs[tree[1]]
    a, b = evaluate(tree[1], inputs), evaluate(tree[2], inputs)
    if tree[0] in ("floordiv", "ceildiv", "mod") and b <= 0:
        raise OutOfRangeError
    if tree[0] == "and" and (a < 0 or b < 0):
        raise OutOfRangeError
    result = OPS[tree[0]][1](a, b)
    # A remainder may go through quotient times divisor, a rounded-up quotient through a sum.
    if abs(result) + abs(a) + abs(b) >= 1 << 30:
        raise OutOfRangeError
    return int(result)


def build(tree: Any, leaves: list[Any]) -> Any:
    if isinstance(tree, int):
        return tree
    if tree[0] == "in":
        return leaves[tree[1]]
    return OPS[tree[0]][0](build(tree[1], leaves), build(tree[2], leaves))


def lowered(tree: Any, masks: list[int], width: int) -> tuple[Any, Any]:
    """Return a module and its function of three i32 that computes the expression."""
    context = mlir.thread_context()
    masked = "".join(
        f"%m{i} = arith.constant {m} : i32\n%x{i} = arith.andi %a{i}, %m{i} : i32\n"
        for i, m in enumerate(masks)
    )
    module = mlir.parse_module(
        f"func.func @f(%a0: i32, %a1: i32, %a2: i32) {{\n{masked} return }}", context
    )
    function = module.body.operations[0].operation
    block = function.regions[0].blocks[0]
    operations = [view.operation for view in block.operations]
    end = operations[-1]
    values = [op.result for op in operations if op.name == "arith.andi"]
    with context, ir.Location.unknown():
        emitter = Emitter(block, function)
        emitter.anchor = end
        leaves = [emitter.leaf(value, 32) for value in values]
        if width == 64:
            leaves = [x.extend() for x in leaves]
        found = build(tree, leaves)
        bits = 1 if isinstance(found, bool) or leaf.width_of(found) == 1 else width
        if not isinstance(found, int):
            bits = found.width
        result = emitter.value_of(int(found), bits) if isinstance(found, int) else found.value
        with ir.InsertionPoint(end):
            ir.Operation.create("func.return", operands=[result])
        end.erase()
        kind = ir.FunctionType.get([x.type for x in block.arguments], [result.type])
        function.attributes["function_type"] = ir.TypeAttr.get(kind)
    verify_module(module, "building")
    return module, function


@settings(max_examples=150, deadline=None)
@given(
    expressions(),
    st.lists(st.sampled_from(MASKS), min_size=3, max_size=3),
    st.lists(st.integers(0, 2**31 - 1), min_size=12, max_size=12),
    st.sampled_from([32, 64]),
)
def test_reduced_arithmetic_is_pythons(
    tree: Any, masks: list[int], numbers: list[int], width: int
) -> None:
    try:
        _module, function = lowered(tree, masks, width)
    except leaf.UserValueError:
        return  # a static division by zero
    for at in range(0, len(numbers), 3):
        chosen = numbers[at : at + 3]
        inputs = [x & mask for x, mask in zip(chosen, masks, strict=True)]
        for edge in (inputs, masks, [0, 0, 0]):
            try:
                expected = evaluate(tree, edge)
            except OutOfRangeError:
                continue
            assert interpreter.call(function, edge) == [expected]


def operations(function: Any) -> list[str]:
    """Return the names of the operations after the inputs' masks, constants excluded."""
    names = [view.operation.name for view in function.regions[0].blocks[0].operations]
    return [n.removeprefix("arith.") for n in names if n != "arith.constant"][3:-1]


X, Y, Z = ("in", 0), ("in", 1), ("in", 2)


@pytest.mark.parametrize(
    ("tree", "masks", "expected"),
    [
        # The range proves it: no operation at all.
        (("floordiv", X, 64), (63, 0, 0), []),
        (("mod", X, 64), (63, 0, 0), []),
        (("mod", X, 100), (63, 0, 0), []),
        (("lt", X, 64), (63, 0, 0), []),
        (("min", X, 64), (63, 0, 0), []),
        (("ceildiv", X, 64), (0, 0, 0), []),
        # A thread number taken apart and put together.
        (("floordiv", ("add", ("mul", X, 64), Y), 64), (15, 63, 0), []),
        (("mod", ("add", ("mul", X, 64), Y), 64), (15, 63, 0), []),
        (("floordiv", ("add", ("mul", X, 60), Y), 12), (15, 7, 0), ["muli"]),
        # Powers of two: shifts and masks.
        (("floordiv", X, 8), (255, 0, 0), ["shrui"]),
        (("mod", X, 8), (255, 0, 0), ["andi"]),
        (("floordiv", ("mul", X, 4), 32), (255, 0, 0), ["shrui"]),
        (("mod", ("mod", X, 32), 8), (255, 0, 0), ["andi"]),
        (("floordiv", ("floordiv", X, 4), 8), (255, 0, 0), ["shrui"]),
        (("mod", ("add", X, ("mul", Y, 16)), 8), (255, 63, 0), ["andi"]),
        # A small number by a constant: a product and a shift; the remainder shares them.
        (("floordiv", X, 3), (255, 0, 0), ["muli", "shrui"]),
        (("mod", X, 3), (255, 0, 0), ["muli", "shrui", "muli", "subi"]),
        # What the bounds decide is neutral afterwards.
        (("add", X, ("floordiv", Y, 64)), (255, 63, 0), []),
        (("xor", X, ("shr", Y, 8)), (255, 63, 0), []),
        (("mul", X, ("add", ("floordiv", Y, 64), 1)), (255, 63, 0), []),
        # Digits are put together again.
        (("add", ("mod", X, 4), ("mul", ("floordiv", X, 4), 4)), (255, 0, 0), []),
        (
            ("add", ("mul", ("mod", ("floordiv", X, 4), 8), 12), ("mul", ("mod", X, 4), 3)),
            (255, 0, 0),
            ["andi", "muli"],
        ),
        (
            ("add", ("add", Y, ("mod", X, 4)), ("mul", ("floordiv", X, 4), 4)),
            (255, 63, 0),
            ["addi"],
        ),
        # Constants gather.
        (("add", ("add", X, 3), 5), (255, 0, 0), ["addi"]),
        (("mul", ("mul", X, 3), 5), (255, 0, 0), ["muli"]),
    ],
)
def test_few_operations_are_left(tree: Any, masks: tuple[int, ...], expected: list[str]) -> None:
    for width in (32, 64):
        _module, function = lowered(tree, list(masks), width)
        found = operations(function)
        # What provably fits 32 bits is computed there; at most its extension comes on top.
        assert [n for n in found if n != "extui"] == expected
        assert len(found) - len(expected) <= (width == 64)


@given(st.integers(1, 4096), st.integers(0, 70000), st.data())
def test_magic_numbers_divide(divisor: int, highest: int, data: st.DataObject) -> None:
    found = magic(divisor, highest)
    if found is None:
        assert highest > 1000
        return
    m, shift = found
    near = data.draw(st.integers(0, highest))
    for x in {near, highest, near // divisor * divisor, max(near // divisor * divisor - 1, 0)}:
        assert x * m < 1 << 32
        assert x * m >> shift == x // divisor


@given(
    st.sampled_from(sorted(set(OPS) - {"lt", "eq"})),
    st.lists(st.integers(-300, 300), min_size=2, max_size=2),
    st.lists(st.integers(-300, 300), min_size=2, max_size=2),
    st.data(),
)
def test_bounds_hold(op: str, first: list[int], second: list[int], data: st.DataObject) -> None:
    a, b = (min(first), max(first)), (min(second), max(second))
    if op == "shr":
        b = (abs(b[0]) % 9,) * 2
    x, y = (data.draw(st.integers(*bounds)) for bounds in (a, b))
    if op in ("floordiv", "ceildiv", "mod") and y == 0:
        return
    low, high = of_operation(op, a, b, 32)
    assert low <= OPS[op][1](x, y) <= high
