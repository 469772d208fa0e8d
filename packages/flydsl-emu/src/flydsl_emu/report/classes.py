"""Instruction classes, as the execution units of a compute unit see them."""

from __future__ import annotations

from flydsl_emu.decode import Instruction

__all__ = ["CLASSES", "classify", "mfma_passes"]

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

_TRANSCENDENTAL = ("v_exp_", "v_log_", "v_rcp_", "v_rsq_", "v_sqrt_", "v_sin_", "v_cos_")
_WAITS = ("s_waitcnt", "s_nop", "s_barrier", "s_sleep", "s_setprio")


def classify(i: Instruction) -> str:
    """Return the class of an instruction, one of `CLASSES`."""
    name = i.name
    if name.startswith(("v_mfma", "v_smfmac")):
        return "mfma"
    if name.startswith(_TRANSCENDENTAL):
        return "transcendental"
    if name.startswith("v_"):
        return "valu"
    if i.format == "DS":
        return "lds"
    if i.format in ("FLAT0", "FLAT1", "FLAT2", "MUBUF"):
        return "vmem"
    if i.format == "SMEM":
        return "smem"
    if name.startswith(("s_cbranch", "s_branch", "s_setpc", "s_swappc", "s_call", "s_endpgm")):
        return "branch"
    if name.startswith(_WAITS):
        return "wait"
    return "salu" if name.startswith("s_") else "other"


def mfma_passes(i: Instruction) -> int:
    """Return the passes (of four clocks) of a matrix instruction, from its shape.

    Multiply-adds of one pass: 128 for f32 and f64, 512 for xf32, 1024 for 16-bit and 2048 for 8-bit
    elements, but 512 for the shapes of several blocks; the shapes that gfx950 added run at twice
    that, f8f6f4 with both operands of 4 or 6 bits at four times. No instruction takes less than 2
    passes, or 4 for 16 x 16 blocks.
    """
    name = i.name
    shape = next((p for p in name.split("_") if p.count("x") == 2), "16x16x16")
    m, n, k = (int(x) for x in shape.split("x"))
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
    return max(2 if m == 4 else 4, work // rate)
