"""Deleted waits, judged by what waves execute.

The judge knows nothing of the checker: it takes the instructions that each wave of a launch
executes, lets every memory operation end as late as the waits allow, and looks for registers used
before. Where it finds one, the static check must; where the static check finds nothing, it must
find nothing either, so a deleted wait that is not reported was of no use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from code_mutants import kernels_of, mutants, patched
from hazard_kernels import KERNELS
from launching import allocations_of, kernarg_of
from test_mutants import arguments_of

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope
from flydsl_emu.codeobject import Kernel, read_code_object
from flydsl_emu.debug.effects import effects_of
from flydsl_emu.decode import Instruction, Operand
from flydsl_emu.dispatch import LoadedCode
from flydsl_emu.execution import Geometry
from flydsl_emu.observers import watching
from flydsl_emu.sanitizer import check_kernel

ARCHS = ("gfx942", "gfx950", "gfx1100", "gfx1201")
Compile = Callable[[str, str], bytes]
Registers = frozenset[tuple[str, int]]


def is_wait(i: Instruction) -> bool:
    """Whether an instruction waits for a memory counter."""
    name = i.name
    return name in ("s_waitcnt", "s_waitcnt_vscnt") or (
        name.startswith("s_wait_") and name.endswith("cnt")
    )


# The judge ---------------------------------------------------------------------------------------
class Recorder:
    """Notes what each wave executes."""

    def __init__(self) -> None:
        self.waves: list[list[Instruction]] = []

    def batch(self, batch: Any) -> None:
        self.waves = [[] for _ in range(batch.state.waves)]

        def wrap(i: Instruction, step: Callable[[], Any]) -> Callable[[], Any]:
            def run() -> Any:
                state = batch.state
                active = state.live if state.active is None else state.active
                for wave in np.flatnonzero(active):
                    self.waves[wave].append(i)
                return step()

            return run

        batch.instrument(wrap)


def registers(operands: tuple[Operand, ...]) -> Registers:
    return frozenset((o.kind, o.index + k) for o in operands for k in range(o.count))


def counter_of(arch: str, i: Instruction) -> str:
    """Return the counter of a memory operation, or an empty text."""
    nine, twelve = arch.startswith("gfx9"), arch.startswith("gfx12")
    if i.name.startswith("ds_"):
        return "ds" if twelve else "lgkm"
    if i.name.startswith(("s_load", "s_buffer_load")):
        return "km" if twelve else "lgkm smem"
    if i.name.startswith(("global_", "buffer_", "scratch_")) and "inv" not in i.name:
        stores = "_store_" in i.name or ("atomic" in i.name and not effects_of(i).writes)
        if stores and not nine:
            return "store" if twelve else "vs"
        return "load" if twelve else "vm"
    return ""


def limits_of(arch: str, i: Instruction) -> dict[str, int]:
    """Return the counters that a wait names, from its text."""
    text = str(i).removeprefix("s_waitcnt").strip()
    if i.name == "s_waitcnt_vscnt":
        return {"vs": int(text.rpartition(" ")[2], 0)}
    if arch.startswith("gfx12"):
        names = [n.removesuffix("cnt") for n in i.name.removeprefix("s_wait_").split("_")]
        value = i.mods["simm16"]
        return dict(
            zip(names, (value >> 8, value & 63) if len(names) == 2 else (value,), strict=True)
        )
    parts = (part.split("(") for part in text.split() if "(" in part)
    return {name.removesuffix("cnt"): int(value.rstrip(")")) for name, value in parts}


def early_use(arch: str, wave: list[Instruction]) -> str:
    """Return the first use of a register, or barrier, that a wait should have held back."""
    outstanding: dict[str, list[tuple[Registers, bool]]] = {}
    for i in wave:
        if is_wait(i):
            for name, limit in limits_of(arch, i).items():
                queue = outstanding.get(name, [])
                # The oldest ones end first, and only as many as must.
                del queue[: max(0, len(queue) - limit)]
                if limit == 0:
                    outstanding.pop(name + " smem", None)
                    if name == "km":
                        outstanding.pop("km", None)
            continue
        effects = effects_of(i)
        reads, writes = registers(effects.reads), registers(effects.writes)
        mine = counter_of(arch, i)
        if "d16" in i.name or mine:
            reads -= writes - registers(tuple(o for o in i.operands[1:] if o.kind in "vas"))
        for name, queue in outstanding.items():
            in_order = name == mine and "smem" not in name and name != "km"
            for results, writes_lds in queue:
                if results & reads or (not in_order and results & writes):
                    return str(i)
                if writes_lds and i.name in ("s_barrier", "s_barrier_signal"):
                    return str(i)
        if mine:
            to_lds = i.name.startswith(("ds_write", "ds_store", "ds_add"))
            outstanding.setdefault(mine, []).append((writes, to_lds))
    return ""


def judged(kernel: Any, launch: Callable[[Any], None]) -> str:
    recorder = Recorder()
    launch(recorder)
    arch = kernel.arch
    return next((found for wave in recorder.waves if (found := early_use(arch, wave))), "")


# Kernels from LLVM IR ----------------------------------------------------------------------------
@pytest.mark.parametrize("arch", ARCHS)
def test_waits_of_kernels_from_llvm(compile_ir: Compile, arch: str) -> None:
    planted = found = 0
    for name, text in KERNELS.items():
        if name == "transfer" and not arch.startswith("gfx9"):
            continue
        hsaco = compile_ir(text, arch)
        (kernel,) = kernels_of(hsaco)
        assert check_kernel(kernel) == []
        grid, arguments = arguments_of(name)
        for mutant in mutants(kernel, is_wait):
            changed = patched(hsaco, kernel.code, mutant.kernel.code)

            def launch(recorder: Recorder, code: bytes = changed) -> None:
                loaded = LoadedCode(read_code_object(code)).kernels["k"]
                loaded.launch(
                    Geometry((grid, 1, 1), (256, 1, 1)),  # noqa: B023
                    kernarg_of(arguments),  # noqa: B023
                    allocations_of(arguments),  # noqa: B023
                    observer=recorder,
                )

            planted += 1
            reported = any(f.code == "FLY-U731" for f in check_kernel(mutant.kernel))
            found += reported
            early = judged(kernel, launch)
            assert reported or not early, (name, str(mutant.instruction), early)
    assert planted > 25
    if arch.startswith("gfx9"):
        assert found == planted
    else:
        assert found >= 0.9 * planted


# Kernels written in FlyDSL -----------------------------------------------------------------------
THREADS = 256


@flyc.kernel
def normalise(X: fx.Tensor, W: fx.Tensor, Y: fx.Tensor, columns: fx.Int32):
    """Scale each row to unit length: a loop, a tree in LDS, a second loop."""
    row, thread = fx.block_idx.x, fx.thread_idx.x
    tile = fx.SharedAllocator().allocate(fx.Array[fx.Float32, THREADS])
    total = fx.Float32(0.0)
    for column in range(thread, columns, THREADS):
        total = total + X[row, column] * X[row, column]
    tile[thread] = total
    fx.gpu.barrier()
    for step in fx.range_constexpr(8):
        width = 128 >> step
        if thread < width:
            tile[thread] = tile[thread] + tile[thread + width]
        fx.gpu.barrier()
    scale = fx.math.rsqrt(tile[0])
    for column in range(thread, columns, THREADS):
        Y[row, column] = X[row, column] * scale * W[column]


@flyc.jit
def launch_normalise(X: fx.Tensor, W: fx.Tensor, Y: fx.Tensor, rows: fx.Int32, columns: fx.Int32):
    normalise(X, W, Y, columns).launch(grid=(rows,), block=(THREADS,))


@flyc.kernel
def product(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, n: fx.Int32):
    """One element per thread, tiles of 16 x 16 in LDS."""
    tx, ty = fx.thread_idx.x % 16, fx.thread_idx.x // 16
    row, column = fx.block_idx.y * 16 + ty, fx.block_idx.x * 16 + tx
    shared = fx.SharedAllocator()
    a_tile = shared.allocate(fx.Array[fx.Float32, 256])
    b_tile = shared.allocate(fx.Array[fx.Float32, 256])
    total = fx.Float32(0.0)
    for base in range(0, n, 16):
        a_tile[ty * 16 + tx] = A[row, base + tx]
        b_tile[ty * 16 + tx] = B[base + ty, column]
        fx.gpu.barrier()
        for k in fx.range_constexpr(16):
            total = total + a_tile[ty * 16 + k] * b_tile[k * 16 + tx]
        fx.gpu.barrier()
    C[row, column] = total


@flyc.jit
def launch_product(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, n: fx.Int32):
    product(A, B, C, n).launch(grid=(n // 16, n // 16), block=(THREADS,))


def loaded_kernels(run: Callable[[], None]) -> list[Kernel]:
    """Return the kernels that a call launches."""
    seen: list[Kernel] = []

    def watcher(kernel: Any, _geometry: Geometry, _allocations: Any) -> None:
        seen.append(kernel.kernel)

    with watching(watcher):
        run()
    return seen


@pytest.mark.parametrize("arch", ARCHS)
def test_waits_of_kernels_in_flydsl(arch: str) -> None:
    rng = np.random.default_rng()
    x, w = rng.random((3, 500), np.float32), rng.random(500, np.float32)
    a, b = rng.random((32, 32), np.float32), rng.random((32, 32), np.float32)
    y, c = np.zeros_like(x), np.zeros_like(a)
    with scope(FLYDSL_TARGET=arch):
        kernels = loaded_kernels(lambda: launch_normalise(x, w, y, 3, 500))
        kernels += loaded_kernels(lambda: launch_product(a, b, c, 32))
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)
    expected = x * w / np.sqrt((x.astype(np.float64) ** 2).sum(1, keepdims=True))
    np.testing.assert_allclose(y, expected, rtol=1e-5)
    planted = found = 0
    for kernel in kernels:
        assert check_kernel(kernel) == []
        for mutant in mutants(kernel, is_wait):
            planted += 1
            found += any(f.code == "FLY-U731" for f in check_kernel(mutant.kernel))
    assert planted > 25
    assert found >= 0.95 * planted
