"""Numbers of a product with preshuffled weights: what is legal, and all sizes that follow.

One workgroup of four waves makes a tile of C. Every wave has all rows of the tile and a quarter of
its columns. Of K, tiles of `tile_k` elements are worked on; 64 bytes of K of one row are a *chunk*:
16 bytes for each of four groups of lanes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from flydsl.errors import ConfigError
from flydsl.ext.arguments import check_fields
from flydsl_rocdl.kernels.epilogue import Epilogue
from flydsl_rocdl.kernels.row_exchange import WAVE_BYTES

__all__ = ["IN_DTYPES", "OUT_DTYPES", "REACH", "SIDE", "THREADS", "PreshufflePlan"]

THREADS = 256
WAVES = 4
CHUNK = 64
SIDE = 16
SCALED_K = 128
"""Elements of K that one instruction with scales takes."""
PASS_BYTES = THREADS * 16
"""Bytes that one load of every thread moves."""

IN_DTYPES: Mapping[str, tuple[str, str, int, int]] = MappingProxyType(
    {
        "mxfp4": ("fp4", "fp4", 4, 4),
        "mxfp6": ("fp6", "fp4", 8, 4),
        "mxfp8": ("fp8", "fp8", 8, 8),
        "mxfp8_fp4": ("fp8", "fp4", 8, 4),
        "bf16": ("bf16", "bf16", 16, 16),
        "fp16": ("f16", "f16", 16, 16),
        "fp8": ("fp8", "fp8", 8, 8),
        "int8": ("i8", "i8", 8, 8),
        "int4": ("i8", "i8", 8, 4),
        "bf16_int4": ("bf16", "bf16", 16, 4),
        "fp16_int4": ("f16", "f16", 16, 4),
    }
)
"""Name -> (matrix types of A and B, stored bits of A and of B).

``int4`` has int8 for A; of ``mx…`` types 32 k share an E8M0 scale.
"""
OUT_DTYPES = ("bf16", "fp16", "f32")
_MOST_ACCUMULATORS = 64
_PLAIN = Epilogue()
REACH = 2**31 - 2**20
"""Bytes of a tile's rows of one operand, so that offsets and the next step's fit 31 bits."""


def _refuse(what: str, value: object, allowed: str, hint: str = "") -> ConfigError:
    return ConfigError(what, code="FLY-C930", value=value, allowed=allowed, hint=hint)


@dataclass(frozen=True, slots=True)
class PreshufflePlan:
    """One configuration of the kernel.

    Attributes:
        in_dtype: Types of A and B, of `IN_DTYPES`.
        out_dtype: Type of C, of `OUT_DTYPES`.
        n: Columns of C, in blocks of 16.
        k: Columns of A, in whole chunks.
        tile_m: Rows of a tile, in blocks of 16.
        tile_n: Columns of a tile, in blocks of 64.
        tile_k: Columns of A in a step; A's tile is whole passes of 4096 bytes.
        epilogue: What happens to the sums.
        group_m: Rows of tiles that workgroups of a die share; 0 takes the grid's order.
        stages: Buffers of local data share, 1 or 2.
        fenced: Keep memory operations where they are put among the matrix instructions.
        direct: Load A into local data share without registers on the way; needs two buffers.
        whole_k: K of the weights and their scales where `k` is a part of it; 0: they are the same.

    Raises:
        ConfigError: A type or number that the kernel cannot do; says which are allowed.
    """

    in_dtype: str
    out_dtype: str
    n: int
    k: int
    tile_m: int
    tile_n: int
    tile_k: int
    epilogue: Epilogue = _PLAIN
    group_m: int = 0
    stages: int = 2
    fenced: bool = True
    direct: bool = False
    whole_k: int = 0

    def __post_init__(self) -> None:
        check_fields(self)
        if self.in_dtype not in IN_DTYPES:
            raise _refuse("there is no kernel for this input type", self.in_dtype,
                          ", ".join(IN_DTYPES))  # fmt: skip
        if self.out_dtype not in OUT_DTYPES:
            raise _refuse("there is no kernel for this output type", self.out_dtype,
                          ", ".join(OUT_DTYPES))  # fmt: skip
        self._check_tiles()
        if self.stages not in (1, 2):
            raise _refuse("A has one or two buffers in local data share", self.stages, "1, 2")
        if self.direct and self.stages != 2:
            raise _refuse("loads into local data share need two buffers", self.stages, "2")
        if self.group_m < 0:
            raise _refuse("a group has a number of rows", self.group_m, "0 and up")

    @property
    def paired(self) -> bool:
        """Whether a lane of a pair of chunks has 32 neighbouring bytes of A.

        So it is where 16 k of four bits meet 16-bit A, and for the 32 codes of six bits.
        """
        return IN_DTYPES[self.in_dtype][2:] == (16, 4) or self.in_dtype == "mxfp6"

    def _check_tiles(self) -> None:
        block_k = self.chunk_k * (2 if self.paired else 1)
        # Scale words hold two blocks of rows and two groups of K.
        rows, whole_k = (2 * SIDE, 2 * SCALED_K) if self.scaled else (SIDE, block_k)
        block_k = SCALED_K if self.scaled else block_k
        for name, value, unit in (
            ("tile_m", self.tile_m, rows), ("tile_n", self.tile_n, rows * WAVES),
            ("N", self.n, rows), ("K", self.k, whole_k), ("tile_k", self.tile_k, block_k),
        ):  # fmt: skip
            if value <= 0 or value % unit:
                raise _refuse(f"{name} is in blocks of {unit}", value,
                              f"positive multiples of {unit}")  # fmt: skip
        if self.row_bytes > PASS_BYTES:
            raise _refuse("a row of A's tile is longer than a pass", self.row_bytes,
                          f"up to {PASS_BYTES} bytes")  # fmt: skip
        if self.row_bytes & (self.row_bytes - 1):
            raise _refuse("rows of A's tile have a power of two of bytes", self.tile_k,
                          "tile_k a power of two")  # fmt: skip
        if self.tile_m * self.row_bytes % PASS_BYTES:
            raise _refuse(
                f"a tile of A of {self.tile_m} x {self.tile_k} is no whole number of passes",
                self.tile_m * self.row_bytes, f"multiples of {PASS_BYTES} bytes",
                hint="256 threads move 16 bytes each",
            )  # fmt: skip
        reach = max(
            self.rows_per_pass * self.a_pitch, self.column_blocks * self.b_pitch,
            self.tile_m * self.n * 4,
        )  # fmt: skip
        if reach > REACH:
            raise _refuse("a tile of an operand spans more than a buffer of 2 GiB",
                          (self.n, self.k), f"spans of up to {REACH} bytes",
                          "smaller tiles")  # fmt: skip
        if self.row_blocks * self.column_blocks > _MOST_ACCUMULATORS:
            raise _refuse("the accumulators of this tile do not fit the registers",
                          (self.tile_m, self.tile_n),
                          f"up to {_MOST_ACCUMULATORS * SIDE * SIDE * WAVES} sums")  # fmt: skip

    @property
    def scaled(self) -> bool:
        """Whether blocks of 32 k have scales."""
        return self.in_dtype.startswith("mx")

    @property
    def chunk_k(self) -> int:
        """Elements of K in a chunk of A."""
        return CHUNK * 8 // IN_DTYPES[self.in_dtype][2]

    @property
    def b_chunk_k(self) -> int:
        """Elements of K in a chunk of B: more than in one of A where B is narrower."""
        return SCALED_K if IN_DTYPES[self.in_dtype][1] == "fp4" else self.chunk_k

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of A's tile."""
        return self.tile_k * IN_DTYPES[self.in_dtype][2] // 8

    @property
    def a_pitch(self) -> int:
        """Bytes of a row of A."""
        return self.k * IN_DTYPES[self.in_dtype][2] // 8

    @property
    def b_chunk(self) -> int:
        """Bytes of one block of 16 rows of B in one chunk of B."""
        return SIDE * self.b_chunk_k * IN_DTYPES[self.in_dtype][3] // 8

    @property
    def b_pitch(self) -> int:
        """Bytes of one block of 16 rows of B."""
        return (self.whole_k or self.k) // self.b_chunk_k * self.b_chunk

    @property
    def row_blocks(self) -> int:
        """Blocks of 16 rows in a tile."""
        return self.tile_m // SIDE

    @property
    def column_blocks(self) -> int:
        """Blocks of 16 columns that a wave has."""
        return self.tile_n // (SIDE * WAVES)

    @property
    def chunks(self) -> int:
        """Chunks of A in a step."""
        return self.tile_k // self.chunk_k

    @property
    def b_chunks(self) -> int:
        """Chunks of B in a step."""
        return self.tile_k // self.b_chunk_k

    @property
    def tail_k(self) -> int:
        """Elements of K after the last whole tile."""
        return self.k % self.tile_k

    @property
    def passes(self) -> int:
        """Loads of 16 bytes that a thread makes for a tile of A."""
        return self.tile_m * self.row_bytes // PASS_BYTES

    @property
    def rows_per_pass(self) -> int:
        """Rows of A that one load of every thread covers."""
        return min(self.tile_m, PASS_BYTES // self.row_bytes)

    @property
    def steps(self) -> int:
        """Whole tiles along K."""
        return self.k // self.tile_k

    @property
    def tail_chunks(self) -> int:
        """Chunks of A after the last whole tile."""
        return self.tail_k // self.chunk_k

    @property
    def exchanged(self) -> bool:
        """Whether results pass through local data share, so that whole rows are stored."""
        narrow = self.out_dtype != "f32" and self.column_blocks == 4
        return narrow and self.lds_bytes >= WAVES * WAVE_BYTES

    @property
    def lds_bytes(self) -> int:
        """Bytes of local data share."""
        return self.stages * self.tile_m * self.row_bytes
