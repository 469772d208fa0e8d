"""What paged decoding executes and moves, from the emulator's report: no GPU, no timing.

Bytes that loads of the decoding kernel fetch from the caches (every executed load of every lane)
against the size of the keys and values that sequences have, and the widths of those loads.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import ml_dtypes
import numpy as np
from figures import Figure, add_json, show

import flydsl_emu
from flydsl.config import scope
from flydsl_kernels.attention import paged_attention_decode

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
    loads = [a for a in report.accesses if a.space == "global" and "load" in a.text]
    wide = [a for a in loads if "dwordx4" in a.text or "b128" in a.text]
    size = sum(c.nbytes for c in caches)
    name = f"decode {kind.name} {layout} {target}"
    share = sum(a.executions for a in wide) / sum(a.executions for a in loads)
    return [
        Figure(f"{name}: distinct bytes / KV bytes", report.distinct_bytes / size, "ratio"),
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
    }
    for target, small in kinds.items():
        for kind in (BF16, small):
            for layout in ("linear", "vectorised"):
                show(measure(target, kind, layout, options.keys), options.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
