"""What to run the kernels of this folder on, and what must come out."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = Any


@dataclass(frozen=True)
class Case:
    """One kernel with its arguments.

    Attributes:
        name: For tests and files.
        module: File of the kernel.
        launcher: Name of the launcher in it.
        arrays: Makes the inputs, and last the output filled with NaN.
        scalars: Further arguments of the launcher, in order.
        kernel_scalars: Further arguments of the kernel: struct formats and values.
        grid, block: Geometry that the launcher computes.
        expected: The result in float64, from the inputs.
        tolerance: Largest absolute error, from the number formats.
        arches: Beginnings of the names of the architectures that it is for.
    """

    name: str
    module: str
    launcher: str
    arrays: Callable[[np.random.Generator], list[Array]]
    scalars: tuple[Any, ...]
    kernel_scalars: tuple[tuple[str, Any], ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    expected: Callable[..., Array]
    tolerance: float
    arches: tuple[str, ...] = ("gfx",)

    def launch(self) -> Any:
        """Return the launcher; its folder must be importable."""
        return getattr(importlib.import_module(self.module), self.launcher)

    def check(self, arrays: list[Array]) -> None:
        """Compare the last array with what the others give."""
        wide = [x.astype(np.float64) for x in arrays]
        error = np.abs(wide[-1] - self.expected(*wide[:-1])).max()
        assert error <= self.tolerance, f"{self.name}: {error} > {self.tolerance}"


N = 1000
ROWS, COLUMNS = 9, 1024
EPS = 1e-5
GM, GN, GK = 96, 64, 80


def _vectors(random: np.random.Generator) -> list[Array]:
    a, b = (random.standard_normal(N).astype(np.float32) for _ in "ab")
    return [a, b, np.full(N, np.nan, np.float32)]


def _softmax_rows(random: np.random.Generator) -> list[Array]:
    x = (4 * random.standard_normal((ROWS, COLUMNS))).astype(np.float32)
    return [x, np.full_like(x, np.nan)]


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _norm_rows(random: np.random.Generator) -> list[Array]:
    x = random.standard_normal((ROWS, COLUMNS)).astype(np.float16)
    w = random.standard_normal(COLUMNS).astype(np.float16)
    return [x, w, np.full_like(x, np.nan)]


def _rmsnorm(x: Array, w: Array) -> Array:
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + EPS) * w


def _matrices(random: np.random.Generator) -> list[Array]:
    # Small integers: every sum is exact in float32.
    a = random.integers(-8, 9, (GM, GK)).astype(np.float16)
    b = random.integers(-8, 9, (GN, GK)).astype(np.float16)
    return [a, b, np.full((GM, GN), np.nan, np.float32)]


CASES = (
    Case(
        "vector_add", "vector_add", "launch", _vectors, (N,), (("i", N),),
        (-(-N // 256), 1, 1), (256, 1, 1), lambda a, b: a + b, 4 * 2.0**-24,
    ),
    # Probabilities below 1: an exponent's argument of up to 32 ln 2 costs at most 3 t 2^-24 of
    # a value 2^-t, exp 1, the sum 12, the quotient 2; 40 covers all of it.
    Case(
        "softmax", "row_kernels", "launch_softmax", _softmax_rows, (ROWS, COLUMNS), (),
        (ROWS, 1, 1), (256, 1, 1), _softmax, 40 * 2.0**-24,
    ),
    # Results below 16, rounded to half precision: half a unit is 2^-8; float32 adds far less.
    Case(
        "rmsnorm", "row_kernels", "launch_rmsnorm", _norm_rows, (EPS, ROWS, COLUMNS),
        (("f", EPS),), (ROWS, 1, 1), (256, 1, 1), _rmsnorm, 2.0**-8 * 1.01,
    ),
    Case(
        "tiled_gemm", "tiled_gemm", "launch", _matrices, (GM, GN, GK), (),
        (GM // 32, GN // 32, 1), (256, 1, 1), lambda a, b: a @ b.T, 0.0, ("gfx9",),
    ),
    Case(
        "wave_gemm", "wave_gemm", "launch", _matrices, (GM, GN, GK), (),
        (GM // 32, GN // 32, 1), (128, 1, 1), lambda a, b: a @ b.T, 0.0, ("gfx11", "gfx12"),
    ),
)  # fmt: skip
