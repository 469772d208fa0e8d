"""Builders with the names and arguments that existing programs use."""

from __future__ import annotations

from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.errors import ConfigError
from flydsl.ext.arguments import as_flag, as_integer, as_text
from flydsl_kernels.gemm.device.preshuffle.batches import BatchStrides, Distances, batched_launcher
from flydsl_kernels.gemm.device.preshuffle.kernel import preshuffle_launcher
from flydsl_kernels.gemm.device.preshuffle.plan import PreshufflePlan
from flydsl_rocdl.kernels.epilogue import Epilogue

__all__ = ["compile_mx_gemm", "compile_preshuffle_gemm", "launch_gemm", "preshuffle_launcher"]

__flydsl_internal__ = True  # errors are at the line of the caller

_SCALED = ("fp8", "int8", "int4")


@at_user_line()
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
    knows of them is checked by every call of the launcher and by ``flyc.compile`` (UserValueError);
    what ``flyc.compile`` returns looks at types only.

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
    scaled = as_text(in_dtype, "in_dtype") in _SCALED or in_dtype.endswith("_int4")
    plan = PreshufflePlan(
        in_dtype, out_dtype, N, K, tile_m, tile_n, tile_k,
        Epilogue.named(as_text(chosen["epilogue"], "epilogue"), scaled=scaled),
        as_integer(chosen["xcd_swizzle"], "xcd_swizzle"),
        as_integer(chosen["lds_stage"], "lds_stage"),
        as_flag(chosen["enable_scheduler"], "enable_scheduler"),
        as_flag(chosen["use_async_copy"], "use_async_copy"),
    )  # fmt: skip
    return preshuffle_launcher(plan, _occupancy(chosen["waves_per_eu"]))


_MX = {("fp4", "fp4"): "mxfp4", ("fp6", "fp4"): "mxfp6", ("fp8", "fp8"): "mxfp8",
       ("fp8", "fp4"): "mxfp8_fp4"}  # fmt: skip


@at_user_line()
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
    given: object = tile  # the annotation is a promise of the caller
    if not isinstance(given, (tuple, list)) or len(given) != 3:
        raise ConfigError("a tile has three extents", code="FLY-C930", value=tile,
                          allowed="(rows, columns, K)")  # fmt: skip
    plan = _mx_plan((a_dtype, b_dtype), out_dtype, (N, K, *tile), xcd_swizzle)
    return preshuffle_launcher(plan, _occupancy(waves_per_eu))


def _mx_plan(
    types: tuple[str, str], out_dtype: str, sizes: tuple[int, int, int, int, int], group: int
) -> PreshufflePlan:
    types = as_text(types[0], "a_dtype"), as_text(types[1], "b_dtype")
    if types not in _MX:
        raise ConfigError("there is no product of these types", code="FLY-C930", value=types,
                          allowed="; ".join(f"{a} and {b}" for a, b in _MX))  # fmt: skip
    return PreshufflePlan(_MX[types], out_dtype, *sizes, group_m=group)


@at_user_line()
def launch_gemm(  # noqa: PLR0913
    C: Any, A: Any, B: Any, scale_a: Any, scale_b: Any, M: int, N: int, stream: Any = None, *,
    K: int, tile_m: int, tile_n: int, tile_k: int, a_dtype: str = "fp4", out_dtype: str = "bf16",
    b_dtype: str = "fp4", batch: int = 1, a_row_stride: int = -1, a_batch_stride: int = -1,
    sca_row_stride: int = -1, sca_batch_stride: int = -1, c_row_stride: int = -1,
    c_batch_stride: int = -1, waves_per_eu: Any = None, xcd_swizzle: int = 0,
) -> None:  # fmt: skip
    """Run C = A B with E8M0 scales; arguments as `compile_mx_gemm` and its launcher.

    With `batch`, matrices A, their scales, B, its scales, and C follow one another; B and its
    scales without gaps. Distances say where the others lie, as `BatchStrides` describes: of A and
    its scales in bytes, of C in elements, negative for no gaps. Arrays are then only where
    operands begin: their extents are not looked at, their sizes are.

    Raises:
        ConfigError: An argument that the kernel cannot have.
        UserValueError: N, or an array's size, that does not fit.
    """
    M, batch = as_integer(M, "M"), as_integer(batch, "batch")  # noqa: N806
    strides = BatchStrides(a_row_stride, a_batch_stride, sca_row_stride, sca_batch_stride,
                           c_row_stride, c_batch_stride)  # fmt: skip
    sizes = N, K, tile_m, tile_n, tile_k
    plan = _mx_plan((a_dtype, b_dtype), out_dtype, sizes, xcd_swizzle)
    if batch == 1 and strides.plain:
        preshuffle_launcher(plan, _occupancy(waves_per_eu))(
            C, A, B, scale_a, scale_b, C, M, N, stream
        )
        return
    found = strides.resolved(plan, M, batch)
    found.check(plan, (C, A, B, scale_a, scale_b), M, batch)
    if M and batch:
        launcher = batched_launcher(plan, _occupancy(waves_per_eu))
        apart = Distances(
            batch, found.a_row, found.a_batch, found.sca_row, found.sca_batch, found.c_row,
            found.c_batch,
        )  # fmt: skip
        launcher(C, A, B, scale_a, scale_b, M, apart, stream)


def _occupancy(value: Any) -> Any:
    """Return ``waves_per_eu`` as a value that can be kept: a number or two, a text, or None.

    Raises:
        UserTypeError: It is something else.
    """
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (tuple, list)):
        return tuple(as_integer(bound, "waves_per_eu") for bound in value)
    return as_integer(value, "waves_per_eu")


def _check_preload(preload: object) -> None:
    if preload is None:
        return
    pair = isinstance(preload, (tuple, list)) and len(preload) == 2
    if not pair or not all(isinstance(n, int) and n >= 0 for n in preload):  # type: ignore[attr-defined]
        raise ConfigError("preload is a pair of counts", code="FLY-C930", value=preload,
                          allowed="(LDS reads, memory reads), or None")  # fmt: skip
