"""The number formats of the grouped products, and how a step along K is laid out in each.

A step takes `tile_k` columns. The activations of a step are `row_bytes` per row, in pieces of 16
bytes; a lane's weights of 16 rows are `loads` pieces of `load_bytes`. Both operands of a matrix
instruction are read so that a lane's columns agree, which for packed weights is not the order of
the pieces: see `Format.piece`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["FORMATS", "Format"]


@dataclass(frozen=True, slots=True)
class Format:
    """How activations and weights are represented.

    Attributes:
        name: Its name.
        activations: Element types of the activations as arrays have them.
        weights: Element types of `PreshuffledWeight`.
        layout: Its order.
        bits: Bits of an activation's element.
        weight_bits: Bits of a weight.
        tile_k: Columns of a step.
        load_bytes: Bytes of one load of weights per lane.
        chunks: Groups of columns that are multiplied together.
        a_scale: Scales of the activations: ``none``, ``row``, ``block`` (128 columns) or ``mx``
            (32 columns, powers of two).
        w_scale: Scales of the weights: ``none``, ``channel``, ``block`` (128 x 128), ``group``
            (some columns of a row) or ``mx``.
        family: Family of matrix instructions that the architecture has to have.
    """

    name: str
    activations: tuple[str, ...]
    weights: tuple[str, ...]
    layout: str
    bits: int
    weight_bits: int
    tile_k: int
    load_bytes: int
    chunks: int
    a_scale: str = "none"
    w_scale: str = "none"
    family: str = "mfma"

    @property
    def row_bytes(self) -> int:
        """Bytes of an activation's row in a step."""
        return self.tile_k * self.bits // 8

    @property
    def pieces(self) -> int:
        """Pieces of 16 bytes of an activation's row in a step."""
        return self.row_bytes // 16

    @property
    def weight_tile(self) -> int:
        """Bytes of 16 rows of weights in a step."""
        return 16 * self.tile_k * self.weight_bits // 8

    @property
    def loads(self) -> int:
        """Loads of a lane for 16 rows of weights in a step."""
        return self.weight_tile // (64 * self.load_bytes)

    @property
    def rows(self) -> int:
        """Rows that weights are padded to a multiple of, gate and gated part each."""
        return {"block": 128, "mx": 32}.get(self.w_scale, 16)

    @property
    def integer(self) -> bool:
        """Whether products are summed as integers."""
        return self.bits == 8 and self.activations == ("int8",)

    def piece(self, chunk: int, group: int) -> int:
        """Return the first piece of an activation's row that a lane multiplies.

        Args:
            chunk: Number of the chunk.
            group: A quarter of the wave, 0 to 3.
        """
        if self.layout == "int4_packed" and self.bits == 16:
            return 2 * group + chunk
        if self.layout == "fp4_16lane":
            return {16: 4 * group + chunk, 8: 8 * chunk + group, 4: 4 * chunk + group}[self.bits]
        return 4 * chunk + group


_FP8 = ("float8_e4m3fn", "float8_e4m3fnuz")
_MX = "mfma_scale"


def _table(*formats: Format) -> Mapping[str, Format]:
    return MappingProxyType({item.name: item for item in formats})


FORMATS: Mapping[str, Format] = _table(
    Format("bf16", ("bfloat16",), ("bfloat16",), "16x16", 16, 16, 64, 16, 2),
    Format("f16", ("float16",), ("float16",), "16x16", 16, 16, 64, 16, 2),
    Format("fp8", _FP8, _FP8, "16x16", 8, 8, 128, 16, 2, "row", "channel"),
    Format("fp8_block", _FP8, _FP8, "16x16", 8, 8, 128, 16, 2, "block", "block"),
    Format("int8", ("int8",), ("int8",), "16x16", 8, 8, 128, 16, 2, "row", "channel"),
    Format("int8_int4", ("int8",), ("int4",), "int4_packed", 8, 4, 128, 8, 2, "row", "channel"),
    Format("bf16_int4", ("bfloat16",), ("int4",), "int4_packed", 16, 4, 64, 8, 2, "none", "group"),
    Format("bf16_mxfp4", ("bfloat16",), ("float4_e2m1fn",), "fp4_16lane", 16, 4, 128, 16, 4,
           "none", "mx", _MX),
    Format("mxfp8_mxfp4", ("float8_e4m3fn",), ("float4_e2m1fn",), "fp4_16lane", 8, 4, 256, 16, 2,
           "mx", "mx", _MX),
    Format("mxfp4", ("uint8", "float4_e2m1fn_x2"), ("float4_e2m1fn",), "fp4_16lane", 4, 4, 256, 16,
           2, "mx", "mx", _MX),
)  # fmt: skip
"""All formats by name."""
