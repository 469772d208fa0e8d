"""What the grouped products of a mixture of experts compile to: no GPU, no timing.

For each product: CPU time of a cold compile (this process plus the codegen worker, best of
``--repeats``, nothing cached, both processes warm), registers, spills, local data share, and the
hot loop: the innermost one with most matrix instructions, their share of its instructions, and
with an ``llvm-mca`` the share of cycles that the matrix core is busy. Beside them the figures of
another project's kernels of the same tiles (64 entries, K in steps of 128 bytes), whose first
product has no loop.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from figures import add_json, of_kernel, show, shown

import flydsl.compiler as flyc
from flydsl.config import scope
from flydsl_emu.report.mca import find_program
from flydsl_emu.report.static import static_reports
from flydsl_kernels.moe import moe_sort
from flydsl_kernels.moe.device.grouped import launch_grouped
from flydsl_kernels.moe.experts import prepare_experts
from flydsl_kernels.moe.formats import FORMATS
from flydsl_kernels.moe.ops.grouped import Product, product_arguments
from flydsl_kernels.moe.ops.parts import blocks_of_channels
from flydsl_kernels.moe.plans import Activation

TOKENS, EXPERTS, SLOTS, K, CHANNELS = 8, 4, 2, 512, 256
# (operation, format, architecture) -> CPU ms, VGPRs, share of matrix instructions, share of cycles.
REFERENCE = {
    ("gemm1", "fp8", "gfx942"): (2334, 198, None, None),
    ("gemm2", "fp8", "gfx942"): (None, 138, 0.56, 0.70),
}


def arguments_of(name: str, format: str, target: str, unit: int) -> tuple[Any, ...]:
    """Return what a product's launcher is compiled for."""
    numbers = FORMATS[format]
    halves = 2 if name == "gemm1" else 1
    ids = np.zeros((TOKENS, SLOTS), np.int32)
    order = moe_sort(ids, np.ones(ids.shape, np.float32), EXPERTS, unit=unit)
    flavour = "float8_e4m3fnuz" if target == "gfx942" else "float8_e4m3fn"
    kinds = {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "fp8": getattr(ml_dtypes, flavour),
             "fp8_block": getattr(ml_dtypes, flavour)}  # fmt: skip
    n = halves * CHANNELS
    packed = numbers.weights == ("float4_e2m1fn",)
    w = np.zeros((EXPERTS, n, K // 2 if packed else K),
                 kinds.get(format, np.uint8 if packed else np.int8))  # fmt: skip
    scales = {
        "none": None,
        "channel": np.ones((EXPERTS, n), np.float32),
        "block": np.ones((EXPERTS, n // 128, K // 128), np.float32),
        "group": np.ones((EXPERTS, n, K // 128), np.float32),
        "mx": np.full((EXPERTS, n, K // 32), 127, np.uint8),
    }[numbers.w_scale]
    weights = prepare_experts(w, format=format, gated=halves == 2, scales=scales)
    rows = TOKENS if name == "gemm1" else TOKENS * SLOTS
    kind = {16: np.float16 if format == "f16" else ml_dtypes.bfloat16, 4: np.uint8}.get(
        numbers.bits, np.int8 if numbers.integer else getattr(ml_dtypes, flavour)
    )
    x = np.zeros((rows, K * numbers.bits // 8 // np.dtype(kind).itemsize), kind)
    a_scales = {
        "none": None,
        "row": np.ones(rows, np.float32),
        "block": np.ones((rows, K // 128), np.float32),
        "mx": np.full((rows, K // 32), 127, np.uint8),
    }[numbers.a_scale]
    out = np.zeros((TOKENS * SLOTS, CHANNELS), ml_dtypes.bfloat16)
    product = Product(
        "token" if name == "gemm1" else "pair", Activation() if name == "gemm1" else None,
        name == "gemm2", tiles=blocks_of_channels(weights, unit),
    )  # fmt: skip
    return product_arguments(x, a_scales, weights, order, product, out)


def measure(name: str, format: str, target: str, unit: int, repeats: int) -> dict[str, object]:
    """Compile one product and return its figures."""
    best, compiled = float("inf"), None
    with scope(FLYDSL_TARGET=target, FLYDSL_RUNTIME_ENABLE_CACHE=False):
        arguments = (*arguments_of(name, format, target, unit), None)
        for _ in range(repeats):
            launch_grouped.state = None
            started = time.process_time()
            compiled = flyc.compile(launch_grouped, *arguments)
            own = time.process_time() - started
            worker = sum(
                e.cpu_seconds for e in compiled.events if e.kind in ("optimise", "codegen")
            )
            best = min(best, own + worker)
    assert compiled is not None
    (report,) = static_reports(compiled.hsaco, mca=find_program())
    hot = max(report.loops, key=lambda loop: loop.static_instructions.get("mfma", 0))
    reference = REFERENCE.get((name, format, target), (None,) * 4)
    return {
        "operation": name,
        "format": format,
        "target": target,
        "entries x channels": f"{unit} x {arguments[3].tile_n}",
        "compile ms": 1e3 * best,
        "vgprs": report.resources.vgprs,
        "agprs": getattr(report.resources, "agprs", 0),
        "spills": sum(report.spills),
        "lds": report.resources.lds_bytes,
        "loop": sum(hot.static_instructions.values()),
        "classes": dict(hot.static_instructions),
        "mfma share": hot.mfma_share,
        "mca share": hot.mca.matrix_share if hot.mca else None,
        "reference compile ms": reference[0],
        "reference vgprs": reference[1],
        "reference mfma share": reference[2],
        "reference mca share": reference[3],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--format", action="append", choices=list(FORMATS))
    parser.add_argument("--target", action="append", help="default: gfx942 and gfx950")
    parser.add_argument("--unit", type=int, default=64, help="entries of a tile")
    parser.add_argument("--repeats", type=int, default=2)
    add_json(parser)
    options = parser.parse_args(arguments)
    for target in options.target or ("gfx942", "gfx950"):
        for numbers in options.format or FORMATS:
            if target != "gfx942" or FORMATS[numbers].family == "mfma":
                for name in ("gemm1", "gemm2"):
                    figures = measure(name, numbers, target, options.unit, options.repeats)
                    found = of_kernel(f"{name} {numbers} {target}", figures, UNITS)
                    show(found, options.json, shown(figures))
    return 0


UNITS = {
    "compile ms": "ms",
    "vgprs": "VGPR",
    "agprs": "AGPR",
    "spills": "registers",
    "lds": "B",
    "mfma share": "ratio",
    "mca share": "ratio",
}


if __name__ == "__main__":
    sys.exit(main())
