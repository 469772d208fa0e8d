"""LLVM IR of the kernels that `emulator.py` runs, for gfx942: those of rows, and a long one."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["Writer", "compile_kernel", "long_kernel", "rmsnorm", "softmax"]

TRIPLE = "amdgcn-amd-amdhsa"
HEADER = """
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workgroup.id.y()
declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.amdgcn.s.barrier()
declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)
declare i32 @llvm.amdgcn.update.dpp.i32(i32, i32, i32 immarg, i32 immarg, i32 immarg, i1 immarg)
declare i32 @llvm.amdgcn.perm(i32, i32, i32)
declare float @llvm.amdgcn.exp2.f32(float)
declare float @llvm.maxnum.f32(float, float)
declare float @llvm.amdgcn.rsq.f32(float)
declare float @llvm.amdgcn.rcp.f32(float)
declare <4 x float> @llvm.amdgcn.mfma.f32.16x16x16bf16.1k(<4 x i16>, <4 x i16>, <4 x float>,
  i32 immarg, i32 immarg, i32 immarg)
"""
MOVES = {1: 0xB1, 2: 0x4E, 4: 0x141, 8: 0x140}
"""DPP controls that bring a partner: quad_perm [1,0,3,2], [2,3,0,1], row_half_mirror, row_mirror.

The mirrors suit sums and maxima once the lanes of their halves agree.
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
        """Add an instruction; return the name of its result."""
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
            x = combine(x, self.moved(x, step))
        return x

    def moved(self, x: str, step: int) -> str:
        """Return the value of the lane whose number differs in the bit `step`."""
        bits = self(f"bitcast float {x} to i32")
        if step in MOVES:
            control = f"i32 {MOVES[step]}, i32 15, i32 15, i1 false"
            moved = self(f"call i32 @llvm.amdgcn.update.dpp.i32(i32 poison, i32 {bits}, {control})")
        else:
            other = self(f"xor i32 %lane4, {4 * step}")
            moved = self(f"call i32 @llvm.amdgcn.ds.bpermute(i32 {other}, i32 {bits})")
        return self(f"bitcast i32 {moved} to float")

    def halves(self, x: str) -> list[str]:
        """Return the two halves of eight 16-bit elements."""
        return [
            self(
                f"shufflevector <8 x i16> {x}, <8 x i16> poison, <4 x i32> <"
                + ", ".join(f"i32 {at + k}" for k in range(4))
                + ">"
            )
            for at in (0, 4)
        ]

    def packed(self, a: str, b: str) -> str:
        """Return two floats, none of them NaN, rounded to bf16 in one dword."""
        words = []
        for x in (a, b):
            bits = self(f"bitcast float {x} to i32")
            odd = self(f"lshr i32 {bits}, 16")
            odd = self(f"and i32 {odd}, 1")
            bits = self(f"add i32 {bits}, {odd}")
            words.append(self(f"add i32 {bits}, 32767"))
        return self(f"call i32 @llvm.amdgcn.perm(i32 {words[1]}, i32 {words[0]}, i32 {0x07060302})")

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
        for n in range(4):
            word = w.packed(*values[8 * k + 2 * n : 8 * k + 2 * n + 2])
            vector = w(f"insertelement <4 x i32> {vector}, i32 {word}, i32 {n}")
        at = w(f"mul i64 {item}, 8")
        at = w(f"add i64 {at}, {k * 2048}")
        at = w(f"add i64 {at}, {start}")
        place = w.pointer("%out", at, "i16", 1)
        w.do(f"store <4 x i32> {vector}, ptr addrspace(1) {place}, align 16")


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
        e = w(f"call float @llvm.amdgcn.exp2.f32(float {scaled})")
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
