"""MFMA instructions on fragments placed by the atoms' layouts, against a matrix product."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from flydsl_rocdl.arch import INSTRUCTION_TYPES, lookup
from flydsl_rocdl.atoms import MFMA

DTYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "i8": np.int8,
    "i32": np.int32,
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


def _pointer(element: str) -> str:
    return f'!fly.ptr<{element}, "global", 4 : i64, "">'


def _kernel(atom: MFMA, values: dict[str, int]) -> str:
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
    lines = "\n".join(body)
    return f"""
    gpu.module @m {{
      gpu.func @k({parameters}) kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
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
    rng = np.random.default_rng(m * k)
    kinds = dict(zip("abcd", (DTYPES[e] for e in atom.elements), strict=True))
    a, b, c = (
        (rng.integers(-8, 9, shape) / (1 if element == "i8" else 4)).astype(kinds[name])
        for name, shape in (("a", (m, k)), ("b", (m, k)), ("c", (m, m)))
    )
    layouts = {"a": atom.layout_a_tv(), "b": atom.layout_b_tv(), "c": atom.layout_c_tv()}
    layouts["d"] = layouts["c"]
    values = {name: m * (m if name in "cd" else k) // 64 for name in "abcd"}
    places = {
        name: np.array([[layouts[name]((t, v)) for v in range(values[name])] for t in range(64)])
        for name in "abcd"
    }
    # Linear coordinates count the first mode fastest, as Fortran order does.
    fragments = {
        name: np.ascontiguousarray(x.ravel(order="F")[places[name]])
        for name, x in (("a", a), ("b", b), ("c", c), ("d", np.zeros_like(c)))
    }
    code = build(_kernel(atom, values), arch)
    run_code(code, [fragments[n] for n in "abcd"])
    result = np.empty(m * m, kinds["d"])
    result[places["d"].ravel()] = fragments["d"].ravel()
    # Quarters of small integers: every order of summation is exact.
    wide = np.int64 if element == "i8" else np.float64
    expected = a.astype(wide) @ b.astype(wide).T + c.astype(wide)
    assert np.array_equal(result.reshape((m, m), order="F").astype(wide), expected)


def test_every_listed_shape_is_tried_or_is_fp8() -> None:
    tried = {(m, k, e) for arch, m, k, e in SHAPES if arch == "gfx950"}
    tried |= {(m, k, e) for arch, m, k, e in SHAPES if arch == "gfx942"}
    small = set(INSTRUCTION_TYPES.values())
    listed = {(s.m, s.k, s.a) for s in lookup("gfx950").matrix if s.a not in small}
    assert listed == tried
