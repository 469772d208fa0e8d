"""The builder with the name and arguments that existing programs use."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.errors import ConfigError
from flydsl.ext.arguments import as_integer
from flydsl_kernels.gemm.device.rdna4.kernel import fixed_launcher
from flydsl_kernels.gemm.device.rdna4.plan import Rdna4Plan

__all__ = ["compile_fp8_gemm"]

__flydsl_internal__ = True  # errors are at the line of the caller


@at_user_line()
def compile_fp8_gemm(
    *,
    M: int,
    N: int,
    K: int,
    tile_m: int = 32,
    tile_n: int = 128,
    tile_k: int = 32,
    k_unroll: int | None = None,
    group_m: int = 8,
) -> Any:
    """Return the launcher of C = sa sb (A B) of ``float8_e4m3fn`` on RDNA4, into bfloat16.

    It is called as ``launch(c, a, b_shuf, sa, sb, stream)``: c (M, N) of bfloat16, a (M, K), the
    data of a `PreshuffledWeight` (N, K) in layout ``rdna4_fp8``, f32 scales (M) and (N). Both
    operands go from memory to registers. Arrays whose sizes do not fit are refused by every call,
    other architectures than gfx12 when it is compiled (TargetError).

    Args:
        M: Rows of A; any number.
        N: Columns of C, in 16.
        K: Columns of A, whole tiles.
        tile_m: Rows of a workgroup's tile, in 16.
        tile_n: Columns of it, in 32.
        tile_k: Columns of A that are loaded together, in 32.
        k_unroll: Tiles along K in one turn of the loop, 1 to 8; 1 counts as 2, the default.
        group_m: Rows of tiles that neighbouring workgroups share; 0 walks row by row.

    Raises:
        ConfigError: A number that the kernel cannot do; says which ones it can.
    """
    if as_integer(M, "M") <= 0:
        raise ConfigError("M is not positive", code="FLY-C930", value=M, allowed="1 and up")
    unrolled = 2 if k_unroll is None else k_unroll
    return fixed_launcher(Rdna4Plan(N, K, tile_m, tile_n, tile_k, unrolled, group_m), M)
