"""Compiling random functions for the host and for AMD GPUs, and running them on both."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
from llvmlite import binding
from random_functions import INPUT_BYTES, OUTPUT_BYTES, Function, element_of

from flydsl_emu.codeobject import read_code_object
from flydsl_emu.dispatch import LoadedCode
from flydsl_emu.execution import Allocation, Geometry
from flydsl_rocdl.hsaco import link_object

__all__ = ["THREADS", "device_text", "differences", "make_inputs", "run_emulated", "run_native"]

Array = Any
THREADS = 128
TRIPLE = "amdgcn-amd-amdhsa"
DTYPES = {
    "i8": np.uint8,
    "i16": np.uint16,
    "i32": np.uint32,
    "i64": np.uint64,
    "half": np.float16,
    "float": np.float32,
    "double": np.float64,
}


def make_inputs(seed: int) -> Array:
    """Records of random and edge values, ``uint8[THREADS, INPUT_BYTES]``."""
    rng = np.random.default_rng(seed)
    raw = rng.integers(0, 256, (THREADS, INPUT_BYTES)).astype(np.uint8)
    rows = raw.view(np.uint32)
    small = rng.integers(-20, 20, rows[:, :14].shape).astype(np.int32).view(np.uint32)
    rows[:, :14] = np.where(rng.random(small.shape) < 0.5, small, rows[:, :14])
    for kind, start, count in ((np.float32, 56, 6), (np.float64, 80, 3), (np.float16, 104, 6)):
        size = np.dtype(kind).itemsize
        view = np.ascontiguousarray(raw[:, start : start + size * count]).view(kind)
        info = np.finfo(kind)
        edges = [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, info.max, info.tiny, info.tiny / 4]
        usual = rng.standard_normal(view.shape) * 10.0 ** rng.integers(-3, 5, view.shape)
        with np.errstate(all="ignore"):
            value = np.where(rng.random(view.shape) < 0.7, usual, rng.choice(edges, view.shape))
            kept = rng.random(view.shape) < 0.15
            view = np.where(kept, view, value.astype(kind))
        raw[:, start : start + size * count] = view.astype(kind).view(np.uint8)
    return raw


def _bodies(functions: Sequence[Function]) -> str:
    """Definitions of all functions, and the declarations of what they call."""
    declared = sorted({d for f in functions for d in f.declarations})
    parts = list(declared)
    for n, f in enumerate(functions):
        # One in eight stays a call.
        how = "noinline" if n % 8 == 7 else "alwaysinline"
        head = f"define internal void @body{n}(ptr %in, ptr %out, ptr %local) {how} {{"
        parts += [head, f.body, "}"]
    return "\n".join(parts)


def _native_text(functions: Sequence[Function]) -> str:
    parts = [_bodies(functions)]
    for n in range(len(functions)):
        parts.append(f"""
define void @run{n}(ptr %in, ptr %out, i64 %count) {{
entry:
  %local = alloca [8 x i32]
  br label %next
next:
  %t = phi i64 [ 0, %entry ], [ %u, %next ]
  store [8 x i32] zeroinitializer, ptr %local
  %i = mul i64 %t, {INPUT_BYTES}
  %o = mul i64 %t, {OUTPUT_BYTES}
  %a = getelementptr i8, ptr %in, i64 %i
  %b = getelementptr i8, ptr %out, i64 %o
  call void @body{n}(ptr %a, ptr %b, ptr %local)
  %u = add i64 %t, 1
  %more = icmp ult i64 %u, %count
  br i1 %more, label %next, label %done
done:
  ret void
}}""")
    return "\n".join(parts)


def device_text(functions: Sequence[Function]) -> str:
    parts = ["declare i32 @llvm.amdgcn.workitem.id.x()", _bodies(functions)]
    for n in range(len(functions)):
        parts.append(f"""
define amdgpu_kernel void @run{n}(ptr addrspace(1) %in, ptr addrspace(1) %out)
    "amdgpu-flat-work-group-size"="{THREADS},{THREADS}" "uniform-work-group-size"="true" {{
  %local = alloca [8 x i32], addrspace(5)
  store [8 x i32] zeroinitializer, ptr addrspace(5) %local
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %i = mul i32 %t, {INPUT_BYTES}
  %o = mul i32 %t, {OUTPUT_BYTES}
  %a = getelementptr i8, ptr addrspace(1) %in, i32 %i
  %b = getelementptr i8, ptr addrspace(1) %out, i32 %o
  %fa = addrspacecast ptr addrspace(1) %a to ptr
  %fb = addrspacecast ptr addrspace(1) %b to ptr
  %fl = addrspacecast ptr addrspace(5) %local to ptr
  call void @body{n}(ptr %fa, ptr %fb, ptr %fl)
  ret void
}}""")
    return "\n".join(parts)


def _optimised(machine: Any, text: str, triple: str, level: int) -> Any:
    module = binding.parse_assembly(
        f'target datalayout = "{machine.target_data}"\ntarget triple = "{triple}"\n{text}'
    )
    module.verify()
    options = binding.create_pipeline_tuning_options(speed_level=level)
    passes = binding.create_pass_builder(machine, options)
    passes.getModulePassManager().run(module, passes)
    return module


def run_native(functions: Sequence[Function], inputs: Array, level: int = 1) -> Array:
    """Return the output records of all functions, ``uint8[function, THREADS, OUTPUT_BYTES]``."""
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_default_triple().create_target_machine(
        cpu=binding.get_host_cpu_name(),
        features=binding.get_host_cpu_features().flatten(),
        opt=level,
        jit=True,
    )
    triple = binding.get_default_triple()
    module = _optimised(machine, _native_text(functions), triple, level)
    out = np.zeros((len(functions), THREADS, OUTPUT_BYTES), np.uint8)
    with binding.create_mcjit_compiler(module, machine) as engine:
        engine.finalize_object()
        for n in range(len(functions)):
            call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(
                engine.get_function_address(f"run{n}")
            )
            call(inputs.ctypes.data, out[n].ctypes.data, THREADS)
    return out


def run_emulated(functions: Sequence[Function], inputs: Array, arch: str, level: int) -> Array:
    """Return the same records as `run_native`, from the emulator."""
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(TRIPLE)
    machine = target.create_target_machine(cpu=arch, opt=level, reloc="pic")
    module = _optimised(machine, device_text(functions), TRIPLE, level)
    code = LoadedCode(read_code_object(link_object(machine.emit_object(module))))
    out = np.zeros((len(functions), THREADS, OUTPUT_BYTES), np.uint8)
    for n in range(len(functions)):
        ranges = [
            Allocation(x.ctypes.data, x.ctypes.data + x.nbytes, True, name)
            for name, x in (("in", inputs), ("out", out[n]))
        ]
        arguments = struct.pack("<QQ", inputs.ctypes.data, out[n].ctypes.data)
        geometry = Geometry((1, 1, 1), (THREADS, 1, 1))
        code.kernels[f"run{n}"].launch(geometry, arguments, ranges, 10**8)
    return out


def differences(function: Function, native: Array, emulated: Array) -> list[str]:
    """Describe the outputs of one function that differ; NaNs are all alike."""
    found = []
    for slot, kind in enumerate(function.outputs):
        count, element = element_of(kind) if kind.startswith("<") else (1, kind)
        dtype = np.dtype(DTYPES[element])
        columns = []
        for raw in (native, emulated):
            part = raw[:, 16 * slot : 16 * slot + count * dtype.itemsize]
            bits = np.ascontiguousarray(part).view(f"u{dtype.itemsize}")
            if dtype.kind == "f":
                nan = np.isnan(bits.view(dtype))
                bits = np.where(nan, bits.dtype.type(0), bits) + nan * bits.dtype.type(0)
                bits = np.where(nan, bits.dtype.type(np.iinfo(bits.dtype).max), bits)
            columns.append(bits)
        bad = np.flatnonzero((columns[0] != columns[1]).any(axis=1))
        if len(bad):
            t = int(bad[0])
            values = [np.ascontiguousarray(c[t]).view(dtype).tolist() for c in columns]
            found.append(f"output {slot} ({kind}), thread {t}: {values[0]} and {values[1]}")
    return found
