"""Products with E8M0 scales of batches, and of rows any distance apart.

Distances are run-time numbers, so one launcher serves all of them. A workgroup's third index is its
matrix of the batch: where its operands begin is computed in 64 bits.
"""

from __future__ import annotations

from dataclasses import astuple, dataclass
from functools import lru_cache
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import ConfigError
from flydsl.ext.arguments import check_fields
from flydsl_kernels.gemm.device.preshuffle.checked import Sizes
from flydsl_kernels.gemm.device.preshuffle.operands import Pitches
from flydsl_kernels.gemm.device.preshuffle.plan import REACH, SIDE, THREADS, PreshufflePlan
from flydsl_kernels.gemm.device.preshuffle.results import finish
from flydsl_kernels.gemm.device.preshuffle.setup import body_of, place_of, steps_of
from flydsl_rocdl.kernels.pipelining import pipelined

__all__ = ["BatchStrides", "Distances", "batched_launcher", "parts_apart"]

_SHARED = 32
_OUT_BYTES = {"bf16": 2, "fp16": 2, "f32": 4}


@dataclass(frozen=True, slots=True)
class BatchStrides:
    """Distances between rows, and between the matrices of a batch; -1 stands for no gaps.

    Attributes:
        a_row: Between rows of A, in bytes: a multiple of 4.
        a_batch: Between matrices A, in bytes: a multiple of 4; 0 gives all the same one.
        sca_row: Between rows of A's scales, in bytes. The rows of a block of 32 are rearranged
            together, so blocks are 32 times this apart.
        sca_batch: Between matrices of A's scales, in bytes: a multiple of 4.
        c_row: Between rows of C, in elements.
        c_batch: Between matrices C, in elements.
    """

    a_row: int = -1
    a_batch: int = -1
    sca_row: int = -1
    sca_batch: int = -1
    c_row: int = -1
    c_batch: int = -1

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def plain(self) -> bool:
        """Whether there are no gaps."""
        return all(distance < 0 for distance in astuple(self))

    def resolved(self, plan: PreshufflePlan, m: int, batch: int) -> BatchStrides:
        """Return the same with numbers for all.

        Args:
            plan: The product.
            m: Rows of A.
            batch: Matrices.

        Raises:
            ConfigError: Rows that overlap, an alignment that loads do not have, a tile that spans
                more than a buffer, or a C of which several results are written to one place.
        """
        per_row, blocks = plan.k // _SHARED, -(-m // (2 * SIDE)) * 2 * SIDE
        a_row = _chosen(self.a_row, plan.a_pitch)
        sca_row = _chosen(self.sca_row, per_row)
        c_row = _chosen(self.c_row, plan.n)
        found = BatchStrides(
            a_row, _chosen(self.a_batch, m * a_row), sca_row,
            _chosen(self.sca_batch, blocks * sca_row), c_row, _chosen(self.c_batch, m * c_row),
        )  # fmt: skip
        size = _OUT_BYTES[plan.out_dtype]
        if batch < 0 or m < 0:
            raise _refused("numbers of rows and matrices are not negative", (m, batch), "0 and up")
        for name, value, least, unit in (
            ("a_row", a_row, plan.a_pitch, 4), ("a_batch", found.a_batch, 0, 4),
            ("sca_row", sca_row, per_row, 1), ("sca_batch", found.sca_batch, 0, 4),
            ("c_row", c_row, plan.n, 4 // size), ("c_batch", found.c_batch, 0, 4 // size),
        ):  # fmt: skip
            if value < least or value % unit:
                raise _refused(
                    f"{name}_stride is too small or not aligned", value,
                    f"multiples of {unit} from {least} on, or -1 for no gaps",
                )  # fmt: skip
        reach = max(plan.rows_per_pass * a_row, 2 * SIDE * sca_row, plan.tile_m * c_row * size)
        if reach > REACH:
            raise _refused("a tile of an operand spans more than a buffer of 2 GiB",
                           (a_row, sca_row, c_row), f"spans of up to {REACH} bytes")  # fmt: skip
        apart = found.c_batch >= (m - 1) * c_row + plan.n
        between = found.c_batch >= plan.n and c_row >= (batch - 1) * found.c_batch + plan.n
        if batch > 1 and m and not (apart or between):
            raise _refused(
                "matrices C of the batch overlap", (c_row, found.c_batch),
                "c_batch_stride past the last row, or a row of each matrix before the next one",
            )  # fmt: skip
        return found

    def check(self, plan: PreshufflePlan, arrays: tuple[Any, ...], m: int, batch: int) -> None:
        """Check that the arrays reach as far as the distances, which are resolved.

        Args:
            plan: The product.
            arrays: C, A, B and the scales of A and B.
            m: Rows of A.
            batch: Matrices.

        Raises:
            UserValueError: One is known to be too small, or C to have another type.
        """
        per_row, pairs = plan.k // _SHARED, -(-m // (2 * SIDE))
        size = _OUT_BYTES[plan.out_dtype]
        if not (m and batch):
            return
        c, a, b, scale_a, scale_b = (
            Sizes(name, array)
            for name, array in zip(("C", "A", "B", "scale_a", "scale_b"), arrays, strict=True)
        )
        last = batch - 1
        c.element(size)
        c.at_least((last * self.c_batch + (m - 1) * self.c_row + plan.n) * size)
        a.at_least(last * self.a_batch + (m - 1) * self.a_row + plan.a_pitch)
        b.exactly(batch * plan.n // SIDE * plan.b_pitch)
        rest = (pairs - 1) * self.sca_row + per_row
        scale_a.at_least(last * self.sca_batch + 2 * SIDE * rest)
        scale_b.exactly(batch * plan.n * per_row)


def _chosen(given: int, plain: int) -> int:
    return plain if given < 0 else given


def _refused(what: str, value: object, allowed: str) -> ConfigError:
    return ConfigError(what, code="FLY-C930", value=value, allowed=allowed)


def weights_apart(plan: PreshufflePlan) -> tuple[int, int]:
    """Return the bytes from the weights of one layer to the next one's, and of their scales.

    Layers are the matrices of a batch, or parts of K of one matrix (`whole_k`).
    """
    if plan.whole_k:
        # A word has the scales of 256 k, of two rows; lanes have 32 rows together.
        return plan.k // plan.b_chunk_k * plan.b_chunk, plan.k
    return plan.n // SIDE * plan.b_pitch, plan.n * (plan.k // _SHARED)


def parts_apart(plan: PreshufflePlan, rows: int) -> Distances:
    """Return the distances of the parts of K of one product, whose sums are layers of C.

    Args:
        plan: One part; `whole_k` is all of K.
        rows: M.
    """
    whole, parts = plan.whole_k, plan.whole_k // plan.k
    pitch = plan.a_pitch * parts
    return Distances(parts, pitch, plan.a_pitch, whole // _SHARED, plan.k, plan.n, rows * plan.n)


@fx.struct
class Distances(fx.Struct):
    """Resolved `BatchStrides`, and the number of matrices."""

    batch: fx.Int32
    a_row: fx.Int32
    a_batch: fx.Int64
    sca_row: fx.Int32
    sca_batch: fx.Int64
    c_row: fx.Int32
    c_batch: fx.Int64


@flyc.kernel
def batched_kernel(
    C: fx.Tensor, A: fx.Tensor, B: fx.Tensor, ScaleA: fx.Tensor, ScaleB: fx.Tensor, M: fx.Int32,
    apart: Distances, plan: fx.Constexpr[PreshufflePlan],
) -> None:  # fmt: skip
    """Make one tile of one C of a batch."""
    columns, layer = fx.Int32(plan.n), fx.block_idx.z.to(fx.Int64)
    weights, scales = weights_apart(plan)
    a, b, scale_a, scale_b = (
        fx.recast_iter(fx.Int8, tensor.iter) + layer * pitch
        for tensor, pitch in (
            (A, apart.a_batch), (B, weights), (ScaleA, apart.sca_batch), (ScaleB, scales),
        )
    )  # fmt: skip
    place = place_of(plan, M, columns)
    pitches = Pitches(apart.a_row, apart.sca_row * (2 * SIDE), apart.c_row)
    body = body_of(plan, (a, b, scale_a, scale_b), (M, columns), place, pitches)
    acc = steps_of(plan, body, pipelined)
    c = fx.recast_iter(fx.Int8, C.iter) + layer * apart.c_batch * _OUT_BYTES[plan.out_dtype]
    finish(plan, acc, c, None, (M, columns), place, body.stage.base, pitches)


@lru_cache(maxsize=256)
def batched_launcher(plan: PreshufflePlan, waves_per_eu: Any = None) -> Any:
    """Return the launcher of a plan for batches and distances, the same one for the same plan."""

    @flyc.jit
    def launch(
        C: fx.Tensor, A: fx.Tensor, B: fx.Tensor, scale_a: fx.Tensor, scale_b: fx.Tensor,
        M: fx.Int32, apart: Distances, stream: fx.Stream,
    ) -> None:  # fmt: skip
        grid = ((M + (plan.tile_m - 1)) // plan.tile_m, -(-plan.n // plan.tile_n), apart.batch)
        batched_kernel(C, A, B, scale_a, scale_b, M, apart, plan).launch(
            grid=grid, block=(THREADS, 1, 1), stream=stream
        )

    if waves_per_eu is not None:
        return flyc.compile[{"waves_per_eu": waves_per_eu}](launch)
    return launch
