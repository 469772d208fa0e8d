"""Speed of the emulator's tiers on kernels of given sizes, and cost of compiling a long kernel.

Seconds of a launch, the best of several, with code compiled before: the interpreter on numpy arrays
(with compiled matrix products, as launches have them) and compiled kernels (levels 0 and 1) with
one thread in CPU time, and with two in wall time.
`steps` are the wave-instructions that the launch executes.
The long kernel is decoded, compiled without the disk cache, and loaded from it.
"""

from __future__ import annotations

import argparse
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from figures import Figure, add_json, show

sys.path.insert(0, str(Path(__file__).parent))

import emulator_kernels as kernels
import emulator_matrix_kernels as matrix_kernels

from flydsl_emu.codeobject import read_code_object
from flydsl_emu.decode import decode
from flydsl_emu.dispatch import LoadedCode
from flydsl_emu.execution import Allocation, Allocations, Geometry, Launch
from flydsl_emu.execution.arguments import Arguments
from flydsl_emu.jit_tier import JitTier
from flydsl_emu.jit_tier.host_code import CodeCache
from flydsl_emu.jit_tier.kernel import kernel_key
from flydsl_emu.jit_tier.library import Library
from flydsl_emu.jit_tier.products import CompiledProducts
from flydsl_emu.numpy_tier import NumpyTier

Array = Any


@dataclass(frozen=True, slots=True)
class Workload:
    """A kernel with its arguments.

    Attributes:
        name: What it computes.
        text: LLVM IR.
        geometry: Shape of the launch.
        arrays: Its arguments.
        check: Compares the results with a reference; None when there is none.
    """

    name: str
    text: str
    geometry: Geometry
    arrays: tuple[Array, ...]
    check: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds of one workload by tier, optimisation level and threads."""

    name: str
    steps: int
    numpy_1: float
    level_0: float
    level_1: float
    level_1_threads_2: float
    compile: float


def bf16(x: Array) -> Array:
    """Round to bf16, as ``uint16``."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


def single(x: Array) -> Array:
    """Widen bf16."""
    return (x.astype(np.uint32) << 16).view(np.float32)


def near(got: Array, want: Array, tolerance: float) -> None:
    """Fail unless the largest error is within `tolerance` times the largest value."""
    error = float(np.abs(got - want).max() / np.abs(want).max())
    assert error <= tolerance, error


def workloads(quick: bool) -> list[Workload]:
    """Return the workloads; `quick` ones are a small part of the size."""
    rng = np.random.default_rng(1)
    out = []
    rows, columns = (64 if quick else 4096), 4096
    x = bf16(rng.standard_normal((rows, columns)))
    y = np.zeros_like(x)

    def check_norm() -> None:
        wide = single(x).astype(np.float64)
        want = wide / np.sqrt((wide**2).mean(1, keepdims=True) + 1e-5)
        near(single(y), want, 2**-8)

    shape = Geometry((rows, 1, 1), (256, 1, 1))
    out.append(Workload("rmsnorm", kernels.rmsnorm(columns), shape, (x, y), check_norm))
    n = 128 if quick else 1024
    a, b = (bf16(rng.standard_normal((n, n))) for _ in range(2))
    c = np.zeros((n, n), np.float32)

    def check_gemm() -> None:
        near(c, single(a).astype(np.float64) @ single(b).T.astype(np.float64), 1e-5)

    shape = Geometry((n // 128, n // 128, 1), (256, 1, 1))
    out.append(Workload("gemm", matrix_kernels.gemm(n, n), shape, (a, b, c), check_gemm))
    heads, length = (1, 128) if quick else (8, 1024)
    q, k, v = (bf16(rng.standard_normal((heads, length, 128))) for _ in range(3))
    turned = np.ascontiguousarray(v.transpose(0, 2, 1))
    o = np.zeros((heads, length, 128), np.float32)

    def check_attention() -> None:
        s = single(q).astype(np.float64) @ single(k).transpose(0, 2, 1) / np.sqrt(128)
        e = np.exp(s - s.max(2, keepdims=True))
        near(o, e / e.sum(2, keepdims=True) @ single(v), 2**-7)

    shape = Geometry((length // 128, heads, 1), (256, 1, 1))
    text = matrix_kernels.attention(length)
    out.append(Workload("attention", text, shape, (q, k, turned, o), check_attention))
    groups, rows, columns = (128 if quick else 32768), 128, 8192
    s = bf16(rng.standard_normal((rows, columns)) * 3)
    t = np.zeros_like(s)

    def check_softmax() -> None:
        wide = single(s).astype(np.float64)
        e = np.exp(wide - wide.max(1, keepdims=True))
        near(single(t), e / e.sum(1, keepdims=True), 2**-8)

    shape = Geometry((groups, 1, 1), (256, 1, 1))
    out.append(Workload("softmax", kernels.softmax(columns, rows), shape, (s, t), check_softmax))
    return out


class Loaded:
    """A workload in emulated memory."""

    def __init__(self, workload: Workload) -> None:
        self.code = LoadedCode(read_code_object(kernels.compile_kernel(workload.text)))
        kernel = self.code.kernels["k"]
        arrays = workload.arrays
        data = b"".join(struct.pack("<Q", x.ctypes.data) for x in arrays)
        ranges = [
            Allocation(x.ctypes.data, x.ctypes.data + x.nbytes, True, f"argument {n}")
            for n, x in enumerate(arrays)
        ]
        arguments = Arguments(kernel.kernel, self.code.base, workload.geometry, data)
        memory = Allocations((*ranges, *arguments.ranges, self.code.range))
        self.program = kernel.program
        self.launch = Launch(self.program, workload.geometry, arguments, memory)


def best(
    run: Callable[[], object], runs: int, clock: Callable[[], float] = time.perf_counter
) -> float:
    """Return the seconds of the fastest run."""
    times = []
    for _ in range(runs):
        started = clock()
        run()
        times.append(clock() - started)
    return min(times)


def measure(workload: Workload, library: Library, runs: int, interpret: bool) -> Timing:
    """Run one workload on both tiers."""
    loaded = Loaded(workload)
    tier = JitTier(loaded.program, library)
    compile_ = best(lambda: tier.kernel(loaded.launch.entry), 1)
    steps = tier.run(loaded.launch, 1, 0).steps
    workload.check()
    # CPU time where one thread works alone: other programs on the machine do not count then.
    jit = (
        best(lambda: tier.run(loaded.launch, 1, 0), runs, time.process_time),
        best(lambda: tier.run(loaded.launch, 1, 1), runs, time.process_time),
        best(lambda: tier.run(loaded.launch, 2, 1), runs),
    )
    numpy = 0.0
    if interpret:
        interpreter = NumpyTier(loaded.program, CompiledProducts(library))
        count = 2 if steps < 10**7 else 1
        numpy = best(lambda: interpreter.run(loaded.launch), count, time.process_time)
        workload.check()
    return Timing(workload.name, steps, numpy, *jit, compile_)


def measure_long(count: int) -> dict[str, float]:
    """Return seconds to decode, compile and load a kernel of `count` instructions."""
    code = read_code_object(kernels.compile_kernel(kernels.long_kernel(count)))
    kernel = code.kernels["k"]
    decode(kernel.arch, kernel.code, 0x1000)
    decoding = best(lambda: decode(kernel.arch, kernel.code, 0x1000), 3)
    program = LoadedCode(code).kernels["k"].program
    with tempfile.TemporaryDirectory() as folder:
        cache = CodeCache(Path(folder))
        entry = program.base + (256 if kernel.descriptor.preload_length else 0)
        library = Library(cache)
        JitTier(program, library).kernel(entry)
        cache.forget(kernel_key(program, entry - program.base))
        started = time.perf_counter()
        JitTier(program, library).kernel(entry)
        cold = time.perf_counter() - started
        warm = best(lambda: JitTier(program, library).kernel(entry), 3)
    return {
        "instructions": len(program.instructions),
        "decode": decoding,
        "compile": cold,
        "load": warm,
    }


def _listed(values: dict[str, float]) -> str:
    """Return names and values in a line."""
    return ", ".join(f"{key} {value:.3g}" for key, value in values.items())


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=3, help="launches for each figure")
    parser.add_argument("--quick", action="store_true", help="a small part of the sizes")
    parser.add_argument("--no-numpy", action="store_true", help="compiled kernels only")
    add_json(parser)
    options = parser.parse_args(arguments)
    library = Library(CodeCache())
    if not options.json:
        print(
            f"{'workload':<10} {'steps':>11} {'numpy':>9} {'level 0':>8} {'level 1':>8} "
            f"{'2 threads':>9} {'compile':>8}"
        )
    for workload in workloads(options.quick):
        f = measure(workload, library, options.runs, not options.no_numpy)
        text = (
            f"{f.name:<10} {f.steps:>11} {f.numpy_1:>9.3f} {f.level_0:>8.4f} {f.level_1:>8.4f} "
            f"{f.level_1_threads_2:>9.4f} {f.compile:>8.3f}"
        )
        kinds = ("numpy_1", "level_0", "level_1", "level_1_threads_2", "compile")
        lines = [Figure(f"{f.name} {kind}", getattr(f, kind), "s") for kind in kinds]
        show(lines, options.json, text)
    long = measure_long(1000 if options.quick else 13000)
    count = long.pop("instructions")
    lines = [Figure(f"{count:.0f} instructions {kind}", value, "s") for kind, value in long.items()]
    show(lines, options.json, f"{count:.0f} instructions: " + _listed(long))
    return 0


if __name__ == "__main__":
    sys.exit(main())
