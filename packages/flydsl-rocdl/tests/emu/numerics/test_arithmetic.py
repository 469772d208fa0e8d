"""Every binary operator of every numeric class, on the device and folded, against NumPy."""

from __future__ import annotations

import operator
from typing import Any

import number_reference as reference
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope
from flydsl.errors import UserTypeError, UserValueError

BLOCK = 256
EACH = 4 * BLOCK
OPERATORS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv,
    "//": operator.floordiv, "%": operator.mod, "&": operator.and_, "|": operator.or_,
    "^": operator.xor, "<<": operator.lshift, ">>": operator.rshift, "==": operator.eq,
    "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
COMPARISONS = ("==", "!=", "<", "<=", ">", ">=")
BITWISE = ("&", "|", "^")
SHIFTS = ("<<", ">>")


def operators(name: str) -> list[str]:
    """Return the operators of a class."""
    if name in reference.FLOATS:
        return [op for op in OPERATORS if op not in (*BITWISE, *SHIFTS)]
    return [op for op in OPERATORS if name != "Boolean" or op not in SHIFTS]


def result_class(op: str, name: str) -> str:
    """Return the class of the result for two operands of a class."""
    if op in COMPARISONS:
        return "Boolean"
    if name == "Boolean" and op not in BITWISE:
        name = "Int32"
    if op == "/" and name in reference.INTEGERS and name != "Index":
        return "Float32" if reference.kind(name).width <= 32 else "Float64"
    return name


def expected(op: str, name: str, a: Any, b: Any) -> Any:
    """Return the codes of results by NumPy."""
    target = result_class(op, name)
    with np.errstate(all="ignore"):
        x, y = reference.decoded(name, a), reference.decoded(name, b)
        if op in COMPARISONS:
            return _compared(op, name, x, y).astype(np.uint64)
        if name in reference.FLOATS:
            return _float(op, name, x, y)
        if name == "Boolean" and op not in BITWISE:
            x, y = x.astype(np.int32), y.astype(np.int32)
        if target.startswith("Float"):
            wide = reference.FLOATS[target]
            return reference.encoded(target, x.astype(wide) / y.astype(wide))
        if op == "/":
            op = "//"
        found = OPERATORS[op](x, y)
    return found.astype(np.uint64) & np.uint64((1 << reference.kind(target).width) - 1)


def undefined(op: str, name: str, a: Any, b: Any) -> Any:
    """Return where the result is NaN, which a finite format has not: any sign of the largest."""
    if name not in reference.FLOATS or op in COMPARISONS or reference.kind(name).width > 6:
        return np.zeros(len(a), bool)
    with np.errstate(all="ignore"):
        x, y = (reference.decoded(name, v).astype(np.float64) for v in (a, b))
        return np.isnan(OPERATORS[op](x, y))


def _compared(op: str, name: str, x: Any, y: Any) -> Any:
    if name in reference.FLOATS and name != "Float64":
        x, y = x.astype(np.float64), y.astype(np.float64)
    return OPERATORS[op](x, y)


def _float(op: str, name: str, x: Any, y: Any) -> Any:
    if name in ("Float64", "Float32"):
        return reference.encoded(name, OPERATORS[op](x, y))
    if op in ("//", "%"):  # in f32 (E8M0: f64), and rounded
        single = np.float64 if name == "Float8E8M0FNU" else np.float32
        values = OPERATORS[op](x.astype(single), y.astype(single))
    else:
        wide = (v.astype(np.float64).astype(reference.LONG) for v in (x, y))
        values = OPERATORS[op](*wide)
    found = reference.rounded(name, values.astype(reference.LONG)).astype(np.float64)
    return reference.encoded(name, found.astype(reference.FLOATS[name]))


def operands(name: str, count: int, seed: int) -> tuple[Any, Any, Any]:
    """Return codes of left operands, right operands and shift counts; no divisor is zero."""
    rng = np.random.default_rng(seed)
    a = reference.patterns(name, count, seed)
    b = reference.patterns(name, count, seed + 100)
    if reference.kind(name).width > 8:
        rng.shuffle(a)
        rng.shuffle(b)
        b[: count // 8] = a[: count // 8]
    else:
        b = np.repeat(np.arange(256, dtype=np.uint64), 256)
        b = np.resize(b, count) & np.uint64((1 << reference.kind(name).width) - 1)
    if name in reference.INTEGERS:
        b[b == 0] = 1
    shifts = rng.integers(0, reference.kind(name).width, count).astype(np.uint64)
    return a, b, shifts


@flyc.kernel
def _apply(
    a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, out: fx.Tensor, name: fx.Constexpr[str],
    ops: fx.Constexpr[str], scalar: fx.Constexpr[bool],
) -> None:  # fmt: skip
    i = fx.block_idx.x * BLOCK + fx.thread_idx.x
    x, y, count = (reference.read(name, t, i) for t in (a, b, c))
    for row, op in enumerate(ops.split()):
        right = count if op in SHIFTS else y
        if fx.const_expr(scalar):
            parts = [OPERATORS[op](x[k], right[k]) for k in range(4)]
            found = fx.Vector.from_elements(parts)
        else:
            found = OPERATORS[op](x, right)
        assert found.dtype.__name__ == result_class(op, name)
        reference.write(result_class(op, name), found, out, row, i)


@flyc.jit
def _launch(
    a: fx.Tensor, b: fx.Tensor, c: fx.Tensor, out: fx.Tensor, grid: fx.Int32,
    name: fx.Constexpr[str], ops: fx.Constexpr[str], scalar: fx.Constexpr[bool],
) -> None:  # fmt: skip
    _apply(a, b, c, out, name, ops, scalar).launch(grid=(grid, 1, 1), block=(BLOCK, 1, 1))


def _check(
    arch: str, name: str, count: int, seed: int, ops: list[str], scalar: bool = False
) -> None:
    codes = operands(name, count, seed)
    stored = reference.container(name) if reference.kind(name).width >= 8 else np.uint8
    inputs = [reference.packed(name, v).astype(stored) for v in codes]
    out = np.zeros((len(ops), count), np.uint64)
    with scope(FLYDSL_TARGET=arch):
        _launch(*inputs, out, count // EACH, name, " ".join(ops), scalar)
    for op, row in zip(ops, out, strict=True):
        right = codes[2] if op in SHIFTS else codes[1]
        target = result_class(op, name)
        wanted = expected(op, name, codes[0], right)
        found = reference.unpacked(target, row)
        wrong = reference.differing(target, found, wanted)
        free = undefined(op, name, codes[0], right)
        largest = np.uint64((1 << (reference.kind(target).width - 1)) - 1)
        assert (found[free] & largest == largest).all()
        wrong = np.nonzero(wrong & ~free)[0]
        assert not len(wrong), (
            f"{name} {op}: {len(wrong)} wrong, the first is {int(codes[0][wrong[0]]):#x} {op} "
            f"{int(right[wrong[0]]):#x} = {int(found[wrong[0]]):#x}, not {int(wanted[wrong[0]]):#x}"
        )


LONG_DIVISIONS = ("Float64", "Float8E8M0FNU")
"""Classes whose remainders take many steps."""


@pytest.mark.parametrize("name", list(reference.CLASSES))
def test_every_operator_on_many_pairs(name: str) -> None:
    ops = [op for op in operators(name) if name not in LONG_DIVISIONS or op not in ("//", "%")]
    _check("gfx942", name, 1 << 16, 1, ops)


@pytest.mark.parametrize("name", LONG_DIVISIONS)
def test_long_divisions(name: str) -> None:
    _check("gfx942", name, 1 << 11, 1, ["//", "%"])


@pytest.mark.nightly
@pytest.mark.parametrize("name", LONG_DIVISIONS)
def test_long_divisions_of_many_pairs(name: str) -> None:
    _check("gfx942", name, 1 << 16, 1, ["//", "%"])


@pytest.mark.parametrize("arch", ["gfx950", "gfx1100", "gfx1201"])
@pytest.mark.parametrize(
    "name", ["Float32", "BFloat16", "Float16", "Float8E4M3FN", "Int32", "Uint8"]
)
def test_other_architectures(arch: str, name: str) -> None:
    _check(arch, name, 1 << 12, 2, operators(name))


@pytest.mark.nightly
@pytest.mark.parametrize("arch", ["gfx950", "gfx1100", "gfx1201", "gfx1250"])
@pytest.mark.parametrize("name", list(reference.CLASSES))
def test_other_architectures_on_many_pairs(arch: str, name: str) -> None:
    _check(arch, name, 1 << 16, 3, operators(name))


@pytest.mark.parametrize("name", ["Float32", "Float8E5M2", "Int32", "Int8", "Uint16", "Index"])
def test_scalars_compute_as_vectors_do(name: str) -> None:
    _check("gfx942", name, 1 << 12, 4, operators(name), scalar=True)


@pytest.mark.parametrize("name", list(reference.CLASSES))
def test_folded_results_equal_those_of_the_device(name: str) -> None:
    """The device is held to the same reference above."""
    a, b, shifts = (v[-512:] for v in operands(name, 1 << 12, seed=5))
    cls = reference.kind(name)
    for op in operators(name):
        right = shifts if op in SHIFTS else b
        target = result_class(op, name)
        found, kept = [], []
        for at, (x, y) in enumerate(zip(a, right, strict=True)):
            try:
                result = OPERATORS[op](reference.static(cls, int(x)), reference.static(cls, int(y)))
            except UserValueError:  # no such value in the class: NaN on the device
                continue
            assert type(result).__name__ == target
            found.append(reference.code(result))
            kept.append(at)
        wanted = expected(op, name, a, right)[kept]
        wrong = np.nonzero(reference.differing(target, np.array(found, np.uint64), wanted))[0]
        assert not len(wrong), (
            op, len(wrong), a[kept][wrong[0]], right[kept][wrong[0]], found[wrong[0]],
            wanted[wrong[0]],
        )  # fmt: skip
        assert kept


@flyc.kernel
def _unary(
    x: fx.Tensor, y: fx.Tensor, out: fx.Tensor, name: fx.Constexpr[str], rows: fx.Constexpr[int]
) -> None:
    i = fx.thread_idx.x
    a, b = reference.read(name, x, i), reference.read(name, y, i)
    reference.write(name, -a, out, 0, i)
    reference.write(name, abs(a), out, 1, i)
    if fx.const_expr(rows > 2):
        reference.write(name, fx.max(a, b), out, 2, i)
        reference.write(name, fx.min(a, b), out, 3, i)


@flyc.jit
def _launch_unary(
    x: fx.Tensor, y: fx.Tensor, out: fx.Tensor, name: fx.Constexpr[str], rows: fx.Constexpr[int]
) -> None:
    _unary(x, y, out, name, rows).launch(grid=1, block=BLOCK)


def _extremes(name: str, x: Any, y: Any) -> list[Any]:
    """Return maximum and minimum by codes: NaN propagates, minus zero is below zero."""
    if name not in reference.FLOATS:
        return [np.maximum(x, y), np.minimum(x, y)]
    wide = [v.astype(np.float64) for v in (x, y)]
    order = [np.where(v == 0, np.copysign(1e-320, v), v) for v in wide]
    nan = np.isnan(wide[0]) | np.isnan(wide[1])
    found = [np.where(order[0] >= order[1], *wide), np.where(order[0] <= order[1], *wide)]
    return [np.where(nan, np.nan, v).astype(reference.FLOATS[name]) for v in found]


@pytest.mark.parametrize("name", [n for n in reference.CLASSES if n != "Boolean"])
def test_negation_absolute_value_and_extremes(name: str) -> None:
    cls = reference.kind(name)
    a, b = reference.patterns(name, EACH, 6), reference.patterns(name, EACH, 7)
    np.random.default_rng(8).shuffle(b)
    b[:64] = a[:64]
    stored = reference.container(name) if cls.width >= 8 else np.uint8
    ordered = not cls.is_index and (cls.is_integer or cls.width >= 16)
    out = np.zeros((4 if ordered else 2, EACH), np.uint64)
    with scope(FLYDSL_TARGET="gfx942"):
        inputs = [reference.packed(name, v).astype(stored) for v in (a, b)]
        _launch_unary(*inputs, out, name, len(out))
    with np.errstate(all="ignore"):
        x, y = (reference.decoded(name, v) for v in (a, b))
        if cls.format is not None:
            exact = reference.exact(name, a)
            values = [reference.rounded(name, v).astype(np.float64) for v in (-exact, abs(exact))]
            wanted = [reference.encoded(name, v.astype(reference.FLOATS[name])) for v in values]
        else:
            mask = np.uint64((1 << cls.width) - 1)
            wanted = [(-x).astype(np.uint64) & mask, np.abs(x).astype(np.uint64) & mask]
        if ordered:
            wanted += [reference.encoded(name, v) for v in _extremes(name, x, y)]
    for row, codes in enumerate(wanted):
        found = reference.unpacked(name, out[row])
        wrong = np.nonzero(reference.differing(name, found, codes))[0]
        assert not len(wrong), (row, hex(a[wrong[0]]), hex(b[wrong[0]]), hex(found[wrong[0]]))


@pytest.mark.parametrize("name", [n for n in reference.CLASSES if n != "Boolean"])
def test_folded_extremes_equal_those_of_the_device(name: str) -> None:
    cls = reference.kind(name)
    if cls.is_index or (cls.is_float and cls.width < 16):
        with pytest.raises(UserTypeError, match="has no form for"):
            fx.max(reference.static(cls, 1), reference.static(cls, 2))
        return
    a, b = (reference.patterns(name, 512, seed)[-512:] for seed in (6, 9))
    numbers = [[reference.static(cls, int(v)) for v in codes] for codes in (a, b)]
    x, y = (reference.decoded(name, v) for v in (a, b))
    with np.errstate(all="ignore"):
        wanted = [reference.encoded(name, v) for v in _extremes(name, x, y)]
    for pick, codes in zip((fx.max, fx.min), wanted, strict=True):
        found = [reference.code(pick(p, q)) for p, q in zip(*numbers, strict=True)]
        assert not reference.differing(name, np.array(found, np.uint64), codes).any()
