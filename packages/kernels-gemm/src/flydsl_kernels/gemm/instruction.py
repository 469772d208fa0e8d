"""How one matrix instruction takes its operands: `MatrixCore`, and `core_for` to choose one.

Every kernel here gives the instruction the rows of B as its first operand and the rows of A as its
second, so that a lane's results are consecutive columns of C and stores are wide.

A lane holds `bytes` bytes along k of one row. Which k a lane group has does not matter as long as
both operands agree, so the kernels deal 16-byte pieces of a row to the groups in turn; for the
instructions with scales this is also the order of the hardware.
"""

from __future__ import annotations

from dataclasses import dataclass

from flydsl.errors import TargetError
from flydsl_kernels.gemm.formats import FORMATS
from flydsl_rocdl.arch import ArchFacts, MatrixShape

__all__ = ["PIECE", "MatrixCore", "core_for"]

PIECE = 16
"""Bytes of the pieces in which operands are read from LDS."""


@dataclass(frozen=True, slots=True)
class MatrixCore:
    """One instruction for tiles of 16 x 16.

    Attributes:
        builder: Name under ``fx.rocdl``.
        k: Columns of A that it takes.
        wave: Lanes of a wave.
        groups: Groups of lanes that hold different k of the same rows; 1 where all lanes hold all.
        bytes: Bytes of an operand that a lane holds.
        values: Results that a lane has.
        interleaved: Whether results of the lane groups alternate by row, instead of being blocks.
        operand: Element class that the builder takes: ``BFloat16``, ``Float16``, ``Int64``,
            ``Int32``.
        integer: Whether results are i32.
        scaled: Whether it is the form with scales.
        passes: Matrix-core passes of four clocks each; 0 where unknown.
        formats: For the form with scales, the format codes of the two operands.
    """

    builder: str
    k: int
    wave: int
    groups: int
    bytes: int
    values: int
    interleaved: bool
    operand: str
    integer: bool
    scaled: bool = False
    passes: int = 0
    formats: tuple[int, int] = (0, 0)

    @property
    def step_bytes(self) -> int:
        """Bytes of a row that are read and multiplied together: whole pieces for every group."""
        return self.groups * max(PIECE, self.bytes)

    @property
    def reads(self) -> int:
        """Pieces of a row that a lane reads for one step."""
        return max(PIECE, self.bytes) // PIECE

    @property
    def calls(self) -> int:
        """Instructions of one step."""
        return max(PIECE, self.bytes) // self.bytes


def core_for(facts: ArchFacts, a: str, b: str) -> MatrixCore:
    """Return the instruction with the largest k for element types of A and B.

    Args:
        facts: The architecture.
        a: Element type of A, a key of `FORMATS`.
        b: Element type of B.

    Raises:
        TargetError: The architecture multiplies no such types.
    """
    names = FORMATS[b].instruction, FORMATS[a].instruction
    flavours = {FORMATS[name].flavour for name in (a, b)} - {""}
    found = [s for s in facts.matrix if _fits(s, names)]
    if not found or (flavours and flavours != {facts.fp8}):
        raise TargetError(
            f"{facts.name} has no matrix instruction for {a} x {b}",
            code="FLY-T910",
            value=f"{a} x {b}",
            allowed=", ".join(_offers(facts)) or "none",
            hint="convert the operands, or quantise them, to a type that is allowed",
        )
    return _described(facts, max(found, key=lambda s: (s.k, -len(s.intrinsic))))


def _fits(shape: MatrixShape, names: tuple[str, str]) -> bool:
    return (
        (shape.m, shape.n, shape.blocks) == (16, 16, 1)
        and shape.family in ("mfma", "wmma", "mfma_scale")
        and shape.acc in ("f32", "i32")
        and (shape.a.replace("iu8", "i8"), shape.b.replace("iu8", "i8")) == names
    )


def _offers(facts: ArchFacts) -> list[str]:
    return [
        name
        for name, kind in FORMATS.items()
        if kind.flavour in ("", facts.fp8)
        and any(_fits(shape, (kind.instruction,) * 2) for shape in facts.matrix)
    ]


def _described(facts: ArchFacts, shape: MatrixShape) -> MatrixCore:
    copies = "wmma-copies" in facts.has
    size = 2 if shape.a in ("f16", "bf16") else 1
    held = 16 * shape.k * size * (2 if copies else 1) // facts.wave_size
    operand = {"f16": "Float16", "bf16": "BFloat16"}.get(shape.a, "Int32")
    if shape.family == "mfma" and size == 1 and held == 8:
        operand = "Int64"
    codes = {"fp8": 0, "bf8": 1}
    return MatrixCore(
        builder=shape.intrinsic.replace(".", "_"),
        k=shape.k,
        wave=facts.wave_size,
        groups=1 if copies else facts.wave_size // 16,
        bytes=held,
        values=256 // facts.wave_size,
        interleaved=copies,
        operand=operand,
        integer=shape.acc == "i32",
        scaled=shape.family == "mfma_scale",
        passes=shape.passes,
        formats=(codes.get(shape.a, 0), codes.get(shape.b, 0)),
    )
