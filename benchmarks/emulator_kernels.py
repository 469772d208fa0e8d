"""LLVM IR of the kernels that `emulator.py` runs, for gfx942."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["attention", "compile_kernel", "gemm", "long_kernel", "rmsnorm", "softmax"]

TRIPLE = "amdgcn-amd-amdhsa"
HEADER = """
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.amdgcn.s.barrier()
declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)
declare float @llvm.exp2.f32(float)
declare float @llvm.maxnum.f32(float, float)
declare float @llvm.amdgcn.rsq.f32(float)
declare float @llvm.amdgcn.rcp.f32(float)
declare <4 x float> @llvm.amdgcn.mfma.f32.16x16x16bf16.1k(<4 x i16>, <4 x i16>, <4 x float>,
  i32 immarg, i32 immarg, i32 immarg)
"""


def compile_kernel(text: str) -> bytes:
    """Return the code object of a module with the kernel ``k``."""
    from flydsl.codegen import CodegenRequest, shared_worker
    from flydsl_rocdl.hsaco import link_object

    request = CodegenRequest(text, TRIPLE, cpu="gfx942")
    return link_object(shared_worker().compile(request).object)


class Writer:
    """Collects instructions with numbered names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def __call__(self, text: str) -> str:
        self.count += 1
        self.lines.append(f"  %t{self.count} = {text}")
        return f"%t{self.count}"

    def do(self, text: str) -> None:
        """Add an instruction without a result, or a label."""
        self.lines.append(text if text.endswith(":") else f"  {text}")

    def pointer(self, base: str, index: str, element: str, space: int) -> str:
        """Address element `index` (i64 or i32 name)."""
        kind = "i64" if space == 1 else "i32"
        return self(f"getelementptr {element}, ptr addrspace({space}) {base}, {kind} {index}")

    def across(self, x: str, combine: Callable[[str, str], str], steps: tuple[int, ...]) -> str:
        """Combine over the lanes whose numbers differ in the bits of `steps`."""
        for step in steps:
            other = self(f"xor i32 %lane4, {4 * step}")
            bits = self(f"bitcast float {x} to i32")
            moved = self(f"call i32 @llvm.amdgcn.ds.bpermute(i32 {other}, i32 {bits})")
            x = combine(x, self(f"bitcast i32 {moved} to float"))
        return x

    def sum(self, a: str, b: str) -> str:
        """Add."""
        return self(f"fadd float {a}, {b}")

    def larger(self, a: str, b: str) -> str:
        """Maximum."""
        return self(f"call float @llvm.maxnum.f32(float {a}, float {b})")

    def prologue(self) -> None:
        """Thread and workgroup numbers."""
        self.do("%b = call i32 @llvm.amdgcn.workgroup.id.x()")
        self.do("%t = call i32 @llvm.amdgcn.workitem.id.x()")
        self.do("%lane = and i32 %t, 63")
        self.do("%lane4 = shl i32 %lane, 2")
        self.do("%wave = lshr i32 %t, 6")

    def workgroup(self, x: str, combine: Callable[[str, str], str], tile: str) -> str:
        """Combine over the four waves of a workgroup."""
        x = self.across(x, combine, (1, 2, 4, 8, 16, 32))
        own = self(f"getelementptr float, ptr addrspace(3) @{tile}, i32 %wave")
        self.do(f"store float {x}, ptr addrspace(3) {own}")
        self.barrier()
        parts = []
        for k in range(4):
            place = self(f"getelementptr float, ptr addrspace(3) @{tile}, i32 {k}")
            parts.append(self(f"load float, ptr addrspace(3) {place}"))
        return combine(combine(parts[0], parts[1]), combine(parts[2], parts[3]))

    def barrier(self) -> None:
        """Wait for the workgroup, with LDS made visible."""
        self.do('fence syncscope("workgroup") release')
        self.do("call void @llvm.amdgcn.s.barrier()")
        self.do('fence syncscope("workgroup") acquire')

    def function(self, arguments: str, globals_: str = "") -> str:
        """Return the module."""
        body = "\n".join(self.lines)
        return (
            f"{HEADER}{globals_}\ndefine amdgpu_kernel void @k({arguments}) "
            f'"amdgpu-flat-work-group-size"="256,256" {{\n{body}\n  ret void\n}}\n'
        )


def _load_row(w: Writer, base: str, chunks: int, columns: int) -> list[str]:
    """Load this thread's share of a row of bf16 as floats: vectors of 8, strided by workgroup."""
    values = []
    row = w(f"zext i32 {base} to i64")
    start = w(f"mul i64 {row}, {columns}")
    item = w("zext i32 %t to i64")
    for k in range(chunks):
        at = w(f"mul i64 {item}, 8")
        at = w(f"add i64 {at}, {k * 2048}")
        at = w(f"add i64 {at}, {start}")
        place = w.pointer("%in", at, "i16", 1)
        vector = w(f"load <8 x bfloat>, ptr addrspace(1) {place}, align 16")
        wide = w(f"fpext <8 x bfloat> {vector} to <8 x float>")
        values += [w(f"extractelement <8 x float> {wide}, i32 {n}") for n in range(8)]
    return values


def _store_row(w: Writer, values: list[str], columns: int, row: str) -> None:
    start = w(f"zext i32 {row} to i64")
    start = w(f"mul i64 {start}, {columns}")
    item = w("zext i32 %t to i64")
    for k in range(len(values) // 8):
        vector = "poison"
        for n in range(8):
            vector = w(f"insertelement <8 x float> {vector}, float {values[8 * k + n]}, i32 {n}")
        narrow = w(f"fptrunc <8 x float> {vector} to <8 x bfloat>")
        at = w(f"mul i64 {item}, 8")
        at = w(f"add i64 {at}, {k * 2048}")
        at = w(f"add i64 {at}, {start}")
        place = w.pointer("%out", at, "i16", 1)
        w.do(f"store <8 x bfloat> {narrow}, ptr addrspace(1) {place}, align 16")


def rmsnorm(columns: int) -> str:
    """Root-mean-square norm of bf16 rows, one workgroup of 256 threads a row."""
    w = Writer()
    w.prologue()
    values = _load_row(w, "%b", columns // 2048, columns)
    total = "0.0"
    for x in values:
        square = w(f"fmul contract float {x}, {x}")
        total = w(f"fadd contract float {total}, {square}")
    total = w.workgroup(total, w.sum, "parts")
    mean = w(f"fmul float {total}, {1.0 / columns!r}")
    mean = w(f"fadd float {mean}, 0x3EE4F8B580000000")
    factor = w(f"call float @llvm.amdgcn.rsq.f32(float {mean})")
    out = [w(f"fmul float {x}, {factor}") for x in values]
    _store_row(w, out, columns, "%b")
    tile = "@parts = internal addrspace(3) global [4 x float] poison, align 16\n"
    return w.function("ptr addrspace(1) %in, ptr addrspace(1) %out", tile)


def softmax(columns: int, rows: int) -> str:
    """Softmax of bf16 rows, a workgroup each; its row is its number modulo `rows`."""
    w = Writer()
    w.prologue()
    w.do(f"%row = and i32 %b, {rows - 1}")
    values = _load_row(w, "%row", columns // 2048, columns)
    top = values[0]
    for x in values[1:]:
        top = w.larger(top, x)
    top = w.workgroup(top, w.larger, "tops")
    exponentials = []
    total = "0.0"
    for x in values:
        shifted = w(f"fsub float {x}, {top}")
        scaled = w(f"fmul float {shifted}, 0x3FF7154760000000")
        e = w(f"call afn float @llvm.exp2.f32(float {scaled})")
        exponentials.append(e)
        total = w(f"fadd float {total}, {e}")
    total = w.workgroup(total, w.sum, "totals")
    factor = w(f"call float @llvm.amdgcn.rcp.f32(float {total})")
    _store_row(w, [w(f"fmul float {e}, {factor}") for e in exponentials], columns, "%row")
    tiles = "".join(
        f"@{name} = internal addrspace(3) global [4 x float] poison, align 16\n"
        for name in ("tops", "totals")
    )
    return w.function("ptr addrspace(1) %in, ptr addrspace(1) %out", tiles)


PITCH = 40
"""Elements of a row of 32 in LDS, padded."""


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
                x = w(f"extractelement <4 x float> %d{4 * m + j}.1, i32 {r}")
                y = w(f"add i32 {row}, {16 * m + r}")
                at = w(f"mul i32 {y}, {n}")
                at = w(f"add i32 {at}, {column}")
                at = w(f"add i32 {at}, {16 * j}")
                wide = w(f"zext i32 {at} to i64")
                p = w.pointer("%cm", wide, "float", 1)
                w.do(f"store float {x}, ptr addrspace(1) {p}")


def _tile_places(w: Writer, depth: int) -> tuple[list[str], list[str], list[str]]:
    """Return where a thread loads A and B from, where it puts them, and where a wave reads."""
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
        column = w("mul i32 %lg, 4")
        at = w(f"add i32 {at}, {column}")
        frags.append(w.pointer(tile, at, "i16", 3))
    return sources, targets, frags


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
    # Each thread copies 16 elements of a row of 32, for A and for B.
    w.do("%cr = lshr i32 %t, 1")
    half = w("and i32 %t, 1")
    w.do(f"%cc = mul i32 {half}, 16")
    sources, targets, frags = _tile_places(w, depth)
    w.do("br label %loop")
    w.do("loop:")
    w.do("%k = phi i32 [ 0, %0 ], [ %kn, %loop ]")
    zero = "zeroinitializer"
    for n_ in range(16):
        w.do(f"%c{n_} = phi <4 x float> [ {zero}, %0 ], [ %d{n_}.1, %loop ]")
    wide = w("zext i32 %k to i64")
    for source, target in zip(sources, targets, strict=True):
        p = w.pointer(source, wide, "i16", 1)
        for part in (0, 8):
            q = w(f"getelementptr i16, ptr addrspace(1) {p}, i64 {part}")
            x = w(f"load <8 x i16>, ptr addrspace(1) {q}, align 16")
            r = w(f"getelementptr i16, ptr addrspace(3) {target}, i32 {part}")
            w.do(f"store <8 x i16> {x}, ptr addrspace(3) {r}, align 16")
    w.barrier()
    for step in (0, 1):
        parts = []
        for base in frags:
            for m in range(4):
                p = w(
                    f"getelementptr i16, ptr addrspace(3) {base}, i32 {m * 16 * PITCH + step * 16}"
                )
                parts.append(w(f"load <4 x i16>, ptr addrspace(3) {p}, align 8"))
        for m in range(4):
            for j in range(4):
                q = 4 * m + j
                before = f"%c{q}" if step == 0 else f"%d{q}.0"
                w.do(
                    f"%d{q}.{step} = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x16bf16.1k("
                    f"<4 x i16> {parts[m]}, <4 x i16> {parts[4 + j]}, <4 x float> {before}, "
                    "i32 0, i32 0, i32 0)"
                )
    w.barrier()
    w.do("%kn = add i32 %k, 32")
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
"""Keys that one step of the attention kernel takes."""
DEPTH = 128
"""Elements of a head."""
_P_PITCH = 72


def _mfma(w: Writer, a: str, b: str, c: str) -> str:
    return w(
        f"call <4 x float> @llvm.amdgcn.mfma.f32.16x16x16bf16.1k(<4 x i16> {a}, <4 x i16> {b}, "
        f"<4 x float> {c}, i32 0, i32 0, i32 0)"
    )


def attention(length: int) -> str:
    """Attention without mask: Q and K ``bf16[head, length, 128]``, V ``[head, 128, length]``.

    A workgroup takes 64 queries of a head, a wave 16; the grid is ``(length / 64, heads)``. Scores
    are scaled by log2(e) / sqrt(128). O is ``float32[head, length, 128]``.
    """
    w = Writer()
    w.prologue()
    w.do("%h = call i32 @llvm.amdgcn.workgroup.id.y()")
    w.do("%li = and i32 %lane, 15")
    w.do("%lg = lshr i32 %lane, 4")
    head = w(f"mul i32 %h, {length * DEPTH}")
    first = w("mul i32 %b, 64")
    own = w("mul i32 %wave, 16")
    first = w(f"add i32 {first}, {own}")
    queries = _fragments(w, "%q", head, first, DEPTH, DEPTH // 16)
    key_base = w(f"mul i32 %li, {DEPTH}")
    value_base = w(f"mul i32 %li, {length}")
    part = w("mul i32 %lg, 4")
    key_base = w(f"add i32 {key_base}, {part}")
    value_base = w(f"add i32 {value_base}, {part}")
    key_base = w(f"add i32 {key_base}, {head}")
    value_base = w(f"add i32 {value_base}, {head}")
    tile = w(f"mul i32 %wave, {16 * _P_PITCH}")
    w.do("br label %loop")
    w.do("loop:")
    w.do("%k = phi i32 [ 0, %0 ], [ %kn, %loop ]")
    for n in range(8):
        w.do(f"%o{n} = phi <4 x float> [ zeroinitializer, %0 ], [ %p{n}, %loop ]")
    for r in range(4):
        w.do(f"%m{r} = phi float [ 0xFFF0000000000000, %0 ], [ %mn{r}, %loop ]")
        w.do(f"%s{r} = phi float [ 0.0, %0 ], [ %sn{r}, %loop ]")
    scores = _scores(w, queries, key_base)
    factors = _exponentials(w, scores, tile)
    w.barrier()
    weights = []
    for n in range(KEYS // 16):
        at = w(f"mul i32 %li, {_P_PITCH}")
        at = w(f"add i32 {at}, {part}")
        at = w(f"add i32 {at}, {16 * n}")
        at = w(f"add i32 {at}, {tile}")
        place = w.pointer("@weights", at, "i16", 3)
        weights.append(w(f"load <4 x i16>, ptr addrspace(3) {place}, align 8"))
    scale = "poison"
    for r in range(4):
        scale = w(f"insertelement <4 x float> {scale}, float {factors[r]}, i32 {r}")
    for n in range(8):
        total = w(f"fmul <4 x float> %o{n}, {scale}")
        for c, weight in enumerate(weights):
            at = w(f"add i32 {value_base}, {16 * n * length + 16 * c}")
            at = w(f"add i32 {at}, %k")
            wide = w(f"zext i32 {at} to i64")
            place = w.pointer("%v", wide, "i16", 1)
            values = w(f"load <4 x i16>, ptr addrspace(1) {place}, align 8")
            total = _mfma(w, weight, values, total)
        w.do(f"%p{n} = fadd <4 x float> {total}, splat (float -0.0)")
    w.barrier()
    w.do(f"%kn = add i32 %k, {KEYS}")
    more = w(f"icmp ult i32 %kn, {length}")
    w.do(f"br i1 {more}, label %loop, label %end")
    w.do("end:")
    _finish(w, head, first)
    memory = f"@weights = internal addrspace(3) global [{64 * _P_PITCH} x i16] poison, align 16\n"
    arguments = ", ".join(f"ptr addrspace(1) %{name}" for name in ("q", "kk", "v", "out"))
    return w.function(arguments, memory)


def _fragments(w: Writer, base: str, head: str, first: str, depth: int, count: int) -> list[str]:
    """Load a 16-row operand: row ``lane % 16``, four columns from ``4 * (lane / 16)``."""
    row = w(f"add i32 {first}, %li")
    at = w(f"mul i32 {row}, {depth}")
    part = w("mul i32 %lg, 4")
    at = w(f"add i32 {at}, {part}")
    at = w(f"add i32 {at}, {head}")
    out = []
    for n in range(count):
        moved = w(f"add i32 {at}, {16 * n}")
        wide = w(f"zext i32 {moved} to i64")
        place = w.pointer(base, wide, "i16", 1)
        out.append(w(f"load <4 x i16>, ptr addrspace(1) {place}, align 8"))
    return out


def _scores(w: Writer, queries: list[str], key_base: str) -> list[str]:
    """Return the scores of a wave's queries and one step's keys, tile by tile."""
    scores = []
    start = w(f"mul i32 %k, {DEPTH}")
    base = w(f"add i32 {key_base}, {start}")
    for n in range(KEYS // 16):
        total = "zeroinitializer"
        for d, query in enumerate(queries):
            at = w(f"add i32 {base}, {16 * n * DEPTH + 16 * d}")
            wide = w(f"zext i32 {at} to i64")
            place = w.pointer("%kk", wide, "i16", 1)
            keys = w(f"load <4 x i16>, ptr addrspace(1) {place}, align 8")
            total = _mfma(w, query, keys, total)
        scores.append(total)
    return scores


def _exponentials(w: Writer, scores: list[str], tile: str) -> list[str]:
    """Write the weights to LDS; return by what to multiply the sums so far."""
    factors = []
    column = w("add i32 %li, 0")
    for r in range(4):
        own = [w(f"extractelement <4 x float> {s}, i32 {r}") for s in scores]
        own = [w(f"fmul float {x}, {_hex(1.4426950408889634 / DEPTH**0.5)}") for x in own]
        top = own[0]
        for x in own[1:]:
            top = w.larger(top, x)
        top = w.across(top, w.larger, (1, 2, 4, 8))
        w.do(f"%mn{r} = call float @llvm.maxnum.f32(float {top}, float %m{r})")
        fall = w(f"fsub float %m{r}, %mn{r}")
        factor = w(f"call afn float @llvm.exp2.f32(float {fall})")
        factors.append(factor)
        total = w(f"fmul float %s{r}, {factor}")
        row = w("mul i32 %lg, 4")
        row = w(f"add i32 {row}, {r}")
        at = w(f"mul i32 {row}, {_P_PITCH}")
        at = w(f"add i32 {at}, {column}")
        at = w(f"add i32 {at}, {tile}")
        for n, x in enumerate(own):
            shifted = w(f"fsub float {x}, %mn{r}")
            e = w(f"call afn float @llvm.exp2.f32(float {shifted})")
            total = w(f"fadd float {total}, {e}")
            narrow = w(f"fptrunc float {e} to bfloat")
            place = w(f"add i32 {at}, {16 * n}")
            place = w.pointer("@weights", place, "i16", 3)
            w.do(f"store bfloat {narrow}, ptr addrspace(3) {place}, align 2")
        w.do(f"%sn{r} = fadd float {total}, -0.0")
    return factors


def _hex(x: float) -> str:
    import struct

    (single,) = struct.unpack("<f", struct.pack("<f", x))
    return f"0x{struct.unpack('<Q', struct.pack('<d', single))[0]:016X}"


def _finish(w: Writer, head: str, first: str) -> None:
    """Divide by the sums and store."""
    for r in range(4):
        total = w.across(f"%sn{r}", w.sum, (1, 2, 4, 8))
        factor = w(f"call float @llvm.amdgcn.rcp.f32(float {total})")
        row = w("mul i32 %lg, 4")
        row = w(f"add i32 {row}, {first}")
        row = w(f"add i32 {row}, {r}")
        at = w(f"mul i32 {row}, {DEPTH}")
        at = w(f"add i32 {at}, %li")
        at = w(f"add i32 {at}, {head}")
        for n in range(8):
            x = w(f"extractelement <4 x float> %p{n}, i32 {r}")
            x = w(f"fmul float {x}, {factor}")
            moved = w(f"add i32 {at}, {16 * n}")
            wide = w(f"zext i32 {moved} to i64")
            place = w.pointer("%out", wide, "float", 1)
            w.do(f"store float {x}, ptr addrspace(1) {place}")


def long_kernel(instructions: int) -> str:
    """A kernel of about that many instructions, a mix of integer and float arithmetic."""
    w = Writer()
    w.prologue()
    item = w("zext i32 %t to i64")
    place = w.pointer("%in", item, "i32", 1)
    x = w(f"load i32, ptr addrspace(1) {place}")
    y, f = x, w(f"bitcast i32 {x} to float")
    operations = ("add", "xor", "mul", "sub", "lshr", "shl")
    # Eight instructions of the target come out of one turn.
    for n in range(instructions // 8):
        y = w(f"{operations[n % 4]} i32 {y}, {x}")
        z = w(f"{operations[4 + n % 2]} i32 {y}, {n % 31 + 1}")
        y = w(f"xor i32 {y}, {z}")
        g = w(f"uitofp i32 {y} to float")
        f = w(f"fadd float {f}, {g}")
        small = w(f"fcmp olt float {f}, {g}")
        f = w(f"select i1 {small}, float {g}, float {f}")
        y = w(f"add i32 {y}, {n * 77 + 12345}")
    bits = w(f"bitcast float {f} to i32")
    both = w(f"xor i32 {bits}, {y}")
    place = w.pointer("%out", item, "i32", 1)
    w.do(f"store i32 {both}, ptr addrspace(1) {place}")
    return w.function("ptr addrspace(1) %in, ptr addrspace(1) %out")
