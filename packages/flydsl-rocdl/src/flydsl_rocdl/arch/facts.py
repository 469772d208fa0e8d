"""The record that describes one architecture; the numbers live in one file per architecture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from flydsl_rocdl.arch.counters import WaitFields

__all__ = [
    "INSTRUCTION_TYPES",
    "ArchFacts",
    "BufferFacts",
    "LdsFacts",
    "MatrixShape",
    "RegisterFacts",
    "instruction_type",
]

INSTRUCTION_TYPES: Mapping[str, str] = MappingProxyType(
    {
        "f8E4M3FNUZ": "fp8",
        "f8E4M3FN": "fp8",
        "f8E5M2FNUZ": "bf8",
        "f8E5M2": "bf8",
        "f6E2M3FN": "fp6",
        "f6E3M2FN": "bf6",
        "f4E2M1FN": "fp4",
    }
)
"""MLIR element types by their names in instructions, where those differ.

Which of the two fp8 flavours an instruction means is the architecture's choice (`ArchFacts.fp8`).
"""


_MIXED_SIGN = {"i8": "iu8", "i4": "iu4"}
_WAVE_MATRIX = ("wmma", "wmma_scale", "swmmac")


def instruction_type(element: str, family: str) -> str:
    """Return the name that instructions of `family` give an MLIR element type."""
    found = INSTRUCTION_TYPES.get(element, element)
    return _MIXED_SIGN.get(found, found) if family in _WAVE_MATRIX else found


@dataclass(frozen=True, slots=True)
class RegisterFacts:
    """Register file of one SIMD and the rules by which waves share it.

    Attributes:
        vgpr_total: 32-bit registers per lane that the resident waves of a SIMD share.
        vgpr_granule: Allocation granule in registers.
        vgpr_max: Architectural vector registers one wave can address.
        agpr_max: Accumulation registers one wave can address, 0 without a matrix register file.
        sgpr_max: Scalar registers one wave can address, VCC not counted.
        sgpr_steps: ``(registers, waves)`` pairs in rising order: a wave that uses at most
            `registers` scalar registers (VCC and the other trailing ones counted) lets `waves`
            waves share a SIMD. Empty: scalar registers never limit occupancy.
        sgpr_floor: Waves when more scalar registers than the last step are used.
    """

    vgpr_total: int
    vgpr_granule: int
    vgpr_max: int
    agpr_max: int
    sgpr_max: int
    sgpr_steps: tuple[tuple[int, int], ...] = ()
    sgpr_floor: int = 0

    def __post_init__(self) -> None:
        if self.vgpr_total % self.vgpr_granule and self.vgpr_granule > self.vgpr_total:
            raise ValueError(f"granule {self.vgpr_granule} exceeds the file of {self.vgpr_total}")

    @property
    def vgpr_usual(self) -> int:
        """Vector registers that kernels get unless they ask for more: their numbers fit 8 bits."""
        return min(self.vgpr_max, 256)


@dataclass(frozen=True, slots=True)
class LdsFacts:
    """Local data share.

    Attributes:
        capacity: Bytes one workgroup can use.
        granule: Allocation granule in bytes.
        shared_bytes: Bytes that the workgroups on one compute unit (or, with wave32, on one
            workgroup processor) share.
        simds: SIMDs behind those bytes.
        banks: Number of banks, each `bank_bytes` wide.
        bank_bytes: Width of a bank.
    """

    capacity: int
    granule: int
    shared_bytes: int
    simds: int
    banks: int
    bank_bytes: int = 4

    def __post_init__(self) -> None:
        if self.capacity % self.granule or self.capacity > self.shared_bytes:
            raise ValueError("LDS capacity must be whole granules and fit the shared bytes")


@dataclass(frozen=True, slots=True)
class BufferFacts:
    """Flags of a raw buffer descriptor, as LLVM's ``make.buffer.rsrc`` takes them.

    Attributes:
        flags_unbounded: For a descriptor without a bound.
        flags_bounded: For a descriptor whose `num_records` counts bytes.
        max_records: Largest value of `num_records`.
    """

    flags_unbounded: int
    flags_bounded: int
    max_records: int = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class MatrixShape:
    """One matrix instruction of an architecture.

    Attributes:
        m, n, k: Extents of the product, of each block.
        a, b, acc: Element type names (``f16``, ``bf16``, ``f32``, ``i8``, ``fp8``, ``bf8``, …).
        intrinsic: LLVM intrinsic name without the ``llvm.amdgcn.`` prefix.
        passes: Matrix-core passes of four clocks each; 0 when not documented.
        blocks: Independent products in one instruction.
    """

    m: int
    n: int
    k: int
    a: str
    b: str
    acc: str
    intrinsic: str
    passes: int = 0
    blocks: int = 1

    @property
    def family(self) -> str:
        """Kind: ``mfma``, ``mfma_scale``, ``smfmac``, ``wmma``, ``wmma_scale`` or ``swmmac``."""
        first, second = self.intrinsic.split(".")[:2]
        return f"{first}_scale" if second.startswith("scale") else first

    @property
    def mnemonic(self) -> str:
        """Name of the instruction in assembly."""
        family, *rest = self.intrinsic.split(".")
        if self.family.endswith("_scale"):
            return "v_" + "_".join((family, *rest))
        blocks = f"_{self.blocks}b" if self.blocks > 1 else ""
        types = f"{self.a}_{self.b}" if self.a in ("fp8", "bf8") else self.a
        return f"v_{family}_{self.acc}_{self.m}x{self.n}x{self.k}{blocks}_{types}"

    def __str__(self) -> str:
        ab = self.a if self.a == self.b else f"{self.a} x {self.b}"
        blocks = f" ({self.blocks} blocks)" if self.blocks > 1 else ""
        return f"{self.m}x{self.n}x{self.k} {ab} -> {self.acc}{blocks}"


@dataclass(frozen=True, slots=True)
class ArchFacts:
    """Everything the compiler and the resource report need to know about one architecture.

    Attributes:
        name: Architecture name as users write it; also LLVM's ``target-cpu``.
        family: Family name shared by architectures with the same instruction set.
        summary: One line for listings.
        wave_size: Lanes of a wave.
        max_waves_per_simd: Resident waves of a SIMD.
        max_groups: Workgroups of more than one wave that one compute unit can hold.
        max_threads_per_block: Largest workgroup.
        max_grid: Largest grid in workgroups per dimension.
        registers: Register file rules.
        lds: Local data share.
        buffer: Buffer descriptor words.
        waits: Fields of the combined wait instruction; None where only split counters exist.
        split_counters: Names of the split wait counters, empty where there are none.
        fp8: ``"fnuz"``, ``"ocp"`` or ``""`` (no fp8 conversions).
        features: Target-id features a user may choose (``sramecc``, ``xnack``).
        matrix: Matrix instructions.
        lds_dma_bytes: Bytes per lane that direct-to-LDS loads can move.
        lds_async_bytes: Bytes per lane that asynchronous loads of global memory move to an LDS
            address of each lane's own; ``asynccnt`` counts them.
        lane_swaps: Lane distances that ``permlane*_swap`` exchanges.
        has: Other capability names (``dpp``, ``pk_bf16_cvt``, ``cluster``, …).
        llvm_features: Extra LLVM subtarget features, e.g. wave size where the default differs.
    """

    name: str
    family: str
    summary: str
    wave_size: int
    max_waves_per_simd: int
    max_groups: int
    max_threads_per_block: int
    max_grid: tuple[int, int, int]
    registers: RegisterFacts
    lds: LdsFacts
    buffer: BufferFacts
    waits: WaitFields | None
    split_counters: Mapping[str, int] = field(default_factory=dict)
    fp8: str = ""
    features: tuple[str, ...] = ()
    matrix: tuple[MatrixShape, ...] = ()
    lds_dma_bytes: tuple[int, ...] = ()
    lds_async_bytes: tuple[int, ...] = ()
    lane_swaps: tuple[int, ...] = ()
    has: frozenset[str] = frozenset()
    llvm_features: str = ""

    def __post_init__(self) -> None:
        if self.wave_size not in (32, 64):
            raise ValueError(f"wave size {self.wave_size} is neither 32 nor 64")
        if self.fp8 not in ("", "fnuz", "ocp"):
            raise ValueError(f"unknown fp8 flavour {self.fp8!r}")
