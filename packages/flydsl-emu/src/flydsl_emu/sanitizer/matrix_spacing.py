"""Wait states that matrix instructions of CDNA3 and CDNA4 need before their registers are used.

Source: the tables of required software wait states in the CDNA3 and CDNA4 ISA guides. With ``n``
passes of the producer (matrix instructions that run on the XDL unit, that is all but those with f32
and f64 inputs)::

    use of D                                    XDL on gfx942   XDL on gfx950    f32 inputs
    source A or B of a matrix instruction       n + 3           n + 4            n + 2
    read or write by VALU, memory or export     n + 3           n + 4            n + 2
    source C, registers only partly the same    n + 1           n + 2            n
    source C, the same registers                0 (2 after a 2-pass producer)

where gfx950 adds its extra state except after 2-pass producers. A VALU write of source C must come
n - 1 states after the matrix instruction that reads it. Products of f64 have rows of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flydsl_emu.decode import Instruction
from flydsl_emu.report.classes import mfma_passes

__all__ = ["MATRIX_PREFIXES", "MatrixSpacing", "is_double", "is_matrix", "is_xdl", "matrix_spacing"]

MATRIX_PREFIXES = ("v_mfma_", "v_smfmac_")
"""How names of instructions of the matrix unit begin."""


@dataclass(frozen=True, slots=True)
class MatrixSpacing:
    """Wait states after a matrix instruction, by use of its registers.

    Attributes:
        sources: D as source A or B of a matrix instruction.
        vector_read: D read by a VALU instruction.
        memory_read: D read by a memory or export instruction.
        vector_write: D written by a VALU instruction.
        same_sum: D as source C, exactly the same registers.
        sum_xdl, sum_single, sum_double: D overlapping source C of an XDL, an f32 and an f64
            instruction.
        replace_sum: Source C written by a VALU instruction.
    """

    sources: int
    vector_read: int
    memory_read: int
    vector_write: int
    same_sum: int
    sum_xdl: int
    sum_single: int
    sum_double: int
    replace_sum: int


def is_matrix(i: Instruction) -> bool:
    """Whether `i` runs on the matrix unit."""
    return i.name.startswith(MATRIX_PREFIXES)


def is_double(i: Instruction) -> bool:
    """Whether a matrix instruction multiplies f64."""
    return i.name.startswith("v_mfma_f64")


def is_xdl(i: Instruction) -> bool:
    """Whether a matrix instruction runs on the XDL unit."""
    return not (is_double(i) or (i.name.startswith("v_mfma_f32") and i.name.endswith("_f32")))


_DOUBLE: Mapping[tuple[str, bool], MatrixSpacing] = {
    ("gfx942", True): MatrixSpacing(6, 6, 9, 6, 4, 0, 4, 4, 0),
    ("gfx942", False): MatrixSpacing(11, 11, 18, 11, 0, 0, 9, 9, 0),
    ("gfx950", True): MatrixSpacing(6, 6, 9, 6, 4, 0, 4, 4, 0),
    ("gfx950", False): MatrixSpacing(19, 19, 18, 19, 0, 0, 17, 17, 0),
}


def matrix_spacing(i: Instruction, arch: str) -> MatrixSpacing:
    """Return the wait states that follow a matrix instruction."""
    if is_double(i):
        return _DOUBLE[arch, "_4x4x4" in i.name]
    passes = mfma_passes(i)
    if not is_xdl(i):
        same = 2 if passes == 2 else 0
        n = passes + 2
        return MatrixSpacing(n, n, n, n, same, 0, passes, passes, passes - 1)
    extra = 1 if arch == "gfx950" and passes != 2 else 0
    n = passes + 3 + extra
    same = 2 if passes == 2 else 0
    over = passes + 1 + extra
    return MatrixSpacing(n, n, n, n, same, over, over, over, passes - 1)
