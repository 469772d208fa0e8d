"""What configurations of the preshuffled product there are, and which are refused."""

from __future__ import annotations

from typing import Any

import pytest

from flydsl.errors import ConfigError
from flydsl_kernels.gemm.device.preshuffle.launch import compile_preshuffle_gemm
from flydsl_kernels.gemm.device.preshuffle.plan import PreshufflePlan

GOOD: dict[str, Any] = {"N": 256, "K": 512, "tile_m": 64, "tile_n": 128, "tile_k": 128}


def test_numbers_follow_from_the_tile() -> None:
    plan = PreshufflePlan("bf16", "bf16", 256, 8224, 64, 256, 128)
    assert (plan.row_blocks, plan.column_blocks, plan.chunks, plan.passes) == (4, 4, 4, 4)
    assert (plan.rows_per_pass, plan.lds_bytes, plan.steps, plan.tail_chunks) == (16, 32768, 64, 1)
    assert (plan.a_pitch, plan.b_chunk, plan.b_pitch) == (16448, 1024, 257 * 1024)
    four = PreshufflePlan("int4", "bf16", 256, 1024, 64, 256, 128)
    assert (four.b_chunk, four.b_pitch) == (512, 8192)


def test_the_same_arguments_give_the_same_launcher() -> None:
    assert compile_preshuffle_gemm(**GOOD) is compile_preshuffle_gemm(**GOOD)
    assert compile_preshuffle_gemm(**GOOD) is not compile_preshuffle_gemm(**GOOD, xcd_swizzle=4)


@pytest.mark.parametrize(
    "wrong",
    [
        {"in_dtype": "fp64"}, {"out_dtype": "int8"}, {"epilogue": "relu"}, {"tile_m": 24},
        {"tile_m": 0}, {"tile_n": 96}, {"tile_k": 192}, {"tile_k": 64, "tile_m": 32},
        {"N": 2**24}, {"K": 2**28},
        {"N": 200}, {"K": 500}, {"K": 0}, {"tile_m": 256, "tile_n": 512}, {"lds_stage": 3},
        {"lds_stage": 1, "use_async_copy": True},
        {"xcd_swizzle": -1}, {"preload": 3}, {"preload": (1, -1)}, {"stage": 2},
        {"in_dtype": "bf16_int4", "K": 96}, {"in_dtype": "fp8", "K": 96},
    ],
    ids=str,
)  # fmt: skip
def test_what_the_kernel_cannot_do_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError) as caught:
        compile_preshuffle_gemm(**{**GOOD, **wrong})
    assert caught.value.code in ("FLY-C930", "FLY-C608")
    assert caught.value.allowed
