"""What a kernel is compiled for: `GemmConfig`, chosen or given, and `GemmPlan`, derived from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from flydsl.ext.arguments import check_fields
from flydsl_kernels.gemm.instruction import PIECE, MatrixCore

__all__ = [
    "KINDS",
    "SHARED_STEP",
    "WEIGHTS",
    "EpiloguePlan",
    "GemmConfig",
    "GemmPlan",
    "Kind",
    "MxPlan",
    "OperandPlan",
    "WeightOrder",
    "steps_early",
]


@dataclass(frozen=True, slots=True)
class WeightOrder:
    """How a unit lies in memory: parts of all 16 columns, one part after the other.

    A unit is a piece, what 16 bytes of k of A meet, or two of them where they are packed.

    Attributes:
        parts: Parts of a unit.
        part_bytes: Bytes of a part of one column.
        unit_k: Elements along k of a unit of packed elements; 0: a unit is a piece.
    """

    parts: int
    part_bytes: int
    unit_k: int = 0

    @property
    def unit_bytes(self) -> int:
        """Bytes of a unit of one column."""
        return self.parts * self.part_bytes

    def pieces(self, element_bytes: int) -> int:
        """Return how many pieces a unit has, by the bytes of an element of A."""
        return max(1, self.unit_k * element_bytes // PIECE)


WEIGHTS: Mapping[str, WeightOrder] = MappingProxyType(
    {
        "16x16": WeightOrder(1, PIECE),
        "cdna5_16x16": WeightOrder(1, PIECE),
        "rdna4_fp8": WeightOrder(2, PIECE // 2),
        "int4_packed": WeightOrder(1, 8, 16),
    }
)
"""Orders that fragments are made of, by the names of `flydsl_rocdl.kernels.preshuffle.LAYOUTS`."""


@dataclass(frozen=True, slots=True)
class GemmConfig:
    """How a product is divided; `flydsl_kernels.gemm.plan_gemm` lists the legal ones.

    Attributes:
        tile_m: Rows of C that a workgroup computes.
        tile_n: Columns of C that a workgroup computes.
        tile_k: Columns of A that are in LDS at a time.
        waves_m: Waves of a workgroup along M.
        waves_n: Waves of a workgroup along N.
        split_k: Workgroups that share a tile of C, each with a part of K; their sums are added in
            a second launch, always in the same order.
        group_m: Tiles along M that are walked together, so that neighbours share rows of B in L2.
        direct: Load operands whose k is contiguous from memory into LDS, not through registers; by
            the tensor data mover where there is one.
        streams: Workgroups that share the steps of all tiles evenly, at least as many as there are
            tiles; their sums are added in a second launch. 0: one workgroup a tile, or `split_k`.

    Raises:
        UserTypeError: One of these is no integer, or `direct` no truth value.
    """

    tile_m: int
    tile_n: int
    tile_k: int
    waves_m: int
    waves_n: int
    split_k: int = 1
    group_m: int = 8
    direct: bool = False
    streams: int = 0

    def __post_init__(self) -> None:
        check_fields(self)

    @property
    def waves(self) -> int:
        """Waves of a workgroup."""
        return self.waves_m * self.waves_n


def steps_early(tiles_m: int) -> int:
    """Return how many steps A is read from LDS before its products, of so many tiles each."""
    return max(1, 4 // tiles_m)


@dataclass(frozen=True, slots=True)
class OperandPlan:
    """How one operand's tile goes through LDS: rows of `chunks` pieces of 16 bytes along k.

    Attributes:
        rows: Rows of the tile (rows of A, or columns of B).
        chunks: Pieces of a row; a power of two.
        element_bytes: Bytes of an element.
        k_major: Whether k is contiguous in global memory; else the rows are.
        vector: Bytes of one load from global memory: 16, 4, 2 or 1.
        threads: Threads of the workgroup.
        line: Pieces that all banks of LDS hold together.
        spread: Tiles of 16 rows whose rows alternate, so that a lane's results are wider.
        values: Results of a lane in one tile.
        interleaved: Whether results of lane groups alternate (`MatrixCore.interleaved`).
        ragged: Whether the last tile along k is not full.
        direct: Whether loads go into LDS, not through registers.
        transposing: Whether rows are contiguous in LDS too, and LDS reads transpose.
        near: Whether the matrix spans less than 2 GiB, so that offsets have 32 bits.
        tensor: Waves that share a tile's transfers by the tensor data mover; 0: it is not used.
        order: How preshuffled weights are arranged; they go to registers, not through LDS.
        unpacking: What makes elements of packed ones, of `flydsl_rocdl.kernels.unpacking`.
    """

    rows: int
    chunks: int
    element_bytes: int
    k_major: bool
    vector: int
    threads: int
    line: int
    spread: int = 1
    values: int = 4
    interleaved: bool = False
    ragged: bool = True
    direct: bool = False
    transposing: bool = False
    near: bool = False
    tensor: int = 0
    order: str = ""
    unpacking: str = ""

    @property
    def distance(self) -> int:
        """Pieces from one row of LDS to the next: one more than it has if it is transferred."""
        return self.chunks + bool(self.tensor)

    @property
    def pieces(self) -> int:
        """Pieces of LDS for the tile."""
        return 0 if self.order else self.rows * self.distance

    @property
    def pitch(self) -> int:
        """Pieces of 16 bytes of a row of LDS: along k, or for transposing reads along rows."""
        return self.rows * self.element_bytes // PIECE if self.transposing else self.chunks

    @property
    def whole(self) -> bool:
        """Whether pieces are moved to LDS as they are."""
        return self.k_major or self.transposing

    @property
    def row_bytes(self) -> int:
        """Bytes of a row in LDS."""
        return self.chunks * PIECE

    @property
    def tile_k(self) -> int:
        """Elements of a row in LDS."""
        return self.row_bytes // self.element_bytes

    @property
    def run(self) -> int:
        """Where the rows are contiguous: rows that a thread loads together."""
        each = self.rows * self.chunks // self.threads
        limit = PIECE // self.element_bytes
        return max(4 // self.element_bytes, min(limit, 1 << max(0, each.bit_length() - 1)))

    @property
    def items(self) -> int:
        """Pieces, or runs of rows times one piece, of the whole tile."""
        pieces = self.rows * self.chunks
        return pieces if self.whole else pieces // self.run

    @property
    def turns(self) -> int:
        """Items of a thread; without `partial` every thread has that many."""
        return -(-self.items // self.threads)

    @property
    def partial(self) -> bool:
        """Whether some threads have no item."""
        return self.items < self.threads


@dataclass(frozen=True, slots=True)
class EpiloguePlan:
    """What happens to a sum before it is stored: scales, bias, activation, residual, rounding.

    Attributes:
        scale_a: ``""``, ``"tensor"`` (one number), ``"row"`` or ``"block"``.
        scale_b: ``""``, ``"tensor"``, ``"row"`` (a number per column of C) or ``"block"``.
        bias: Whether a vector over the columns is added.
        activation: ``""``, ``"relu"``, ``"silu"``, ``"gelu"`` or ``"gelu_erf"``.
        residual: Whether a matrix is added last.
        scale_out: ``""``, ``"tensor"`` or ``"row"``: the result is divided by it.
        vector: Columns that are stored together.
    """

    scale_a: str = ""
    scale_b: str = ""
    bias: bool = False
    activation: str = ""
    residual: bool = False
    scale_out: str = ""
    vector: int = 1


@dataclass(frozen=True, slots=True)
class GemmPlan:
    """All that a kernel is compiled for.

    Attributes:
        config: The division.
        core: The instruction.
        a: How A is loaded.
        b: How B is loaded.
        epilogue: How results are finished.
        block: k that share a scale in the loop; 0 where scales are applied at the end.
        dies: Dies that workgroups are dealt to in turn.
    """

    config: GemmConfig
    core: MatrixCore
    a: OperandPlan
    b: OperandPlan
    epilogue: EpiloguePlan
    block: int = 0
    dies: int = 1

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return self.config.waves * self.core.wave

    @property
    def lds_bytes(self) -> int:
        """Bytes of LDS: two tiles of each operand."""
        return 2 * (self.a.pieces + self.b.pieces) * PIECE

    @property
    def early(self) -> int:
        """Steps that A is read from LDS before its products, by weights in registers."""
        return steps_early(self.tiles_m)

    @property
    def tiles_m(self) -> int:
        """Instruction tiles of a wave along M."""
        return self.config.tile_m // self.config.waves_m // 16

    @property
    def tiles_n(self) -> int:
        """Instruction tiles of a wave along N."""
        return self.config.tile_n // self.config.waves_n // 16


SHARED_STEP = 128
"""Columns of A that one instruction with shared scales takes."""
_MX_WAVE = 32


@dataclass(frozen=True, slots=True)
class Kind:
    """How codes of one format reach an instruction with scales that is a WMMA.

    Attributes:
        code: The format's number in the instruction.
        run: Neighbouring k that a lane loads at once.
        distance: Bytes from one half of a wave to the other.
        deficit: Power of two by which the numbers are too small after widening.
    """

    code: int
    run: int
    distance: int = 16
    deficit: int = 0

    @property
    def loads(self) -> int:
        """Loads of a lane for one step."""
        return SHARED_STEP // 2 // self.run


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "fp8": Kind(0, 16),
        "bf8": Kind(1, 16),
        "fp6": Kind(0, 16, 12, 6),
        "bf6": Kind(1, 16, 12, 12),
        "fp4": Kind(4, 32),
    }
)
"""Formats: E4M3, E5M2, E2M3, E3M2 and E2M1. Those of 6 bits lie as `pack_fp6` packs them."""


@dataclass(frozen=True, slots=True)
class MxPlan:
    """What the kernel of plain matrices is compiled for.

    Attributes:
        a: Format of A, a key of `KINDS`.
        b: Format of B.
        tiles: Instruction tiles of 16 x 16 of a wave, along M and N.
        waves: Waves of a workgroup along M and N.
        ragged: Whether the last step along k is not full.
        epilogue: How results are finished.
        split_k: Workgroups that share a tile of C, each with a part of K.
        group_m: Tiles along M that are walked together.
        rearranged: Whether B's codes and scales are, in layouts ``cdna5_16x16`` and
            ``cdna5_32x4``.
    """

    a: str
    b: str
    tiles: tuple[int, int]
    waves: tuple[int, int]
    ragged: bool
    epilogue: EpiloguePlan
    split_k: int = 1
    group_m: int = 8
    rearranged: bool = False

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of C of a workgroup."""
        return 16 * self.tiles[0] * self.waves[0], 16 * self.tiles[1] * self.waves[1]

    @property
    def threads(self) -> int:
        """Threads of a workgroup."""
        return _MX_WAVE * self.waves[0] * self.waves[1]
