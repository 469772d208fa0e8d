"""Launchers refuse sizes that they were not built for, before anything is compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
from flydsl.config import scope
from flydsl.errors import UserValueError
from flydsl.frontend import JitFunction
from flydsl_kernels.gemm.device.preshuffle.launch import compile_mx_gemm, compile_preshuffle_gemm

N, K = 64, 256


def _arguments(**other: Any) -> dict[str, Any]:
    halves = np.float16
    plain = {
        "C": np.zeros((5, N), halves), "A": np.zeros((5, K), halves), "B": np.zeros((N, K), halves),
        "scale_a": np.zeros(5, np.float32), "scale_b": np.zeros(N, np.float32),
        "bias": np.zeros(N, halves), "M": 5, "N": N, "stream": None,
    }  # fmt: skip
    return {**plain, **other}


def _halves() -> Any:
    return compile_preshuffle_gemm(
        N=N, K=K, tile_m=32, tile_n=64, tile_k=64, in_dtype="fp16", out_dtype="fp16",
        epilogue="bias",
    )  # fmt: skip


WRONG = [
    {"N": 32}, {"N": np.int64(128)}, {"M": -1}, {"M": 6},
    {"A": np.zeros((5, K // 2), np.float16)}, {"A": np.zeros((5, 2 * K), np.float16)},
    {"A": np.zeros(5 * K - 1, np.float16)}, {"B": np.zeros((N, 2 * K), np.float16)},
    {"B": np.zeros((N // 2, K), np.float16)}, {"C": np.zeros((5, N), np.float32)},
    {"C": np.zeros((5, 2 * N), np.float16)}, {"C": np.zeros((4, N), np.float16)},
    {"bias": np.zeros(N - 1, np.float16)},
]  # fmt: skip


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: "-".join(f"{k}" for k in w))
def test_other_sizes_are_refused_at_the_line_of_the_call(wrong: dict[str, Any]) -> None:
    arguments = _arguments(**wrong)
    with scope(FLYDSL_TARGET="gfx942"), pytest.raises(UserValueError) as caught:
        _halves()(*arguments.values())
    assert caught.value.code == "FLY-U911"
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
    with pytest.raises(UserValueError):
        _halves()(**arguments)
    with pytest.raises(UserValueError):
        flyc.compile(_halves(), *arguments.values())


@pytest.mark.parametrize(
    "wrong", [{"N": 96}, {"scale_a": np.zeros((5, 8), np.uint8)}, {"A": np.zeros((5, K), np.uint8)},
              {"scale_b": np.zeros((64, 16), np.uint8)}], ids=str,
)  # fmt: skip
def test_other_sizes_of_scaled_products_are_refused(wrong: dict[str, Any]) -> None:
    codes, scales = np.zeros((N, K // 2), np.uint8), np.zeros((N, K // 32), np.uint8)
    arguments = _arguments(A=codes[:5], B=codes, scale_a=scales[:32], scale_b=scales)
    launcher = compile_mx_gemm(N=N, K=K, tile=(32, 128, 256), out_dtype="fp16")
    with pytest.raises(UserValueError) as caught:
        launcher(*{**arguments, **wrong}.values())
    assert caught.value.code == "FLY-U911"


def test_it_is_a_launcher_like_others() -> None:
    launcher = _halves()
    assert isinstance(launcher, JitFunction)
    assert launcher.name == "launch"
    with scope(FLYDSL_TARGET="gfx942", COMPILE_ONLY="1"):
        compiled = flyc.compile(launcher, *_arguments().values())
    assert len(compiled.kernels) == 1
