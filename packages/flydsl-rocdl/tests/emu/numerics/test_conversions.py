"""Every conversion between numeric classes, on every architecture, against NumPy and ml_dtypes."""

from __future__ import annotations

from typing import Any

import number_reference as reference
import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope
from flydsl.errors import UserValueError
from flydsl.expr.numeric.convert import ROUNDING_MODES

CLASSES = list(reference.CLASSES)
BLOCK = 256
EACH = 4 * BLOCK
MODES = ROUNDING_MODES[1:]
NARROWED = ["Float32", "Float16", "BFloat16", "Float8E5M2", "Float8E4M3FN", "Float8E4M3FNUZ",
            "Float8E4M3B11FNUZ", "Float6E2M3FN", "Float6E3M2FN", "Float4E2M1FN",
            "Float8E8M0FNU"]  # fmt: skip


@flyc.kernel
def _convert(
    x: fx.Tensor, out: fx.Tensor, source: fx.Constexpr[str], targets: fx.Constexpr[str],
    mode: fx.Constexpr[str], scalar: fx.Constexpr[bool],
) -> None:  # fmt: skip
    i = fx.block_idx.x * BLOCK + fx.thread_idx.x
    numbers = reference.read(source, x, i)
    for row, target in enumerate(targets.split()):
        chosen = reference.kind(target)
        if fx.const_expr(scalar):
            found = fx.Vector.from_elements([numbers[k].to(chosen) for k in range(4)])
        elif fx.const_expr(mode):
            found = numbers.to(chosen, rounding_mode=mode)
        else:
            found = numbers.to(chosen)
        reference.write(target, found, out, row, i)


@flyc.jit
def _launch(
    x: fx.Tensor, out: fx.Tensor, grid: fx.Int32, source: fx.Constexpr[str],
    targets: fx.Constexpr[str], mode: fx.Constexpr[str], scalar: fx.Constexpr[bool],
) -> None:  # fmt: skip
    _convert(x, out, source, targets, mode, scalar).launch(grid=(grid, 1, 1), block=(BLOCK, 1, 1))


def _converted(
    arch: str, source: str, targets: list[str], codes: Any, mode: str = "", scalar: bool = False
) -> Any:
    stored = reference.container(source) if reference.kind(source).width >= 8 else np.uint8
    x = reference.packed(source, codes).astype(stored)
    out = np.zeros((len(targets), len(codes)), np.uint64)
    with scope(FLYDSL_TARGET=arch):
        _launch(x, out, len(codes) // EACH, source, " ".join(targets), mode, scalar)
    return [reference.unpacked(name, row) for name, row in zip(targets, out, strict=True)]


def _check(arch: str, source: str, count: int, seed: int, scalar: bool = False) -> None:
    codes = reference.patterns(source, count, seed)
    targets = [name for name in CLASSES if name != source]
    for target, found in zip(
        targets, _converted(arch, source, targets, codes, scalar=scalar), strict=True
    ):
        wrong = reference.disagreeing(source, target, codes, found)
        assert not len(wrong), (
            f"{source} to {target}: {len(wrong)} wrong, the first is "
            f"{int(codes[wrong[0]]):#x} to {int(found[wrong[0]]):#x}"
        )


@pytest.mark.parametrize("source", CLASSES)
def test_every_pair_on_many_patterns(source: str) -> None:
    _check("gfx942", source, 1 << 16, seed=1)


SUBSET = [(arch, source) for arch in ("gfx950", "gfx1100", "gfx1201")
          for source in ("Float64", "Float32", "Float8E5M2", "Float8E4M3FN", "Float6E3M2FN",
                         "Float4E2M1FN", "Int32")]  # fmt: skip
SUBSET.append(("gfx1250", "Float32"))


@pytest.mark.parametrize(("arch", "source"), SUBSET)
def test_other_architectures(arch: str, source: str) -> None:
    _check(arch, source, 1 << 13, seed=2)


@pytest.mark.nightly
@pytest.mark.parametrize("arch", ["gfx950", "gfx1100", "gfx1201", "gfx1250"])
@pytest.mark.parametrize("source", CLASSES)
def test_other_architectures_on_many_patterns(arch: str, source: str) -> None:
    _check(arch, source, 1 << 16, seed=3)


@pytest.mark.parametrize("source", ["Float32", "Float64", "Float8E4M3FNUZ", "Int32", "Uint8"])
def test_scalars_convert_as_vectors_do(source: str) -> None:
    _check("gfx942", source, EACH * 4, seed=4, scalar=True)


@pytest.mark.parametrize("arch", ["gfx950", "gfx1201"])
def test_scalars_with_other_instructions(arch: str) -> None:
    _check(arch, "Float32", EACH * 4, seed=5, scalar=True)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("source", ["Float64", "Float32", "BFloat16", "Float16"])
def test_rounding_modes(source: str, mode: str) -> None:
    targets = [name for name in NARROWED
               if reference.kind(name).width <= reference.kind(source).width
               and name != source]  # fmt: skip
    codes = reference.patterns(source, 1 << 13, seed=6)
    values = reference.exact(source, codes)
    for target, found in zip(
        targets, _converted("gfx942", source, targets, codes, mode), strict=True
    ):
        with np.errstate(all="ignore"):
            wanted = reference.rounded(target, values, mode).astype(np.float64)
            wanted = reference.encoded(target, wanted.astype(reference.FLOATS[target]))
        wrong = reference.differing(target, found, wanted) & ~np.isnan(values)
        first = np.nonzero(wrong)[0][:1]
        assert not wrong.any(), (target, wrong.sum(), values[first], found[first], wanted[first])


@pytest.mark.parametrize("source", CLASSES)
def test_folded_conversions_equal_those_of_the_device(source: str) -> None:
    """The device is held to the same reference above."""
    codes = np.unique(reference.patterns(source, 1 << 10, seed=7))
    cls = reference.kind(source)
    values = [reference.static(cls, int(code)) for code in codes]
    for target in CLASSES:
        chosen = reference.kind(target)
        found, kept = [], []
        for at, value in enumerate(values):
            try:
                found.append(reference.code(value.to(chosen)))
            except UserValueError:  # no such value in the class; undefined or NaN on the device
                continue
            kept.append(at)
        wrong = reference.disagreeing(source, target, codes[kept], np.array(found, dtype=np.uint64))
        assert not len(wrong), (target, codes[kept][wrong[:3]], [found[i] for i in wrong[:3]])
        assert len(kept) > len(values) // 5, target


@pytest.mark.parametrize("name", [n for n in reference.FLOATS if n not in ("Float64", "BFloat16")])
def test_the_reference_rounds_as_ml_dtypes_does(name: str) -> None:
    with np.errstate(all="ignore"):
        values = reference.decoded("Float32", reference.patterns("Float32", 1 << 13, seed=8))
        values = values[~np.isnan(values)]
        if name == "Float8E8M0FNU":  # ml_dtypes rounds f32 denormals up, whatever is nearer
            values = values[~((values > 0) & (values < 2.0**-126))]
        wanted = reference.encoded(name, values.astype(reference.FLOATS[name]))
        found = reference.rounded(name, values.astype(reference.LONG)).astype(np.float64)
        found = reference.encoded(name, found.astype(reference.FLOATS[name]))
    assert not reference.differing(name, found, wanted).any()
