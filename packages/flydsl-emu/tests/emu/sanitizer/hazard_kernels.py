"""LLVM IR of kernels with memory, LDS and matrix instructions, for the sanitizer's tests."""
# ruff: noqa: E501 - the text of LLVM IR

from __future__ import annotations

__all__ = ["BRANCHES", "CHAIN", "FLAGS", "KERNELS", "MATRIX", "kernel", "matrix_kernel"]

DECLARATIONS = """
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.amdgcn.s.barrier()
declare i32 @llvm.amdgcn.readfirstlane.i32(i32)
declare i32 @llvm.amdgcn.readlane.i32(i32, i32)
declare i32 @llvm.amdgcn.ds.bpermute(i32, i32)
declare i32 @llvm.amdgcn.update.dpp.i32(i32, i32, i32, i32, i32, i1)
declare ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1), i16, i64, i32)
declare i32 @llvm.amdgcn.raw.ptr.buffer.load.i32(ptr addrspace(8), i32, i32, i32)
declare <4 x i32> @llvm.amdgcn.raw.ptr.buffer.load.v4i32(ptr addrspace(8), i32, i32, i32)
declare void @llvm.amdgcn.raw.ptr.buffer.store.v4i32(<4 x i32>, ptr addrspace(8), i32, i32, i32)
declare void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8), ptr addrspace(3), i32, i32, i32, i32, i32)
declare float @llvm.sqrt.f32(float)
declare float @llvm.amdgcn.rcp.f32(float)
declare float @llvm.fma.f32(float, float, float)
declare void @llvm.amdgcn.s.waitcnt(i32)
"""

HEAD = "define amdgpu_kernel void @k(ptr addrspace(1) noalias %x, ptr addrspace(1) noalias %y, i32 %n) #0 {\n"
TAIL = '}\nattributes #0 = { "amdgpu-flat-work-group-size"="256,256" }\n'
INDEX = """
  %g = call i32 @llvm.amdgcn.workgroup.id.x()
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %base = mul i32 %g, 256
  %i = add i32 %base, %t
  %i64 = zext i32 %i to i64
  %xp = getelementptr float, ptr addrspace(1) %x, i64 %i64
  %yp = getelementptr float, ptr addrspace(1) %y, i64 %i64
"""


def kernel(body: str, globals_: str = "") -> str:
    """Return a module whose kernel ``k(x, y, n)`` has `body` after the index computation."""
    return DECLARATIONS + globals_ + HEAD + "entry:" + INDEX + body + TAIL


LDS = "@tile = internal unnamed_addr addrspace(3) global [512 x float] poison\n"
FENCED = """
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
"""
# An LDS tile: every wave reads what another wave wrote.
EXCHANGE = f"""
  %v = load float, ptr addrspace(1) %xp
  %slot = getelementptr float, ptr addrspace(3) @tile, i32 %t
  store float %v, ptr addrspace(3) %slot
  {FENCED}
  %mirror = sub i32 255, %t
  %far = getelementptr float, ptr addrspace(3) @tile, i32 %mirror
  %w = load float, ptr addrspace(3) %far
  %r = fadd float %w, %v
  store float %r, ptr addrspace(1) %yp
  ret void
"""
# Two buffers in turn, a barrier per step.
LOOP = f"""
  %first = getelementptr float, ptr addrspace(3) @tile, i32 %t
  br label %step
step:
  %k = phi i32 [ 0, %entry ], [ %next, %step ]
  %sum = phi float [ 0.0, %entry ], [ %more, %step ]
  %parity = and i32 %k, 1
  %half = mul i32 %parity, 256
  %at = add i32 %half, %t
  %place = getelementptr float, ptr addrspace(3) @tile, i32 %at
  %off = mul i32 %k, 256
  %j = add i32 %off, %t
  %j64 = zext i32 %j to i64
  %p = getelementptr float, ptr addrspace(1) %x, i64 %j64
  %v = load float, ptr addrspace(1) %p
  store float %v, ptr addrspace(3) %place
  {FENCED}
  %mirrored = sub i32 255, %t
  %other = add i32 %half, %mirrored
  %q = getelementptr float, ptr addrspace(3) @tile, i32 %other
  %w = load float, ptr addrspace(3) %q
  %more = fadd float %sum, %w
  %next = add i32 %k, 1
  %again = icmp slt i32 %next, %n
  br i1 %again, label %step, label %done
done:
  store float %more, ptr addrspace(1) %yp
  ret void
"""
# A table in constant memory indexed by the workgroup, transcendental functions, a branch.
SCALARS = """
  %gp = zext i32 %g to i64
  %s = getelementptr i32, ptr addrspace(1) %x, i64 %gp
  %u = load i32, ptr addrspace(1) %s
  %m = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %u)
  %s64 = zext i32 %m to i64
  %s2 = getelementptr float, ptr addrspace(1) %x, i64 %s64
  %table = addrspacecast ptr addrspace(1) %s2 to ptr addrspace(4)
  %a = load float, ptr addrspace(4) %table
  %v = load float, ptr addrspace(1) %xp
  %big = fcmp ogt float %v, %a
  br i1 %big, label %then, label %join
then:
  %rt = call float @llvm.sqrt.f32(float %v)
  %rc = call float @llvm.amdgcn.rcp.f32(float %rt)
  %q = fdiv float %rc, %a
  br label %join
join:
  %z = phi float [ %q, %then ], [ %a, %entry ]
  store float %z, ptr addrspace(1) %yp
  ret void
"""
# Buffer loads, four of them in flight, and a buffer store.
_LOADS = "".join(
    f"""
  %o{n} = add i32 %byte, {n * 4096}
  %l{n} = call <4 x i32> @llvm.amdgcn.raw.ptr.buffer.load.v4i32(ptr addrspace(8) %rx, i32 %o{n}, i32 0, i32 0)
"""
    for n in range(4)
)
BUFFERS = f"""
  %wide = zext i32 %n to i64
  %bytes = mul i64 %wide, 4
  %rx = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %x, i16 0, i64 %bytes, i32 159744)
  %ry = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %y, i16 0, i64 %bytes, i32 159744)
  %byte = mul i32 %i, 16
  {_LOADS}
  %a = add <4 x i32> %l0, %l1
  %b = add <4 x i32> %l2, %l3
  %c = mul <4 x i32> %a, %b
  call void @llvm.amdgcn.raw.ptr.buffer.store.v4i32(<4 x i32> %c, ptr addrspace(8) %ry, i32 %byte, i32 0, i32 0)
  ret void
"""
# A load straight into LDS, read by another wave.
TRANSFER = f"""
  %wide = zext i32 %n to i64
  %bytes = mul i64 %wide, 4
  %rx = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %x, i16 0, i64 %bytes, i32 159744)
  %wave = lshr i32 %t, 6
  %uniform = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %wave)
  %start = mul i32 %uniform, 64
  %to = getelementptr float, ptr addrspace(3) @tile, i32 %start
  %byte = mul i32 %i, 4
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rx, ptr addrspace(3) %to, i32 4, i32 %byte, i32 0, i32 0, i32 0)
  call void @llvm.amdgcn.s.waitcnt(i32 3952)
  {FENCED}
  %mirror = sub i32 255, %t
  %far = getelementptr float, ptr addrspace(3) @tile, i32 %mirror
  %w = load float, ptr addrspace(3) %far
  store float %w, ptr addrspace(1) %yp
  ret void
"""
# Lane operations: DPP, bpermute, readlane with a computed lane.
LANES = """
  %v = load i32, ptr addrspace(1) %xp
  %d = call i32 @llvm.amdgcn.update.dpp.i32(i32 %v, i32 %v, i32 177, i32 15, i32 15, i1 true)
  %e = add i32 %d, %v
  %f = call i32 @llvm.amdgcn.update.dpp.i32(i32 %e, i32 %e, i32 78, i32 15, i32 15, i1 true)
  %h = add i32 %e, %f
  %lane = and i32 %h, 63
  %first = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %lane)
  %picked = call i32 @llvm.amdgcn.readlane.i32(i32 %h, i32 %first)
  %addr = mul i32 %lane, 4
  %moved = call i32 @llvm.amdgcn.ds.bpermute(i32 %addr, i32 %h)
  %r = add i32 %picked, %moved
  store i32 %r, ptr addrspace(1) %yp
  ret void
"""
# Atomics with and without a result, and a flag between workgroups.
ATOMICS = f"""
  store float 0.0, ptr addrspace(3) @tile
  {FENCED}
  %old = atomicrmw add ptr addrspace(1) %xp, i32 1 syncscope("agent") acq_rel
  %q = atomicrmw fadd ptr addrspace(3) @tile, float 1.0 syncscope("workgroup") monotonic
  %c = uitofp i32 %old to float
  %r = fadd float %c, %q
  store float %r, ptr addrspace(1) %yp
  ret void
"""
# A tree over the waves: each barrier orders accesses of different waves.
REDUCE = f"""
  %v = load float, ptr addrspace(1) %xp
  %slot = getelementptr float, ptr addrspace(3) @tile, i32 %t
  store float %v, ptr addrspace(3) %slot
  {FENCED}
  %in128 = icmp ult i32 %t, 128
  br i1 %in128, label %add128, label %after128
add128:
  %p128 = getelementptr float, ptr addrspace(3) %slot, i32 128
  %a128 = load float, ptr addrspace(3) %p128
  %s128 = fadd float %v, %a128
  store float %s128, ptr addrspace(3) %slot
  br label %after128
after128:
  {FENCED}
  %in64 = icmp ult i32 %t, 64
  br i1 %in64, label %add64, label %after64
add64:
  %p64 = getelementptr float, ptr addrspace(3) %slot, i32 64
  %a64 = load float, ptr addrspace(3) %p64
  %b64 = load float, ptr addrspace(3) %slot
  %s64 = fadd float %b64, %a64
  store float %s64, ptr addrspace(3) %slot
  br label %after64
after64:
  {FENCED}
  %low = and i32 %t, 63
  %from = getelementptr float, ptr addrspace(3) @tile, i32 %low
  %w = load float, ptr addrspace(3) %from
  store float %w, ptr addrspace(1) %yp
  ret void
"""
# Two half words loaded into one register; neither load waits for the other.
HALVES = """
  %xh = getelementptr <2 x half>, ptr addrspace(1) %x, i64 %i64
  %x2 = getelementptr half, ptr addrspace(1) %xh, i64 1
  %x5 = getelementptr half, ptr addrspace(1) %x, i64 5
  %a = load half, ptr addrspace(1) %x2, align 2
  %b = load half, ptr addrspace(1) %x5, align 2
  %v0 = insertelement <2 x half> poison, half %b, i32 0
  %v = insertelement <2 x half> %v0, half %a, i32 1
  %r = fadd <2 x half> %v, %v
  store <2 x half> %r, ptr addrspace(1) %yp
  ret void
"""
# Half words: neighbours in one dword belong to different threads.
NARROW = f"""
  %xh = getelementptr half, ptr addrspace(1) %x, i64 %i64
  %v = load half, ptr addrspace(1) %xh
  %slot = getelementptr half, ptr addrspace(3) @tile, i32 %t
  store half %v, ptr addrspace(3) %slot
  {FENCED}
  %mirror = sub i32 255, %t
  %far = getelementptr half, ptr addrspace(3) @tile, i32 %mirror
  %w = load half, ptr addrspace(3) %far
  %r = fadd half %w, %v
  %yh = getelementptr half, ptr addrspace(1) %y, i64 %i64
  store half %r, ptr addrspace(1) %yh
  ret void
"""
# One buffer: a barrier before each read and one before the next write.
SINGLE = f"""
  %slot = getelementptr float, ptr addrspace(3) @tile, i32 %t
  %mirror = sub i32 255, %t
  %far = getelementptr float, ptr addrspace(3) @tile, i32 %mirror
  br label %step
step:
  %k = phi i32 [ 0, %entry ], [ %next, %step ]
  %sum = phi float [ 0.0, %entry ], [ %more, %step ]
  %off = mul i32 %k, 256
  %j = add i32 %off, %t
  %j64 = zext i32 %j to i64
  %p = getelementptr float, ptr addrspace(1) %x, i64 %j64
  %v = load float, ptr addrspace(1) %p
  store float %v, ptr addrspace(3) %slot
  {FENCED}
  %w = load float, ptr addrspace(3) %far
  %more = fadd float %sum, %w
  {FENCED}
  %next = add i32 %k, 1
  %again = icmp slt i32 %next, %n
  br i1 %again, label %step, label %done
done:
  store float %more, ptr addrspace(1) %yp
  ret void
"""

# Waves of other workgroups: publish with a release, wait with acquires, other loads in flight.
FLAGS = kernel("""
  %v = load float, ptr addrspace(1) %xp
  store atomic i32 1, ptr addrspace(1) %y syncscope("agent") release, align 4
  %far = getelementptr float, ptr addrspace(1) %xp, i64 1024
  br label %spin
spin:
  %w = load volatile float, ptr addrspace(1) %far
  %seen = load atomic i32, ptr addrspace(1) %y syncscope("agent") acquire, align 4
  %again = icmp ne i32 %seen, 1
  br i1 %again, label %spin, label %done
done:
  %r = fadd float %v, %w
  store float %r, ptr addrspace(1) %yp
  ret void
""")

KERNELS: dict[str, str] = {
    "exchange": kernel(EXCHANGE, LDS),
    "loop": kernel(LOOP, LDS),
    "scalars": kernel(SCALARS),
    "buffers": kernel(BUFFERS),
    "transfer": kernel(TRANSFER, LDS),
    "lanes": kernel(LANES),
    "atomics": kernel(ATOMICS, LDS),
    "reduce": kernel(REDUCE, LDS),
    "halves": kernel(HALVES),
    "narrow": kernel(NARROW, LDS),
    "single": kernel(SINGLE, LDS),
}

# Branches that all lanes take together, with a matrix product in one of them.
_PRODUCT = (
    "call <4 x float> @llvm.amdgcn.mfma.f32.16x16x16f16(<4 x half> %h, <4 x half> %h, <4 x float>"
)
_SUMS = """
declare <4 x float> @llvm.amdgcn.mfma.f32.16x16x16f16(<4 x half>, <4 x half>, <4 x float>, i32, i32, i32)
"""
_INPUTS = """
  %hp = getelementptr <4 x half>, ptr addrspace(1) %x, i32 %t
  %h = load <4 x half>, ptr addrspace(1) %hp
  %sp = getelementptr <4 x float>, ptr addrspace(1) %y, i32 %t
  %s = load <4 x float>, ptr addrspace(1) %sp
"""
# The product's branch goes on to the store at once.
BRANCHES = kernel(
    f"""{_INPUTS}
  %bit = and i32 %n, 16
  %clear = icmp eq i32 %bit, 0
  br i1 %clear, label %plain, label %product
product:
  %e1 = extractelement <4 x float> %s, i32 1
  %e2 = fmul float %e1, 3.0
  %e3 = insertelement <4 x float> %s, float %e2, i32 1
  %p = {_PRODUCT} %e3, i32 0, i32 0, i32 0)
  br label %join
plain:
  %f1 = extractelement <4 x float> %s, i32 0
  %f2 = bitcast float %f1 to i32
  %f3 = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %f2)
  %f4 = xor i32 %n, %f3
  %f5 = bitcast i32 %f4 to float
  %f6 = extractelement <4 x float> %s, i32 1
  %f7 = fadd float %f6, %f5
  %q = insertelement <4 x float> %s, float %f7, i32 1
  br label %join
join:
  %r = phi <4 x float> [ %p, %product ], [ %q, %plain ]
  store <4 x float> %r, ptr addrspace(1) %sp
  ret void
""",
    _SUMS,
)
# Two conditions in turn: LLVM ends a branch with ``s_cbranch_execz`` to another.
CHAIN = kernel(
    f"""{_INPUTS}
  %bit = and i32 %n, 2
  %clear = icmp eq i32 %bit, 0
  br i1 %clear, label %one, label %others
one:
  %e1 = extractelement <4 x float> %s, i32 2
  %e2 = fmul float %e1, 3.0
  %e3 = insertelement <4 x float> %s, float %e2, i32 1
  br label %join
others:
  %bit2 = and i32 %n, 32768
  %clear2 = icmp eq i32 %bit2, 0
  br i1 %clear2, label %two, label %rest
two:
  %f1 = extractelement <4 x float> %s, i32 1
  %f2 = fmul float %f1, 3.0
  %f3 = insertelement <4 x float> %s, float %f2, i32 3
  %p = {_PRODUCT} %f3, i32 0, i32 0, i32 0)
  br label %rest
rest:
  %q = phi <4 x float> [ %p, %two ], [ %s, %others ]
  br label %join
join:
  %v = phi <4 x float> [ %e3, %one ], [ %q, %rest ]
  %d = {_PRODUCT} %v, i32 0, i32 0, i32 0)
  %d1 = extractelement <4 x float> %d, i32 0
  %d2 = fmul float %d1, 3.0
  %d3 = insertelement <4 x float> %d, float %d2, i32 2
  %d4 = fmul float %d2, 3.0
  %d5 = insertelement <4 x float> %d3, float %d4, i32 1
  store <4 x float> %d5, ptr addrspace(1) %sp
  ret void
""",
    _SUMS,
)

# Matrix instructions -----------------------------------------------------------------------------
# intrinsic: (type of A and B, type of C and D, architectures)
MATRIX: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "f32.4x4x1f32": ("float", "<4 x float>", ("gfx942", "gfx950")),
    "f32.16x16x4f32": ("float", "<4 x float>", ("gfx942", "gfx950")),
    "f32.32x32x2f32": ("float", "<16 x float>", ("gfx942", "gfx950")),
    "f32.16x16x1f32": ("float", "<16 x float>", ("gfx942", "gfx950")),
    "f32.4x4x4f16": ("<4 x half>", "<4 x float>", ("gfx942", "gfx950")),
    "f32.16x16x16f16": ("<4 x half>", "<4 x float>", ("gfx942", "gfx950")),
    "f32.32x32x8f16": ("<4 x half>", "<16 x float>", ("gfx942", "gfx950")),
    "f32.32x32x4f16": ("<4 x half>", "<32 x float>", ("gfx942", "gfx950")),
    "f32.16x16x16bf16.1k": ("<4 x i16>", "<4 x float>", ("gfx942", "gfx950")),
    "i32.16x16x32.i8": ("i64", "<4 x i32>", ("gfx942", "gfx950")),
    "i32.32x32x16.i8": ("i64", "<16 x i32>", ("gfx942", "gfx950")),
    "f32.16x16x32.fp8.fp8": ("i64", "<4 x float>", ("gfx942", "gfx950")),
    "f32.32x32x16.fp8.fp8": ("i64", "<16 x float>", ("gfx942", "gfx950")),
    "f32.16x16x8.xf32": ("<2 x float>", "<4 x float>", ("gfx942",)),
    "f32.32x32x4.xf32": ("<2 x float>", "<16 x float>", ("gfx942",)),
    "f64.16x16x4f64": ("double", "<4 x double>", ("gfx942", "gfx950")),
    "f64.4x4x4f64": ("double", "double", ("gfx942", "gfx950")),
    "f32.16x16x32.f16": ("<8 x half>", "<4 x float>", ("gfx950",)),
    "f32.32x32x16.f16": ("<8 x half>", "<16 x float>", ("gfx950",)),
    "i32.16x16x64.i8": ("<4 x i32>", "<4 x i32>", ("gfx950",)),
    "i32.32x32x32.i8": ("<4 x i32>", "<16 x i32>", ("gfx950",)),
}


def matrix_kernel(name: str, use: str) -> str:
    """Return a kernel with the product of `name` and one dependent use of its result.

    Args:
        name: Intrinsic, without ``llvm.amdgcn.mfma.``.
        use: ``"vector"`` (arithmetic), ``"store"``, ``"source"`` (as A of another product),
            ``"sum"`` (as C of another product), or ``"inputs"`` (A computed just before).
    """
    ab, cd, _ = MATRIX[name]
    call = f"call {cd} @llvm.amdgcn.mfma.{name}({ab}"
    text = f"declare {cd} @llvm.amdgcn.mfma.{name}({ab}, {ab}, {cd}, i32, i32, i32)\n"
    text += HEAD.replace("float %x", "%x") + "entry:" + INDEX
    text += f"""
  %ap = getelementptr {ab}, ptr addrspace(1) %x, i64 %i64
  %cp = getelementptr {cd}, ptr addrspace(1) %y, i64 %i64
  %la = load {ab}, ptr addrspace(1) %ap
  %bp = getelementptr {ab}, ptr addrspace(1) %ap, i64 1024
  %b = load {ab}, ptr addrspace(1) %bp
  %c = load {cd}, ptr addrspace(1) %cp
"""
    floats = "float" in ab or "half" in ab or "double" in ab
    if use == "inputs":
        text += f"  %a = {'fadd' if floats else 'add'} {ab} %la, %b\n"
    else:
        text += f"  %a = select i1 true, {ab} %la, {ab} %la\n"
    text += f"  %d = {call} %a, {ab} %b, {cd} %c, i32 0, i32 0, i32 0)\n"
    result = "%d"
    if use == "vector":
        text += f"  %r = {'fadd' if 'i32' not in cd else 'add'} {cd} %d, %c\n"
        result = "%r"
    elif use == "sum":
        text += f"  %r = {call} %b, {ab} %a, {cd} %d, i32 0, i32 0, i32 0)\n"
        result = "%r"
    elif use == "source":
        text += _as_source(ab, cd)
        text += f"  %r = {call} %s, {ab} %a, {cd} %c, i32 0, i32 0, i32 0)\n"
        result = "%r"
    return DECLARATIONS + text + f"  store {cd} {result}, ptr addrspace(1) %cp\n  ret void\n" + TAIL


_BITS = {"float": 32, "double": 64, "half": 16, "i16": 16, "i32": 32, "i64": 64}


def _parts(type_: str) -> tuple[int, str]:
    """Return the length and element of a type."""
    count, found, element = type_.strip("<>").partition(" x ")
    return (int(count), element) if found else (1, type_)


def _as_source(ab: str, cd: str) -> str:
    """Reinterpret the first registers of D as A."""
    count, element = _parts(cd)
    lanes, part = _parts(ab)
    wanted = lanes * _BITS[part]
    total = count * _BITS[element]
    return f"""
  %bits = bitcast {cd} %d to i{total}
  %low = {f"trunc i{total} %bits to i{wanted}" if total > wanted else f"add i{total} %bits, 0"}
  %s = bitcast i{wanted} %low to {ab}
"""
