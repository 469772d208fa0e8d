"""Text of ``docs/matrix-instructions.md``, from the tables of `flydsl_rocdl.arch`."""

from __future__ import annotations

from collections.abc import Iterable

from flydsl_rocdl.arch import KNOWN, ArchFacts, MatrixShape

__all__ = ["matrix_page"]

HEAD = """# Matrix instructions

What each AMD architecture multiplies with. An operation of `fx.rocdl` names the extents and element
types of one instruction; `fx.make_tiled_mma` repeats it over waves and tiles, and tiled copies and
fragments made for it bring every lane its elements (see [writing kernels](kernels.md)). An
operation that the architecture lacks is refused where it is made, with a list of what there is.

| operation | what it does | beside the operands |
|---|---|---|
| `MFMA(m, n, k, elem_ab, acc)` | dense, waves of 64 | `"xf32"` as element: f32 rounded to 10 \
bits of mantissa |
| `MFMA_Scale(m, n, k, a, b)` | floats of 8, 6 and 4 bits; 32 k share a scale | state \
`scale_a`, `scale_b`: four E8M0 bytes per lane, chosen by `opsel_a`, `opsel_b`; without them \
nothing is scaled |
| `SMFMAC(m, n, k, elem_ab, acc)` | A holds two of each four k: tiles are (M, K / 2) | state \
`index`, or operand `[a, index]`: two bits for each kept element; `index_set` |
| `WMMA(m, n, k, elem_ab, acc)` | dense, waves of 32 | `sign_a`, `sign_b`, `clamp` for \
integers; `mod_c`, `reuse_a`, `reuse_b` on gfx1250 |
| `WMMAScale(m, n, k, a, b)` | floats of 8, 6 and 4 bits; `block_size` k share a scale | as \
`MFMA_Scale`; `opsel` chooses the half of the wave |
| `SWMMAC(m, n, k, elem_ab, acc)` | sparse A in waves of 32 | as `SMFMAC`, `sign_a`, `sign_b`, \
`clamp` |

`fx.gemm(mma, d, a, b, c, scale_a=…)` attaches a value to every step; `fx.gemm(mma, d, [a, scales],
b, c)` takes it from a register tensor, one for each tile of the operand.

Floats of 8 bits have two flavours. Only that of the architecture is accepted, because the same bits
mean other values in the other: `FNUZ` types on gfx942, `Float8E4M3FN` and `Float8E5M2` elsewhere.

Instructions of several blocks multiply as many pairs of blocks at once. Their operations lay the
blocks next to each other: of 16 blocks of 4 x 4, `MFMA(4, 64, 4, …)` multiplies one block of A with
sixteen of B, `MFMA(8, 32, 4, …)` two with eight. `MFMA(4, 4, 4, …)` is an operation of four lanes,
of which a wave does sixteen, each on its own block.

The layouts of gfx942, gfx950, gfx11 and gfx12 are proven by products in the emulator. Of gfx1250,
scaled operands of unlike widths rest on public compilers only, and sparse ones have no operation:
the raw builders take their registers.

Every instruction is also a function under its ROCDL name, `fx.rocdl.mfma_f32_16x16x16f16(None, [a,
b, c])`, on registers as the hardware has them.

Passes are of four clocks each, where they are documented. This page is generated from the code by
`tools/reference_pages.py`.
"""
TITLES = {
    "mfma": "MFMA",
    "mfma_scale": "MFMA_Scale",
    "smfmac": "SMFMAC",
    "wmma": "WMMA",
    "wmma_scale": "WMMAScale",
    "swmmac": "SWMMAC",
}


def _groups() -> list[tuple[str, ArchFacts]]:
    """Return the architectures with equal tables, joined, with the facts of one of them."""
    found: dict[tuple[MatrixShape, ...], list[ArchFacts]] = {}
    for facts in KNOWN.values():
        found.setdefault(facts.matrix, []).append(facts)
    return [(", ".join(f.name for f in same), same[0]) for same in found.values()]


def _types(shapes: Iterable[MatrixShape]) -> str:
    pairs = dict.fromkeys((s.a, s.b) for s in shapes)
    first, second = ({pair[side] for pair in pairs} for side in (0, 1))
    if len(pairs) > 1 and len(pairs) == len(first) * len(second):
        return "any of " + ", ".join(dict.fromkeys(a for a, _ in pairs))
    return ", ".join(a if a == b else f"{a} x {b}" for a, b in pairs)


def _rows(shapes: Iterable[MatrixShape]) -> list[str]:
    """Return one row for each instruction and number of passes, mixes of types together."""
    grouped: dict[tuple[object, ...], list[MatrixShape]] = {}
    for s in shapes:
        small = s.family.endswith("_scale") or s.a in ("fp8", "bf8")
        key = (s.m, s.n, s.k, s.blocks, s.acc, s.passes, s.intrinsic[:11], small or s.mnemonic)
        grouped.setdefault(key, []).append(s)
    rows = []
    for same in grouped.values():
        s = same[0]
        blocks = f", {s.blocks} blocks" if s.blocks > 1 else ""
        names = dict.fromkeys(shape.mnemonic for shape in same)
        name = next(iter(names)) if len(names) == 1 else next(iter(names)).rsplit("_", 2)[0] + "_…"
        types = _types(same)
        if s.family.endswith("_scale") and s.passes and "any" not in types:
            types = "mixes with fp8 or bf8"
        rows.append(
            f"| {s.m}x{s.n}x{s.k}{blocks} | {types} | {s.acc} | `{name}` | {s.passes or '–'} |"
        )
    return rows


def matrix_page() -> str:
    """Return ``docs/matrix-instructions.md``."""
    text = HEAD
    for names, facts in _groups():
        text += f"\n## {names}\n"
        for family, title in TITLES.items():
            shapes = [s for s in facts.matrix if s.family == family]
            if shapes:
                text += f"\n### {title}, {names}\n\n| m x n x k | A and B | C | instruction | "
                text += "passes |\n|---|---|---|---|---|\n" + "\n".join(_rows(shapes)) + "\n"
    return text
