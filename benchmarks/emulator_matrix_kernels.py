"""LLVM IR of the kernels of matrices that `emulator.py` runs, for gfx942."""

from __future__ import annotations

import struct

from emulator_kernels import Writer

__all__ = ["attention", "gemm"]

STEP = 64
"""Columns of A and B that one turn of the product takes."""
PITCH = STEP + 8
"""Elements of their rows in LDS, padded."""


def _store_tile(w: Writer, n: int) -> None:
    """Store the 64 x 64 sums of a wave to C with rows of `n`."""
    row = w("mul i32 %by, 128")
    part = w("mul i32 %wr, 64")
    row = w(f"add i32 {row}, {part}")
    group = w("mul i32 %lg, 4")
    row = w(f"add i32 {row}, {group}")
    column = w("mul i32 %b, 128")
    part = w("mul i32 %wc, 64")
    column = w(f"add i32 {column}, {part}")
    column = w(f"add i32 {column}, %li")
    for m in range(4):
        for j in range(4):
            for r in range(4):
                x = w(f"extractelement <4 x float> %d{4 * m + j}.{STEP // 16 - 1}, i32 {r}")
                y = w(f"add i32 {row}, {16 * m + r}")
                at = w(f"mul i32 {y}, {n}")
                at = w(f"add i32 {at}, {column}")
                at = w(f"add i32 {at}, {16 * j}")
                wide = w(f"zext i32 {at} to i64")
                p = w.pointer("%cm", wide, "float", 1)
                w.do(f"store float {x}, ptr addrspace(1) {p}")


def _tile_places(w: Writer, depth: int) -> tuple[list[str], list[str], list[str]]:
    """Return where a thread loads A and B from, where it puts them, and where a wave reads."""
    # Each thread copies half a row of A and of B.
    w.do("%cr = lshr i32 %t, 1")
    half = w("and i32 %t, 1")
    w.do(f"%cc = mul i32 {half}, {STEP // 2}")
    sources = []
    for name, block in (("%a", "%by"), ("%bm", "%b")):
        row = w(f"mul i32 {block}, 128")
        row = w(f"add i32 {row}, %cr")
        at = w(f"mul i32 {row}, {depth}")
        at = w(f"add i32 {at}, %cc")
        wide = w(f"zext i32 {at} to i64")
        sources.append(w.pointer(name, wide, "i16", 1))
    at = w(f"mul i32 %cr, {PITCH}")
    place = w(f"add i32 {at}, %cc")
    targets = [w.pointer(tile, place, "i16", 3) for tile in ("@ta", "@tb")]
    frags = []
    for tile, which in (("@ta", "%wr"), ("@tb", "%wc")):
        row = w(f"mul i32 {which}, 64")
        row = w(f"add i32 {row}, %li")
        at = w(f"mul i32 {row}, {PITCH}")
        column = w("mul i32 %lg, 8")
        at = w(f"add i32 {at}, {column}")
        frags.append(w.pointer(tile, at, "i16", 3))
    return sources, targets, frags


def _copy_tiles(w: Writer, sources: list[str], targets: list[str]) -> None:
    """Copy the columns from ``%k`` of A and B to LDS."""
    wide = w("zext i32 %k to i64")
    for source, target in zip(sources, targets, strict=True):
        p = w.pointer(source, wide, "i16", 1)
        for part in range(0, STEP // 2, 8):
            q = w(f"getelementptr i16, ptr addrspace(1) {p}, i64 {part}")
            x = w(f"load <8 x i16>, ptr addrspace(1) {q}, align 16")
            r = w(f"getelementptr i16, ptr addrspace(3) {target}, i32 {part}")
            w.do(f"store <8 x i16> {x}, ptr addrspace(3) {r}, align 16")


def _multiply_tiles(w: Writer, frags: list[str]) -> None:
    """Multiply what is in LDS: ``%c`` becomes ``%d``.

    A lane loads 8 columns at once; which of 32 columns is the k-th does not matter as long as A
    and B agree, so that the first halves of all lanes make one product and the second another.
    """
    for step in range(STEP // 32):
        parts = []
        for base in frags:
            for m in range(4):
                place = m * 16 * PITCH + step * 32
                p = w(f"getelementptr i16, ptr addrspace(3) {base}, i32 {place}")
                parts.append(w.halves(w(f"load <8 x i16>, ptr addrspace(3) {p}, align 16")))
        for half in (0, 1):
            turn = 2 * step + half
            for m in range(4):
                for j in range(4):
                    q = 4 * m + j
                    before = f"%d{q}.{turn - 1}" if turn else f"%c{q}"
                    operands = f"<4 x i16> {parts[m][half]}, <4 x i16> {parts[4 + j][half]}"
                    w.do(
                        f"%d{q}.{turn} = call <4 x float> "
                        f"@llvm.amdgcn.mfma.f32.16x16x16bf16.1k({operands}, "
                        f"<4 x float> {before}, i32 0, i32 0, i32 0)"
                    )


def gemm(n: int, depth: int) -> str:
    """``C = A @ B.T`` of bf16 matrices with rows of `depth`; 128 x 128 a workgroup, 64 x 64 a wave.

    C is ``float32[n rows of n]``; the grid is ``(n / 128, n / 128)``.
    """
    w = Writer()
    w.prologue()
    w.do("%by = call i32 @llvm.amdgcn.workgroup.id.y()")
    w.do("%wr = lshr i32 %wave, 1")
    w.do("%wc = and i32 %wave, 1")
    w.do("%li = and i32 %lane, 15")
    w.do("%lg = lshr i32 %lane, 4")
    sources, targets, frags = _tile_places(w, depth)
    w.do("br label %loop")
    w.do("loop:")
    w.do("%k = phi i32 [ 0, %0 ], [ %kn, %loop ]")
    last = STEP // 16 - 1
    for q in range(16):
        w.do(f"%c{q} = phi <4 x float> [ zeroinitializer, %0 ], [ %d{q}.{last}, %loop ]")
    _copy_tiles(w, sources, targets)
    w.barrier()
    _multiply_tiles(w, frags)
    w.barrier()
    w.do(f"%kn = add i32 %k, {STEP}")
    more = w(f"icmp ult i32 %kn, {depth}")
    w.do(f"br i1 {more}, label %loop, label %end")
    w.do("end:")
    _store_tile(w, n)
    tiles = "".join(
        f"@{name} = internal addrspace(3) global [{128 * PITCH} x i16] poison, align 16\n"
        for name in ("ta", "tb")
    )
    arguments = "ptr addrspace(1) %a, ptr addrspace(1) %bm, ptr addrspace(1) %cm"
    return w.function(arguments, tiles)


KEYS = 64
"""Keys that one turn of the attention kernel takes."""
DEPTH = 128
"""Elements of a head."""
QUERIES = 32
"""Queries of a wave, in sets of 16."""


def attention(length: int) -> str:
    """Attention without mask: Q and K ``bf16[head, length, 128]``, V ``[head, 128, length]``.

    A workgroup takes 128 queries of a head, a wave 32; the grid is ``(length / 128, heads)``.
    Scores are scaled by log2(e) / sqrt(128). O is ``float32[head, length, 128]``.

    A wave computes the transposed scores, keys by queries: a lane holds scores of one query of
    each set, in the very places in which the product with V takes its second operand.
    """
    w = Writer()
    w.prologue()
    w.do("%h = call i32 @llvm.amdgcn.workgroup.id.y()")
    w.do("%li = and i32 %lane, 15")
    w.do("%lg = lshr i32 %lane, 4")
    head = w(f"mul i32 %h, {length * DEPTH}")
    first = w(f"mul i32 %b, {4 * QUERIES}")
    own = w(f"mul i32 %wave, {QUERIES}")
    first = w(f"add i32 {first}, {own}")
    first = w(f"add i32 {first}, %li")
    sets = range(QUERIES // 16)
    numbers = [w(f"add i32 {first}, {16 * s}") for s in sets]
    queries = [_queries(w, head, number) for number in numbers]
    keys, values = _bases(w, head, length)
    w.do("br label %loop")
    w.do("loop:")
    w.do("%k = phi i32 [ 0, %0 ], [ %kn, %loop ]")
    for s in sets:
        for n in range(DEPTH // 16):
            w.do(f"%o{s}.{n} = phi <4 x float> [ zeroinitializer, %0 ], [ %p{s}.{n}, %loop ]")
        w.do(f"%top{s} = phi float [ 0xFFF0000000000000, %0 ], [ %topn{s}, %loop ]")
        w.do(f"%sum{s} = phi float [ 0.0, %0 ], [ %sumn{s}, %loop ]")
    scores = _scores(w, queries, keys)
    _values(w, [_weights(w, scores[s], s) for s in sets], values, length)
    w.do(f"%kn = add i32 %k, {KEYS}")
    more = w(f"icmp ult i32 %kn, {length}")
    w.do(f"br i1 {more}, label %loop, label %end")
    w.do("end:")
    for s in sets:
        _finish(w, head, numbers[s], s)
    arguments = ", ".join(f"ptr addrspace(1) %{name}" for name in ("q", "kk", "v", "out"))
    return w.function(arguments)


def _mfma(w: Writer, a: str, b: str, c: str) -> str:
    return w(
        "call <4 x float> @llvm.amdgcn.mfma.f32.16x16x16bf16.1k("
        f"<4 x i16> {a}, <4 x i16> {b}, <4 x float> {c}, i32 0, i32 0, i32 0)"
    )


def _eight(w: Writer, base: str, at: str) -> list[str]:
    """Load 8 elements, `at` (uniform) from a lane's own base, as two vectors of 4."""
    wide = w(f"zext i32 {at} to i64")
    place = w.pointer(base, wide, "i16", 1)
    return w.halves(w(f"load <8 x i16>, ptr addrspace(1) {place}, align 16"))


def _queries(w: Writer, head: str, query: str) -> list[str]:
    """Load 16 queries: of each 32 elements a lane holds 8, in two vectors."""
    at = w(f"mul i32 {query}, {DEPTH}")
    part = w("mul i32 %lg, 8")
    at = w(f"add i32 {at}, {part}")
    at = w(f"add i32 {at}, {head}")
    wide = w(f"zext i32 {at} to i64")
    base = w.pointer("%q", wide, "i16", 1)
    return [x for d in range(0, DEPTH, 32) for x in _eight(w, base, str(d))]


def _bases(w: Writer, head: str, length: int) -> tuple[str, str]:
    """Return where a lane's part of the first keys and of the first 16 rows of V begins.

    Of 32 keys a product takes four and leaves four in turn: so the scores that a lane holds after
    two products belong to 8 keys that lie one after another in V.
    """
    eight = w("lshr i32 %li, 2")
    eight = w(f"mul i32 {eight}, 8")
    key = w("and i32 %li, 3")
    key = w(f"or i32 {key}, {eight}")
    part = w("mul i32 %lg, 8")
    bases = []
    for name, row, pitch in (("%kk", key, DEPTH), ("%v", "%li", length)):
        at = w(f"mul i32 {row}, {pitch}")
        at = w(f"add i32 {at}, {part}")
        at = w(f"add i32 {at}, {head}")
        wide = w(f"zext i32 {at} to i64")
        bases.append(w.pointer(name, wide, "i16", 1))
    return bases[0], bases[1]


def _scores(w: Writer, queries: list[list[str]], keys: str) -> list[list[str]]:
    """Return for each set of queries the scaled scores of one turn's keys."""
    scale = _hex(1.4426950408889634 / DEPTH**0.5)
    start = w(f"mul i32 %k, {DEPTH}")
    scores: list[list[str]] = [[] for _ in queries]
    for key in (32 * c + 4 * half for c in range(KEYS // 32) for half in (0, 1)):
        totals = ["zeroinitializer" for _ in queries]
        for d in range(0, DEPTH, 32):
            at = w(f"add i32 {start}, {key * DEPTH + d}")
            for half, part in enumerate(_eight(w, keys, at)):
                totals = [
                    _mfma(w, part, own[d // 16 + half], total)
                    for own, total in zip(queries, totals, strict=True)
                ]
        for out, total in zip(scores, totals, strict=True):
            scaled = w(f"fmul <4 x float> {total}, splat (float {scale})")
            out += [w(f"extractelement <4 x float> {scaled}, i32 {r}") for r in range(4)]
    return scores


def _weights(w: Writer, scores: list[str], s: int) -> list[str]:
    """Return the weights of set `s`, four keys a vector.

    ``%factor`` is by what to multiply the sums so far, ``%topn`` the largest score of the query so
    far, ``%sumn`` the lane's sum of weights; all end with the number of the set.
    """
    top = f"%top{s}"
    for x in scores:
        top = w.larger(top, x)
    top = w.larger(top, w.moved(top, 16))
    other = w.moved(top, 32)
    w.do(f"%topn{s} = call float @llvm.maxnum.f32(float {top}, float {other})")
    fall = w(f"fsub float %top{s}, %topn{s}")
    w.do(f"%factor{s} = call float @llvm.amdgcn.exp2.f32(float {fall})")
    total = w(f"fmul float %sum{s}, %factor{s}")
    exponentials = []
    for x in scores:
        shifted = w(f"fsub float {x}, %topn{s}")
        e = w(f"call float @llvm.amdgcn.exp2.f32(float {shifted})")
        total = w(f"fadd float {total}, {e}")
        exponentials.append(e)
    w.do(f"%sumn{s} = fadd float {total}, -0.0")
    out = []
    for at in range(0, len(exponentials), 4):
        words = [w.packed(*exponentials[at + k : at + k + 2]) for k in (0, 2)]
        pair = w(f"insertelement <2 x i32> poison, i32 {words[0]}, i32 0")
        pair = w(f"insertelement <2 x i32> {pair}, i32 {words[1]}, i32 1")
        out.append(w(f"bitcast <2 x i32> {pair} to <4 x i16>"))
    return out


def _values(w: Writer, weights: list[list[str]], values: str, length: int) -> None:
    """Add the products of weights and values to the sums: ``%o`` becomes ``%p``."""
    scales = []
    for s in range(len(weights)):
        first = w(f"insertelement <4 x float> poison, float %factor{s}, i32 0")
        mask = "<4 x i32> zeroinitializer"
        scales.append(w(f"shufflevector <4 x float> {first}, <4 x float> poison, {mask}"))
    for n in range(DEPTH // 16):
        totals = [w(f"fmul <4 x float> %o{s}.{n}, {x}") for s, x in enumerate(scales)]
        for c in range(KEYS // 32):
            at = w(f"add i32 %k, {16 * n * length + 32 * c}")
            for half, value in enumerate(_eight(w, values, at)):
                totals = [
                    _mfma(w, value, own[2 * c + half], total)
                    for own, total in zip(weights, totals, strict=True)
                ]
        for s, total in enumerate(totals):
            w.do(f"%p{s}.{n} = fadd <4 x float> {total}, splat (float -0.0)")


def _hex(x: float) -> str:
    (single,) = struct.unpack("<f", struct.pack("<f", x))
    return f"0x{struct.unpack('<Q', struct.pack('<d', single))[0]:016X}"


def _finish(w: Writer, head: str, query: str, s: int) -> None:
    """Divide by the sums and store."""
    total = w.across(f"%sumn{s}", w.sum, (16, 32))
    factor = w(f"call float @llvm.amdgcn.rcp.f32(float {total})")
    at = w(f"mul i32 {query}, {DEPTH}")
    at = w(f"add i32 {at}, {head}")
    part = w("mul i32 %lg, 4")
    at = w(f"add i32 {at}, {part}")
    wide = w(f"zext i32 {at} to i64")
    base = w.pointer("%out", wide, "float", 1)
    for n in range(DEPTH // 16):
        row = "poison"
        for r in range(4):
            x = w(f"extractelement <4 x float> %p{s}.{n}, i32 {r}")
            x = w(f"fmul float {x}, {factor}")
            row = w(f"insertelement <4 x float> {row}, float {x}, i32 {r}")
        place = w.pointer(base, str(16 * n), "float", 1)
        w.do(f"store <4 x float> {row}, ptr addrspace(1) {place}, align 16")
