"""The kernel, and builders with the names and arguments that existing programs use."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Any

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import ConfigError
from flydsl_kernels.gemm.device.preshuffle.checked import CheckedLauncher, check_call
from flydsl_kernels.gemm.device.preshuffle.plan import THREADS, PreshufflePlan
from flydsl_kernels.gemm.device.preshuffle.results import finish
from flydsl_kernels.gemm.device.preshuffle.setup import body_of, place_of, steps_of
from flydsl_rocdl.kernels.epilogue import Epilogue
from flydsl_rocdl.kernels.pipelining import pipelined

__all__ = ["compile_mx_gemm", "compile_preshuffle_gemm", "launch_gemm", "preshuffle_launcher"]

_SCALED = ("fp8", "int8", "int4")


@flyc.kernel
def preshuffle_kernel(  # noqa: PLR0913, PLR0917
    C: fx.Tensor, A: fx.Tensor, B: fx.Tensor, ScaleA: fx.Tensor, ScaleB: fx.Tensor,
    Bias: fx.Tensor, M: fx.Int32, N: fx.Int32, plan: fx.Constexpr[PreshufflePlan],
) -> None:  # fmt: skip
    """Make one tile of C = epilogue(A B)."""
    place = place_of(plan, M, N)
    body = body_of(plan, (A, B, ScaleA, ScaleB), (M, N), place)
    acc = steps_of(plan, body, pipelined)
    finish(plan, acc, C, (ScaleA, ScaleB, Bias), (M, N), place, body.stage.base)


def compile_preshuffle_gemm(
    *,
    N: int,
    K: int,
    tile_m: int,
    tile_n: int,
    tile_k: int,
    in_dtype: str = "fp8",
    out_dtype: str = "bf16",
    **options: Any,
) -> Any:
    """Return the launcher of C = epilogue(A B) with B in layout ``16x16`` (or ``int4_packed``).

    It is called as ``launcher(C, A, B, scale_a, scale_b, bias, M, N, stream)``: C (M, N) of
    `out_dtype`, A (M, K), B the data of a `PreshuffledWeight` (N, K), f32 scales (M) and (N), the
    bias (N) of any 16-bit or 32-bit float type. What an epilogue does not use is not read. Any M,
    N a multiple of 16, and K of 64 bytes of A; tiles past the ends are bounded by descriptors.
    N at the call has to be the one given here, and arrays have to fit it and K: what the host
    knows of them is checked by every call (UserValueError).

    Args:
        N: Columns of C.
        K: Columns of A.
        tile_m: Rows of a workgroup's tile, in 16.
        tile_n: Columns of it, in 64.
        tile_k: Columns of A in one step; a power of two.
        in_dtype: ``fp8``, ``int8``, ``fp16``, ``bf16``; with B of four bits ``int4`` (A int8),
            ``fp16_int4``, ``bf16_int4``.
        out_dtype: ``bf16``, ``fp16`` or ``f32``.
        **options: ``epilogue`` (``none``, ``bias``, ``bias_relu``, ``bias_silu``, ``bias_gelu``),
            ``waves_per_eu`` (occupancy to compile for), ``enable_scheduler`` (keep memory
            operations at their places among the matrix instructions), ``use_async_copy`` (load A
            into LDS without registers on the way, where the architecture moves 16 bytes of a
            lane), ``preload`` (checked and otherwise without effect: the schedule is derived from
            the loop's own counts of reads, loads and matrix instructions, so there is no table of
            lead times to override), ``xcd_swizzle`` (rows of tiles that neighbouring workgroups of
            a die share), ``lds_stage`` (1 or 2).

    Raises:
        ConfigError: An argument that the kernel cannot have; says which ones it can.
    """
    known = {
        "epilogue": "none", "waves_per_eu": None, "enable_scheduler": True,
        "use_async_copy": False, "xcd_swizzle": 0, "lds_stage": 2, "preload": None,
    }  # fmt: skip
    for name in options:
        if name not in known:
            raise ConfigError("compile_preshuffle_gemm has no such option", code="FLY-C930",
                              value=name, allowed=", ".join(known))  # fmt: skip
    chosen = {**known, **options}
    _check_preload(chosen["preload"])
    scaled = in_dtype in _SCALED or in_dtype.endswith("_int4")
    plan = PreshufflePlan(
        in_dtype, out_dtype, N, K, tile_m, tile_n, tile_k,
        Epilogue.named(str(chosen["epilogue"]), scaled=scaled),
        int(str(chosen["xcd_swizzle"])), int(str(chosen["lds_stage"])),
        bool(chosen["enable_scheduler"]), bool(chosen["use_async_copy"]),
    )  # fmt: skip
    return preshuffle_launcher(plan, chosen["waves_per_eu"])


_MX = {("fp4", "fp4"): "mxfp4", ("fp6", "fp4"): "mxfp6", ("fp8", "fp8"): "mxfp8",
       ("fp8", "fp4"): "mxfp8_fp4"}  # fmt: skip


def compile_mx_gemm(
    *,
    N: int,
    K: int,
    tile: tuple[int, int, int] = (64, 128, 256),
    a_dtype: str = "fp4",
    b_dtype: str = "fp4",
    out_dtype: str = "bf16",
    waves_per_eu: Any = None,
    xcd_swizzle: int = 0,
) -> Any:
    """Return the launcher of C = A B where 32 k of a row of A and of B share an E8M0 scale.

    It is called as ``launcher(C, A, B, scale_a, scale_b, bias, M, N, stream)`` and reads no bias.
    A (M, K) has two fp4 codes in a byte, fp6 as `pack_fp6` makes it, or fp8; B is the data of a
    `PreshuffledWeight` (``fp4_16lane``, or ``16x16`` for fp8). Scales are in order ``e8m0``
    (`preshuffle_scales`), those of A with rows up to a multiple of 32.

    Args:
        N: Columns of C, in 32.
        K: Columns of A, in 256.
        tile: Rows in 32, columns in 128, and K in one step: a power of two from 128 on.
        a_dtype: ``fp4``, ``fp6`` (E2M3) or ``fp8`` (E4M3).
        b_dtype: ``fp4``, or ``fp8`` with an A of ``fp8``.
        out_dtype: ``bf16``, ``fp16`` or ``f32``.
        waves_per_eu: Occupancy to compile for.
        xcd_swizzle: Rows of tiles that workgroups of a die share.

    Raises:
        ConfigError: An argument that the kernel cannot have; says which ones it can.
    """
    if (a_dtype, b_dtype) not in _MX:
        raise ConfigError("there is no product of these types", code="FLY-C930",
                          value=(a_dtype, b_dtype),
                          allowed="; ".join(f"{a} and {b}" for a, b in _MX))  # fmt: skip
    plan = PreshufflePlan(_MX[a_dtype, b_dtype], out_dtype, N, K, *tile, group_m=xcd_swizzle)
    return preshuffle_launcher(plan, waves_per_eu)


def launch_gemm(  # noqa: PLR0913
    C: Any, A: Any, B: Any, scale_a: Any, scale_b: Any, M: int, N: int, stream: Any = None, *,
    K: int, tile_m: int, tile_n: int, tile_k: int, a_dtype: str = "fp4", out_dtype: str = "bf16",
    b_dtype: str = "fp4", waves_per_eu: Any = None, xcd_swizzle: int = 0,
) -> None:  # fmt: skip
    """Run C = A B with E8M0 scales; arguments as `compile_mx_gemm` and its launcher.

    Raises:
        ConfigError: An argument that the kernel cannot have.
    """
    launcher = compile_mx_gemm(
        N=N, K=K, tile=(tile_m, tile_n, tile_k), a_dtype=a_dtype, b_dtype=b_dtype,
        out_dtype=out_dtype, waves_per_eu=waves_per_eu, xcd_swizzle=xcd_swizzle,
    )  # fmt: skip
    launcher(C, A, B, scale_a, scale_b, C, M, N, stream)


def _check_preload(preload: object) -> None:
    if preload is None:
        return
    pair = isinstance(preload, (tuple, list)) and len(preload) == 2
    if not pair or not all(isinstance(n, int) and n >= 0 for n in preload):  # type: ignore[attr-defined]
        raise ConfigError("preload is a pair of counts", code="FLY-C930", value=preload,
                          allowed="(LDS reads, memory reads), or None")  # fmt: skip


@lru_cache(maxsize=256)
def preshuffle_launcher(plan: PreshufflePlan, waves_per_eu: Any = None) -> Any:
    """Return the launcher of a plan, the same one for the same arguments."""

    def launch(  # noqa: PLR0913, PLR0917
        C: fx.Tensor, A: fx.Tensor, B: fx.Tensor, scale_a: fx.Tensor, scale_b: fx.Tensor,
        bias: fx.Tensor, M: fx.Int32, N: fx.Int32, stream: fx.Stream,
    ) -> None:  # fmt: skip
        grid = (M + (plan.tile_m - 1)) // plan.tile_m, (N + (plan.tile_n - 1)) // plan.tile_n
        preshuffle_kernel(C, A, B, scale_a, scale_b, bias, M, N, plan).launch(
            grid=grid, block=(THREADS, 1, 1), stream=stream
        )

    launcher = CheckedLauncher(launch, partial(check_call, plan))
    if waves_per_eu is not None:
        return flyc.compile[{"waves_per_eu": waves_per_eu}](launcher)
    return launcher
