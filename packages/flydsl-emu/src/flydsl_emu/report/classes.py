"""Instruction classes, as the execution units of a compute unit see them."""

from __future__ import annotations

from flydsl_emu.decode import Instruction

__all__ = ["CLASSES", "classify", "is_matrix", "matrix_passes", "mfma_passes", "waits_for"]

CLASSES = (
    "mfma",
    "valu",
    "transcendental",
    "salu",
    "smem",
    "vmem",
    "lds",
    "branch",
    "wait",
    "other",
)

_MATRIX = ("v_mfma", "v_smfmac", "v_wmma", "v_swmmac")
_TRANSCENDENTAL = ("exp", "log", "rcp", "rsq", "sqrt", "sin", "cos", "tanh")
_WAITS = ("s_wait", "s_nop", "s_barrier", "s_sleep", "s_setprio", "s_delay_alu", "s_clause")
_SCALAR_MEMORY = ("s_load_", "s_buffer_load_", "s_dcache", "s_gl1_", "s_prefetch", "s_atomic")
_VECTOR_MEMORY = ("global_", "flat_", "scratch_", "buffer_", "tbuffer_", "image_", "tensor_")
_BRANCHES = ("s_cbranch", "s_branch", "s_setpc", "s_swappc", "s_call", "s_endpgm")


def is_matrix(name: str) -> bool:
    """Return whether a mnemonic is a matrix product (MFMA, SMFMAC, WMMA, SWMMAC)."""
    return name.startswith(_MATRIX)


def classify(i: Instruction) -> str:
    """Return the class of an instruction, one of `CLASSES`; every matrix product is ``"mfma"``."""
    name = i.name
    if name.startswith("v_"):
        if is_matrix(name):
            return "mfma"
        return "transcendental" if name.split("_")[1] in _TRANSCENDENTAL else "valu"
    if name.startswith("ds_"):
        return "lds"
    if name.startswith(_VECTOR_MEMORY):
        return "vmem"
    if name.startswith(_SCALAR_MEMORY):
        return "smem"
    if name.startswith(_BRANCHES):
        return "branch"
    if name.startswith(_WAITS):
        return "wait"
    return "salu" if name.startswith("s_") else "other"


def waits_for(i: Instruction, arch: str) -> tuple[bool, bool]:
    """Return whether an instruction waits for vector memory, and for LDS or scalar memory."""
    name = i.name
    if name == "s_waitcnt":
        value = i.mod("simm16")
        if arch.startswith("gfx9"):
            return value & 15 | (value >> 14 & 3) << 4 < 63, (value >> 8 & 15) < 15
        return value >> 10 & 63 < 63, (value >> 4 & 63) < 63
    vector = name.startswith(("s_wait_loadcnt", "s_wait_samplecnt", "s_wait_storecnt"))
    return vector, name.startswith(("s_wait_dscnt", "s_wait_kmcnt", "s_wait_loadcnt_dscnt"))


def _shape(name: str) -> tuple[int, int, int]:
    part = next((p for p in name.split("_") if p.count("x") == 2), "16x16x16")
    m, n, k = (int(x) for x in part.split("x"))
    return m, n, k


def matrix_passes(i: Instruction, matrix_flops: float = 0) -> int:
    """Return the passes (of four clocks) of a matrix instruction.

    Args:
        i: The instruction.
        matrix_flops: For WMMA: 16-bit operations per clock and SIMD; 8-bit ones run at the same
            rate on gfx11 (256) and twice as fast on later architectures.
    """
    name = i.name
    if name.startswith(("v_mfma", "v_smfmac")):
        return mfma_passes(i)
    m, n, k = _shape(name)
    narrow = any(part in name for part in ("_iu8", "_fp8", "_bf8", "_iu4", "f8f6f4"))
    rate = matrix_flops * (2 if narrow and matrix_flops > 256 else 1)
    return max(1, -(-2 * m * n * k // int(4 * rate)))


def mfma_passes(i: Instruction) -> int:
    """Return the passes (of four clocks) of an MFMA or SMFMAC instruction, from its shape.

    Multiply-adds of one pass: 128 for f32 and f64, 512 for xf32, 1024 for 16-bit and 2048 for 8-bit
    elements, but 512 for the shapes of several blocks; the shapes that gfx950 added run at twice
    that, f8f6f4 with both operands of 4 or 6 bits at four times. No instruction takes less than 2
    passes, or 4 for 16 x 16 blocks.
    """
    name = i.name
    m, n, k = _shape(name)
    blocks = next((int(p[:-1]) for p in name.split("_") if p[:-1].isdigit() and p[-1] == "b"), 1)
    work = m * n * k * blocks
    if "f8f6f4" in name:
        rate = 8192 if i.mod("cbsz") > 1 and i.mod("blgp") > 1 else 4096
    elif name.endswith(("_f32", "_f64")):
        rate = 128
    elif blocks > 1 or name.endswith("_xf32"):
        rate = 512
    else:
        narrow = name.endswith(("_i8", "fp8", "bf8"))
        rate = 2048 if narrow else 1024
        if m * k > (512 if narrow else 256):
            rate *= 2
    return max(2 if m == 4 else 4, work // int(rate))
