"""MFMA and WMMA on fragments placed by the atoms' layouts, against a matrix product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flydsl_rocdl.arch import INSTRUCTION_TYPES, lookup
from flydsl_rocdl.atoms import MFMA, WMMA

DTYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "i8": np.int8,
    "i32": np.int32,
    "f8E4M3FN": ml_dtypes.float8_e4m3fn,
    "f8E5M2": ml_dtypes.float8_e5m2,
}
SHAPES = [
    ("gfx942", 16, 4, "f32"),
    ("gfx942", 32, 2, "f32"),
    ("gfx942", 16, 16, "f16"),
    ("gfx942", 16, 16, "bf16"),
    ("gfx942", 32, 8, "f16"),
    ("gfx942", 32, 8, "bf16"),
    ("gfx942", 16, 32, "i8"),
    ("gfx942", 32, 16, "i8"),
    ("gfx950", 16, 16, "bf16"),
    ("gfx950", 16, 32, "f16"),
    ("gfx950", 16, 32, "bf16"),
    ("gfx950", 32, 16, "f16"),
    ("gfx950", 32, 16, "bf16"),
]


SMALL = ("f8E4M3FN", "f8E5M2")
WAVES_32 = [("gfx1100", e, e) for e in ("f16", "bf16", "i8")]
WAVES_32 += [("gfx1201", e, e) for e in ("f16", "bf16", "i8")]
WAVES_32 += [("gfx1201", a, b) for a in SMALL for b in SMALL]


def _pointer(element: str) -> str:
    return f'!fly.ptr<{element}, "global", 4 : i64, "">'


def _kernel(atom: MFMA | WMMA, values: dict[str, int], lanes: int) -> str:
    """Each lane loads its fragments from arrays of (lane, value), multiplies and stores."""
    kinds = dict(zip("abcd", atom.elements, strict=True))
    body = []
    for name in "abcd":
        kind = _pointer(kinds[name])
        body += [
            f"%n{name} = arith.constant {values[name]} : i32",
            f"%o{name} = arith.muli %lane, %n{name} : i32",
            f'%p{name} = "fly.add_offset"(%{name}, %o{name}) : ({kind}, i32) -> {kind}',
        ]
        if name != "d":
            vector = f"vector<{values[name]}x{kinds[name]}>"
            body.append(f'%v{name} = "fly.ptr_load"(%p{name}) : ({kind}) -> {vector}')
    va, vb, vc = (f"vector<{values[n]}x{kinds[n]}>" for n in "abc")
    atom_type = f'!fly.mma_atom<"{atom}">'
    call = (
        '%r = "fly.mma_atom_call_ssa"(%atom, %va, %vb, %vc) '
        "{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0>}"
    )
    body += [
        f'%atom = "fly.make_mma_atom"() : () -> {atom_type}',
        f"{call} : ({atom_type}, {va}, {vb}, {vc}) -> {vc}",
        f'"fly.ptr_store"(%r, %pd) : ({vc}, {_pointer(kinds["d"])}) -> ()',
    ]
    parameters = ", ".join(f"%{n}: {_pointer(kinds[n])}" for n in "abcd")
    block = f"known_block_size = array<i32: {lanes}, 1, 1>"
    lines = "\n".join(body)
    return f"""
    gpu.module @m {{
      gpu.func @k({parameters}) kernel attributes {{{block}}} {{
        %t = gpu.thread_id x
        %lane = arith.index_cast %t : index to i32
        {lines}
        gpu.return
      }}
    }}
    """


@pytest.mark.parametrize(("arch", "m", "k", "element"), SHAPES)
def test_product(
    build: Callable[..., Any],
    run_code: Callable[..., None],
    arch: str,
    m: int,
    k: int,
    element: str,
) -> None:
    accumulator = "i32" if element == "i8" else "f32"
    atom = MFMA(m, m, k, element, element, accumulator)
    _check_product(build, run_code, arch, atom, 64)


@pytest.mark.parametrize(("arch", "a", "b"), WAVES_32)
def test_product_of_32_lanes(
    build: Callable[..., Any], run_code: Callable[..., None], arch: str, a: str, b: str
) -> None:
    copies = 2 if arch == "gfx1100" else 1
    accumulator = "i32" if a == "i8" else "f32"
    _check_product(build, run_code, arch, WMMA(16, 16, 16, a, b, accumulator, copies), 32, copies)


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1201"])
def test_signs_and_saturation(
    build: Callable[..., Any], run_code: Callable[..., None], arch: str
) -> None:
    copies = 2 if arch == "gfx1100" else 1
    for sign_a, sign_b, clamp in ((False, True, False), (True, False, True), (False, False, True)):
        atom = WMMA(16, 16, 16, "i8", "i8", "i32", copies, sign_a, sign_b, clamp)
        _check_product(build, run_code, arch, atom, 32, copies, 2**31 - 40000)


def _check_product(
    build: Callable[..., Any],
    run_code: Callable[..., None],
    arch: str,
    atom: MFMA | WMMA,
    lanes: int,
    copies: int = 1,
    start: int = 0,
) -> None:
    """Multiply random matrices; `start` is added to C of integers."""
    m, _, k = atom.shape_mnk
    integers = atom.elements[0] == "i8"
    rng = np.random.default_rng(m * k)
    kinds = dict(zip("abcd", (DTYPES[e] for e in atom.elements), strict=True))
    limit = 128 if start else 9
    a, b, c = (
        (rng.integers(-limit if start else -8, limit, shape) / (1 if integers else 4)).astype(kind)
        for kind, shape in ((kinds["a"], (m, k)), (kinds["b"], (m, k)), (kinds["c"], (m, m)))
    )
    c = (c + start).astype(kinds["c"]) if start else c
    layouts = {"a": atom.layout_a_tv(), "b": atom.layout_b_tv(), "c": atom.layout_c_tv()}
    layouts["d"] = layouts["c"]
    values = {name: m * (m if name in "cd" else k * copies) // lanes for name in "abcd"}
    places = {
        name: np.array([[layouts[name]((t, v)) for v in range(values[name])] for t in range(lanes)])
        for name in "abcd"
    }
    # Linear coordinates count the first mode fastest, as Fortran order does.
    fragments = {
        name: np.ascontiguousarray(x.ravel(order="F")[places[name]])
        for name, x in (("a", a), ("b", b), ("c", c), ("d", np.zeros_like(c)))
    }
    code = build(_kernel(atom, values, lanes), arch)
    run_code(code, [fragments[n] for n in "abcd"], lanes)
    result = np.empty(m * m, kinds["d"])
    result[places["d"].ravel()] = fragments["d"].ravel()
    # Quarters of small integers: every order of summation is exact.
    wide = np.int64 if integers else np.float64
    sides = [x.astype(wide) for x in (a, b)]
    if isinstance(atom, WMMA) and integers:
        signs = (atom.sign_a, atom.sign_b)
        sides = [x if sign else x & 255 for x, sign in zip(sides, signs, strict=True)]
    expected = sides[0] @ sides[1].T + c.astype(wide)
    if integers:
        low, high = -(2**31), 2**31 - 1
        clamps = isinstance(atom, WMMA) and atom.clamp
        expected = np.clip(expected, low, high) if clamps else (expected - low) % 2**32 + low
    assert np.array_equal(result.reshape((m, m), order="F").astype(wide), expected)


def test_every_listed_shape_is_tried_or_is_fp8() -> None:
    tried = {(m, k, e) for arch, m, k, e in SHAPES if arch == "gfx950"}
    tried |= {(m, k, e) for arch, m, k, e in SHAPES if arch == "gfx942"}
    small = set(INSTRUCTION_TYPES.values())
    listed = {(s.m, s.k, s.a) for s in lookup("gfx950").matrix if s.a not in small}
    assert listed == tried
