"""What paged decoding executes and moves, from the emulator's report: no GPU, no timing.

Bytes that loads of the decoding kernel fetch from the caches (every executed load of every lane)
against the size of the keys and values that sequences have, and the widths of those loads.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
from figures import Figure, add_json, show

import flydsl_emu
from flydsl.config import scope
from flydsl_kernels.attention import mla_decode, paged_attention_decode

BF16 = np.dtype(ml_dtypes.bfloat16)


def measure(target: str, kind: np.dtype, layout: str, keys: int) -> list[Figure]:
    """Run one call and return its figures."""
    page, heads, kv_heads, d = 64, 16, 2, 128
    pages, x = keys // page, 16 // kind.itemsize
    random = np.random.default_rng(0)
    q = random.standard_normal((1, 1, heads, d)).astype(BF16)
    flat = random.standard_normal((2, pages, page, kv_heads, d)).astype(kind)
    key_cache, value_cache = flat
    if layout != "linear":
        key_cache = key_cache.reshape(pages, page, kv_heads, d // x, x).transpose(0, 2, 3, 1, 4)
        value_cache = value_cache.reshape(pages, page // x, x, kv_heads, d)
        value_cache = value_cache.transpose(0, 3, 1, 4, 2)
    caches = [np.ascontiguousarray(c) for c in (key_cache, value_cache)]
    table = np.arange(pages, dtype=np.int32)[None]
    lens = np.array([keys], np.int32)
    with scope(FLYDSL_TARGET=target), flydsl_emu.collect() as reports:
        paged_attention_decode(q, *caches, table, lens, cache_layout=layout)
    report = next(r for r in reports if "decode_kernel" in r.kernel)
    return figures(f"decode {kind.name} {layout} {target}", report, sum(c.nbytes for c in caches))


def measure_latent(target: str, kind: np.dtype, keys: int) -> list[Figure]:
    """Run one call of latent attention for 128 heads and return its figures."""
    random = np.random.default_rng(0)
    q = random.standard_normal((1, 1, 128, 576)).astype(BF16)
    cache = random.standard_normal((keys // 64, 64, 576)).astype(kind)
    table = np.arange(keys // 64, dtype=np.int32)[None]
    with scope(FLYDSL_TARGET=target), flydsl_emu.collect() as reports:
        mla_decode(q, cache, table, np.array([keys], np.int32), partitions=1)
    report = next(r for r in reports if "latent_kernel" in r.kernel)
    # The kernel writes f32 results of the one part, and reads the queries: neither is cache.
    other = q.nbytes + 4 * 128 * 512
    return figures(f"latent {kind.name} {target}", report, cache.nbytes, other)


def figures(name: str, report: Any, size: int, other: int = 0) -> list[Figure]:
    """Return what a kernel moves against the size of the cache, and what it uses.

    Args:
        name: What is measured.
        report: The emulator's report.
        size: Bytes of the cache.
        other: Bytes that it moves besides.
    """
    loads = [a for a in report.accesses if a.space == "global" and "load" in a.text]
    # Those of 32 bits read the numbers of pages.
    loads = [a for a in loads if not a.text.startswith(("global_load_dword ", "global_load_b32"))]
    wide = [a for a in loads if "dwordx4" in a.text or "b128" in a.text]
    share = sum(a.executions for a in wide) / sum(a.executions for a in loads)
    return [
        Figure(
            f"{name}: distinct bytes / KV bytes", (report.distinct_bytes - other) / size, "ratio"
        ),
        Figure(f"{name}: 128-bit loads / loads", share, "ratio"),
        Figure(f"{name}: registers", report.resources.vgprs, "VGPR"),
        Figure(f"{name}: scratch", report.resources.scratch_bytes, "B"),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures, as lines of JSON if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keys", type=int, default=2048)
    add_json(parser)
    options = parser.parse_args(arguments)
    kinds = {
        "gfx942": np.dtype(ml_dtypes.float8_e4m3fnuz),
        "gfx950": np.dtype(ml_dtypes.float8_e4m3fn),
        "gfx1100": np.dtype(ml_dtypes.float8_e4m3fn),
        "gfx1201": np.dtype(ml_dtypes.float8_e4m3fn),
    }
    for target, small in kinds.items():
        for kind in (BF16, small):
            show(measure_latent(target, kind, options.keys), options.json)
        for kind in (BF16, small):
            for layout in ("linear", "vectorised"):
                show(measure(target, kind, layout, options.keys), options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
