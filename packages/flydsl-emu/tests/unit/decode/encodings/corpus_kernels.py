"""Kernels in LLVM IR that make the compiler use as many instructions as possible."""

from __future__ import annotations

from itertools import product

__all__ = ["corpus_module"]

SPACES = {1: "ptr addrspace(1)", 3: "ptr addrspace(3)", 0: "ptr"}
INTEGER_ATOMICS = ("xchg", "add", "sub", "and", "or", "xor", "max", "min", "umax", "umin")
MEMORY_TYPES = ("i8", "i16", "i32", "i64", "<3 x i32>", "<4 x i32>", "<2 x half>", "double")
UNARY = (
    "sqrt",
    "exp2",
    "log2",
    "sin",
    "cos",
    "floor",
    "ceil",
    "trunc",
    "rint",
    "fabs",
    "canonicalize",
)
BINARY = ("minnum", "maxnum", "copysign", "pow")
INTEGER_BINARY = ("smin", "smax", "umin", "umax", "sadd.sat", "uadd.sat", "ssub.sat", "usub.sat")
INTEGER_UNARY = ("ctpop", "bitreverse", "bswap")
ARITHMETIC = ("add", "sub", "mul", "udiv", "srem", "and", "or", "xor", "shl", "lshr", "ashr")
FLOAT_ARITHMETIC = ("fadd", "fsub", "fmul", "fdiv", "frem")
SUFFIX = {"half": "f16", "float": "f32", "double": "f64", "bfloat": "bf16"}
# Matrix products: intrinsic, type of A and B, type of the accumulator, what follows the operands.
_MFMA = (
    ("mfma.f32.16x16x16f16", "<4 x half>", "<4 x float>"),
    ("mfma.f32.32x32x8f16", "<4 x half>", "<16 x float>"),
    ("mfma.f32.32x32x8bf16.1k", "<4 x i16>", "<16 x float>"),
    ("mfma.f32.16x16x4f32", "float", "<4 x float>"),
    ("mfma.f64.16x16x4f64", "double", "<4 x double>"),
    ("mfma.i32.16x16x32.i8", "i64", "<4 x i32>"),
    ("mfma.f32.16x16x32.fp8.bf8", "i64", "<4 x float>"),
)
_MFMA_950 = (
    ("mfma.f32.16x16x32.f16", "<8 x half>", "<4 x float>"),
    ("mfma.f32.32x32x16.bf16", "<8 x bfloat>", "<16 x float>"),
    ("mfma.i32.16x16x64.i8", "<4 x i32>", "<4 x i32>"),
)
_WMMA_11 = (
    ("wmma.f32.16x16x16.f16.v8f32.v16f16", "<16 x half>", "<8 x float>"),
    ("wmma.f32.16x16x16.bf16.v8f32.v16i16", "<16 x i16>", "<8 x float>"),
)
_WMMA_12 = (
    ("wmma.f32.16x16x16.f16.v8f32.v8f16", "<8 x half>", "<8 x float>"),
    ("wmma.f32.16x16x16.bf16.v8f32.v8i16", "<8 x i16>", "<8 x float>"),
    ("wmma.f32.16x16x16.fp8.fp8.v8f32.v2i32", "<2 x i32>", "<8 x float>"),
)
PRODUCTS = {
    "gfx942": _MFMA,
    "gfx950": _MFMA + _MFMA_950,
    "gfx1100": _WMMA_11,
    "gfx1151": _WMMA_11,
    "gfx1201": _WMMA_12,
    "gfx1250": (),
}


class _Module:
    """Collects kernels and what they declare."""

    def __init__(self) -> None:
        self.declared: set[str] = set()
        self.kernels: list[str] = []

    def kernel(self, arguments: str, body: str, *declarations: str) -> None:
        self.declared.update(declarations)
        name = f"k{len(self.kernels)}"
        self.kernels.append(
            f"define amdgpu_kernel void @{name}({arguments}) {{\n{body}\n ret void\n}}"
        )

    def lane_kernel(self, kind: str, operation: str, *declarations: str, sources: int = 2) -> None:
        """A kernel that loads `sources` values per lane, applies `operation` and stores ``%r``."""
        lines = [" %t = call i32 @llvm.amdgcn.workitem.id.x()"]
        for n in range(sources):
            lines.append(f" %p{n} = getelementptr {kind}, ptr addrspace(1) %in{n}, i32 %t")
            lines.append(f" %x{n} = load {kind}, ptr addrspace(1) %p{n}")
        lines += [f" {operation}", f" %q = getelementptr {kind}, ptr addrspace(1) %out, i32 %t"]
        lines.append(f" store {kind} %r, ptr addrspace(1) %q")
        arguments = ", ".join(f"ptr addrspace(1) %in{n}" for n in range(sources))
        self.kernel(
            f"ptr addrspace(1) %out, {arguments}",
            "\n".join(lines),
            "declare i32 @llvm.amdgcn.workitem.id.x()",
            *declarations,
        )


def corpus_module(arch: str) -> tuple[str, int]:
    """Return LLVM IR with the corpus for an architecture, and how many kernels it has."""
    module = _Module()
    _atomics(module)
    _memory(module)
    _arithmetic(module)
    _lanes(module, arch)
    _products(module, arch)
    return "\n".join([*sorted(module.declared), *module.kernels]), len(module.kernels)


def _atomics(module: _Module) -> None:
    for space, kind, name in product(SPACES, ("i32", "i64"), INTEGER_ATOMICS):
        body = f' %o = atomicrmw {name} {SPACES[space]} %p, {kind} %x syncscope("agent") monotonic'
        if name in ("xchg", "add"):
            body += f"\n store {kind} %o, ptr addrspace(1) %out"
        module.kernel(f"{SPACES[space]} %p, {kind} %x, ptr addrspace(1) %out", body)
    for space, kind in product(SPACES, ("i32", "i64")):
        body = f" %o = cmpxchg {SPACES[space]} %p, {kind} %x, {kind} %y acq_rel monotonic"
        body += (
            f"\n %v = extractvalue {{ {kind}, i1 }} %o, 0\n store {kind} %v, ptr addrspace(1) %out"
        )
        module.kernel(f"{SPACES[space]} %p, {kind} %x, {kind} %y, ptr addrspace(1) %out", body)
    for space, kind in product(SPACES, ("float", "double")):
        body = f' %o = atomicrmw fadd {SPACES[space]} %p, {kind} %x syncscope("agent") monotonic'
        module.kernel(f"{SPACES[space]} %p, {kind} %x", body)


def _memory(module: _Module) -> None:
    lane = "declare i32 @llvm.amdgcn.workitem.id.x()"
    for source, target, kind in product(SPACES, SPACES, MEMORY_TYPES):
        if source != target and kind not in ("i16", "<4 x i32>"):
            continue
        body = f"""
 %t = call i32 @llvm.amdgcn.workitem.id.x()
 %p = getelementptr {kind}, {SPACES[source]} %in, i32 %t
 %q = getelementptr {kind}, {SPACES[target]} %out, i32 %t
 %v = load {kind}, {SPACES[source]} %p
 store {kind} %v, {SPACES[target]} %q"""
        module.kernel(f"{SPACES[source]} %in, {SPACES[target]} %out", body, lane)
    for kind in ("i32", "<2 x i32>", "<4 x i32>", "i16", "i8"):
        suffix = kind if kind[0] == "i" else f"v{kind[1]}i32"
        load, store = (
            f"@llvm.amdgcn.raw.ptr.buffer.load.{suffix}",
            f"@llvm.amdgcn.raw.ptr.buffer.store.{suffix}",
        )
        body = f"""
 %t = call i32 @llvm.amdgcn.workitem.id.x()
 %v = call {kind} {load}(ptr addrspace(8) %r, i32 %t, i32 %s, i32 0)
 call void {store}({kind} %v, ptr addrspace(8) %r, i32 %t, i32 16, i32 0)"""
        module.kernel(
            "ptr addrspace(8) %r, i32 %s",
            body,
            lane,
            f"declare {kind} {load}(ptr addrspace(8), i32, i32, i32)",
            f"declare void {store}({kind}, ptr addrspace(8), i32, i32, i32)",
        )
    for count in (3, 40):
        body = f"""
 %a = alloca [{count} x i32], addrspace(5)
 %p = getelementptr i32, ptr addrspace(5) %a, i32 %i
 store volatile i32 %x, ptr addrspace(5) %p
 %q = getelementptr i32, ptr addrspace(5) %a, i32 %j
 %v = load volatile i32, ptr addrspace(5) %q
 store i32 %v, ptr addrspace(1) %out"""
        module.kernel("ptr addrspace(1) %out, i32 %i, i32 %j, i32 %x", body)


def _arithmetic(module: _Module) -> None:
    for kind, name in product(("i16", "i32", "i64", "<2 x i16>"), ARITHMETIC):
        module.lane_kernel(kind, f"%r = {name} {kind} %x0, %x1")
    for kind, name in product(("half", "float", "double"), FLOAT_ARITHMETIC):
        module.lane_kernel(kind, f"%r = {name} {kind} %x0, %x1")
    for kind, name in product(("half", "float"), UNARY):
        call = f"@llvm.{name}.{SUFFIX[kind]}"
        module.lane_kernel(
            kind,
            f"%r = call {kind} {call}({kind} %x0)",
            f"declare {kind} {call}({kind})",
            sources=1,
        )
    for kind, name in product(("half", "float"), BINARY):
        call = f"@llvm.{name}.{SUFFIX[kind]}"
        module.lane_kernel(
            kind,
            f"%r = call {kind} {call}({kind} %x0, {kind} %x1)",
            f"declare {kind} {call}({kind}, {kind})",
        )
    for kind, name in product(("i32", "i16"), INTEGER_BINARY):
        call = f"@llvm.{name}.{kind}"
        module.lane_kernel(
            kind,
            f"%r = call {kind} {call}({kind} %x0, {kind} %x1)",
            f"declare {kind} {call}({kind}, {kind})",
        )
    for kind, name in product(("i32", "i64"), INTEGER_UNARY):
        call = f"@llvm.{name}.{kind}"
        module.lane_kernel(
            kind,
            f"%r = call {kind} {call}({kind} %x0)",
            f"declare {kind} {call}({kind})",
            sources=1,
        )
    for kind in ("half", "float", "double", "<2 x half>"):
        suffix = "v2f16" if kind[0] == "<" else SUFFIX[kind]
        module.lane_kernel(
            kind,
            f"%r = call {kind} @llvm.fma.{suffix}({kind} %x0, {kind} %x1, {kind} %x0)",
            f"declare {kind} @llvm.fma.{suffix}({kind}, {kind}, {kind})",
        )


def _lanes(module: _Module, arch: str) -> None:
    calls = {
        "ds.bpermute": "(i32 %x0, i32 %x1)",
        "ds.swizzle": "(i32 %x0, i32 16415)",
        "readfirstlane.i32": "(i32 %x0)",
        "readlane.i32": "(i32 %x0, i32 5)",
        "update.dpp.i32": "(i32 %x0, i32 %x1, i32 273, i32 15, i32 15, i1 false)",
        "mbcnt.lo": "(i32 %x0, i32 %x1)",
    }
    if not arch.startswith("gfx9"):
        calls["permlanex16.i32"] = (
            "(i32 %x0, i32 %x1, i32 1985229328, i32 -19088744, i1 false, i1 true)"
        )
        calls["mov.dpp8.i32"] = "(i32 %x0, i32 1234567)"
    for name, operands in calls.items():
        kinds = ", ".join(word.split()[0] for word in operands[1:-1].split(", "))
        call = f"@llvm.amdgcn.{name}"
        module.lane_kernel("i32", f"%r = call i32 {call}{operands}", f"declare i32 {call}({kinds})")
    for body, declaration in (
        (" call void @llvm.amdgcn.s.barrier()", "declare void @llvm.amdgcn.s.barrier()"),
        (" call void @llvm.amdgcn.s.sleep(i32 3)", "declare void @llvm.amdgcn.s.sleep(i32)"),
        (' fence syncscope("agent") acq_rel', ""),
        (" fence seq_cst", ""),
    ):
        module.kernel(
            "ptr addrspace(1) %p", f"{body}\n store i32 1, ptr addrspace(1) %p", declaration
        )


def _products(module: _Module, arch: str) -> None:
    for name, source, total in PRODUCTS[arch]:
        call = f"@llvm.amdgcn.{name}"
        after = ", i32 0, i32 0, i32 0" if name.startswith("mfma") else ""
        result = f" %r = call {total} {call}({source} %a, {source} %b, {total} %c{after})"
        kinds = f"{source}, {source}, {total}" + ", i32" * after.count("i32")
        module.kernel(
            f"ptr addrspace(1) %out, {source} %a, {source} %b, {total} %c",
            f"{result}\n store {total} %r, ptr addrspace(1) %out",
            f"declare {total} {call}({kinds})",
        )
