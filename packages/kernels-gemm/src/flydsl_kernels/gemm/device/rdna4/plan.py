"""Numbers of a product with weights in layout ``rdna4_fp8``: what is legal, and what follows.

A workgroup of two waves makes a tile of C; each wave has all of its rows and half of its columns.
"""

from __future__ import annotations

from dataclasses import dataclass

from flydsl.errors import ConfigError
from flydsl.ext.arguments import check_fields
from flydsl_rocdl.kernels.epilogue import Epilogue

__all__ = ["SIDE", "STEP", "THREADS", "WAVE", "WAVES", "Rdna4Plan"]

SIDE = 16
WAVE = 32
WAVES = 2
THREADS = WAVE * WAVES
STEP = 32
"""Elements of K that a lane's load of 16 bytes of A serves: those of two instructions."""
_OUTPUTS = ("bf16", "f32")
_MOST_TILES = 16
_MOST_UNROLLED = 8
_REACH = 2**31 - 2**20
_SCALED = Epilogue(True)


def _refuse(what: str, value: object, allowed: str) -> ConfigError:
    return ConfigError(what, code="FLY-C930", value=value, allowed=allowed)


@dataclass(frozen=True, slots=True)
class Rdna4Plan:
    """One configuration of the kernel.

    Attributes:
        n: Columns of C, in 16.
        k: Columns of A, whole tiles.
        tile_m: Rows of a workgroup's tile, in 16.
        tile_n: Columns of it, in 32.
        tile_k: Columns of A that are loaded together, in 32.
        k_unroll: Tiles along K in one turn of the loop; 1 counts as 2, as one is loaded ahead.
        group_m: Rows of tiles that neighbouring workgroups share; 0 walks row by row.
        out_dtype: ``bf16`` or ``f32``.
        epilogue: What happens to the sums.

    Raises:
        ConfigError: A number that the kernel cannot do; says which are allowed.
    """

    n: int
    k: int
    tile_m: int = 32
    tile_n: int = 128
    tile_k: int = 32
    k_unroll: int = 2
    group_m: int = 8
    out_dtype: str = "bf16"
    epilogue: Epilogue = _SCALED

    def __post_init__(self) -> None:
        check_fields(self)
        for name, value, unit in (
            ("N", self.n, SIDE), ("tile_m", self.tile_m, SIDE),
            ("tile_n", self.tile_n, SIDE * WAVES), ("tile_k", self.tile_k, STEP),
        ):  # fmt: skip
            if value <= 0 or value % unit:
                raise _refuse(f"{name} is in blocks of {unit}", value,
                              f"positive multiples of {unit}")  # fmt: skip
        if self.k <= 0 or self.k % self.tile_k:
            raise _refuse("K is in whole tiles", self.k, f"positive multiples of {self.tile_k}")
        if self.row_blocks * self.column_blocks > _MOST_TILES:
            raise _refuse("the accumulators of this tile do not fit the registers",
                          (self.tile_m, self.tile_n),
                          f"up to {_MOST_TILES * SIDE * SIDE * WAVES} sums")  # fmt: skip
        if (self.row_blocks + self.column_blocks) * self.tile_k > 16 * STEP:
            raise _refuse("the operands of this tile do not fit the registers",
                          (self.tile_m, self.tile_n, self.tile_k), "a smaller tile_k")  # fmt: skip
        if not 1 <= self.k_unroll <= _MOST_UNROLLED:
            raise _refuse("a turn of the loop has no such number of tiles", self.k_unroll,
                          f"1 to {_MOST_UNROLLED}")  # fmt: skip
        if self.group_m < 0:
            raise _refuse("a group has a number of rows", self.group_m, "0 and up")
        if self.out_dtype not in _OUTPUTS:
            raise _refuse("there is no kernel for this output type", self.out_dtype,
                          ", ".join(_OUTPUTS))  # fmt: skip
        reach = max(self.tile_m * max(self.k, 4 * self.n), self.tile_n * self.k)
        if reach > _REACH:
            raise _refuse("a tile of an operand spans more than a buffer of 2 GiB",
                          (self.n, self.k), f"spans of up to {_REACH} bytes")  # fmt: skip

    @property
    def row_blocks(self) -> int:
        """Blocks of 16 rows in a tile."""
        return self.tile_m // SIDE

    @property
    def column_blocks(self) -> int:
        """Blocks of 16 columns that a wave has."""
        return self.tile_n // (SIDE * WAVES)

    @property
    def tiles_n(self) -> int:
        """Tiles along N."""
        return -(-self.n // self.tile_n)
