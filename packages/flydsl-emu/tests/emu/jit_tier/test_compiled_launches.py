"""Launches of compiled kernels: turns, threads, faults, interrupts, the cache of code."""

from __future__ import annotations

import _thread
import signal
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flydsl.config import scope
from flydsl.diagnostics import FlyDSLWarning
from flydsl.errors import CompilerBug, FlyDSLError, TargetError, UserError
from flydsl_emu.codeobject import read_code_object
from flydsl_emu.dispatch import LoadedCode, LoadedKernel
from flydsl_emu.execution import Allocation, Allocations, Geometry, Launch, LaunchRecord
from flydsl_emu.execution.arguments import Arguments
from flydsl_emu.jit_tier import JitTier
from flydsl_emu.jit_tier.host_code import CodeCache, compiled
from flydsl_emu.jit_tier.kernel import kernel_key
from flydsl_emu.jit_tier.library import Library
from flydsl_emu.numpy_tier import NumpyTier

Compile = Callable[[str, str], bytes]
Array = Any

pytestmark = pytest.mark.skipif(
    not JitTier.available(), reason="no code generator for this processor"
)


@pytest.fixture(scope="module")
def library(code_cache: Path) -> Library:
    return Library(CodeCache(code_cache))


@pytest.fixture(autouse=True)
def _quick() -> Iterator[None]:
    with scope(FLYDSL_EMU_TIER="jit"):
        yield


def prepared(
    code: bytes, geometry: Geometry, arrays: tuple[Array, ...], steps: int = 10**9
) -> tuple[LoadedKernel, Launch]:
    loaded = LoadedCode(read_code_object(code))
    kernel = loaded.kernels["k"]
    data = b"".join(struct.pack("<Q", x.ctypes.data) for x in arrays)
    ranges = [
        Allocation(x.ctypes.data, x.ctypes.data + x.nbytes, True, f"argument {n}")
        for n, x in enumerate(arrays)
    ]
    geometry = replace(geometry, lanes=kernel.kernel.wave_size)
    arguments = Arguments(kernel.kernel, loaded.base, geometry, data)
    memory = Allocations((*ranges, *arguments.ranges, loaded.range))
    return kernel, Launch(kernel.program, geometry, arguments, memory, steps)


def run(
    library: Library,
    code: bytes,
    geometry: Geometry,
    arrays: tuple[Array, ...],
    threads: int = 1,
    steps: int = 10**9,
) -> LaunchRecord:
    kernel, launch = prepared(code, geometry, arrays, steps)
    return JitTier(kernel.program, library).run(launch, threads)


HEADER = """
declare i32 @llvm.amdgcn.workgroup.id.x()
declare i32 @llvm.amdgcn.workitem.id.x()
declare void @llvm.amdgcn.s.barrier()
declare void @llvm.trap()
"""

CHAIN = (
    HEADER
    + """
define amdgpu_kernel void @k(ptr addrspace(1) %flags, ptr addrspace(1) %out) {
entry:
  %b = call i32 @llvm.amdgcn.workgroup.id.x()
  %n = add i32 %b, 1
  %next = getelementptr i32, ptr addrspace(1) %flags, i32 %n
  %own = getelementptr i32, ptr addrspace(1) %flags, i32 %b
  br label %wait
wait:
  %x = load atomic i32, ptr addrspace(1) %next syncscope("agent") acquire, align 4
  %c = icmp eq i32 %x, 1
  br i1 %c, label %go, label %wait
go:
  store atomic i32 1, ptr addrspace(1) %own syncscope("agent") release, align 4
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %b
  store i32 %n, ptr addrspace(1) %p
  ret void
}"""
)


@pytest.mark.parametrize("threads", [1, 2])
def test_each_workgroup_waits_for_the_next_one(
    compile_ir: Compile, library: Library, threads: int
) -> None:
    count = 100
    flags, out = np.zeros(count + 1, np.int32), np.zeros(count, np.int32)
    flags[count] = 1
    run(
        library,
        compile_ir(CHAIN, "gfx942"),
        Geometry((count, 1, 1), (64, 1, 1)),
        (flags, out),
        threads,
    )
    assert out.tolist() == list(range(1, count + 1))


@pytest.mark.parametrize("threads", [1, 2])
def test_waves_that_wait_forever_are_told(
    compile_ir: Compile, library: Library, threads: int
) -> None:
    flags, out = np.zeros(9, np.int32), np.zeros(8, np.int32)
    code = compile_ir(CHAIN, "gfx942")
    with pytest.raises(TargetError, match="wait for one another") as caught:
        run(library, code, Geometry((8, 1, 1), (64, 1, 1)), (flags, out), threads)
    assert caught.value.code == "FLY-U713"
    assert "waves at pc 0x" in str(caught.value)


ENDLESS = (
    HEADER
    + """
define amdgpu_kernel void @k(ptr addrspace(1) %p) {
entry:
  br label %loop
loop:
  %n = phi i32 [ 0, %entry ], [ %m, %loop ]
  %x = load volatile i32, ptr addrspace(1) %p
  %m = add i32 %n, %x
  %c = icmp eq i32 %x, 7
  br i1 %c, label %end, label %loop
end:
  store i32 %m, ptr addrspace(1) %p
  ret void
}"""
)


def test_the_step_limit_ends_a_loop(compile_ir: Compile, library: Library) -> None:
    flag = np.ones(1, np.int32)
    with pytest.raises(UserError, match="may never end"):
        run(
            library,
            compile_ir(ENDLESS, "gfx942"),
            Geometry((1, 1, 1), (64, 1, 1)),
            (flag,),
            steps=10**6,
        )


@pytest.fixture
def interrupts() -> Iterator[None]:
    """Interrupts raise, also where a shell has started the tests with interrupts ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts")
@pytest.mark.parametrize("threads", [1, 2])
def test_an_interrupt_stops_all_threads(
    compile_ir: Compile, library: Library, threads: int
) -> None:
    flag = np.ones(1, np.int32)
    code = compile_ir(ENDLESS, "gfx942")
    before = threading.active_count()
    timer = threading.Timer(0.3, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        run(library, code, Geometry((4, 1, 1), (64, 1, 1)), (flag,), threads, 10**12)
    timer.join()
    for _ in range(500):
        if threading.active_count() == before:
            return
        time.sleep(0.01)
    pytest.fail("a thread goes on")


TOTALS = (
    HEADER
    + """
@tile = internal addrspace(3) global [256 x i32] poison, align 16
define amdgpu_kernel void @k(ptr addrspace(1) %in, ptr addrspace(1) %out)
    "amdgpu-flat-work-group-size"="256,256" {
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  %b = call i32 @llvm.amdgcn.workgroup.id.x()
  %base = mul i32 %b, 256
  %i = add i32 %base, %t
  %p = getelementptr i32, ptr addrspace(1) %in, i32 %i
  %x = load i32, ptr addrspace(1) %p
  %l = getelementptr [256 x i32], ptr addrspace(3) @tile, i32 0, i32 %t
  store i32 %x, ptr addrspace(3) %l
  fence syncscope("workgroup") release
  call void @llvm.amdgcn.s.barrier()
  fence syncscope("workgroup") acquire
  %u = add i32 %t, 77
  %w = and i32 %u, 255
  %m = getelementptr [256 x i32], ptr addrspace(3) @tile, i32 0, i32 %w
  %y = load i32, ptr addrspace(3) %m
  %old = atomicrmw add ptr addrspace(1) %out, i32 %y syncscope("agent") monotonic
  ret void
}"""
)


def test_threads_and_tiers_count_and_compute_alike(compile_ir: Compile, library: Library) -> None:
    data = np.random.default_rng(5).integers(0, 1000, 256 * 90, dtype=np.uint32)
    code, geometry = compile_ir(TOTALS, "gfx950"), Geometry((90, 1, 1), (256, 1, 1))
    steps, counts = set(), []
    for threads in (1, 2, 5):
        total = np.zeros(1, np.uint32)
        record = run(library, code, geometry, (data, total), threads)
        assert total[0] == data.sum()
        steps.add(record.steps)
        counts.append(sorted(record.counts.values()))
    total = np.zeros(1, np.uint32)
    kernel, launch = prepared(code, geometry, (data, total))
    record = NumpyTier(kernel.program).run(launch)
    assert total[0] == data.sum()
    assert steps == {record.steps}
    assert counts == [sorted(n for n in record.counts.values() if n)] * 3


CALLS = (
    HEADER
    + """
define internal i32 @collatz(i32 %start) noinline {
entry:
  br label %loop
loop:
  %x = phi i32 [ %start, %entry ], [ %next, %again ]
  %n = phi i32 [ 0, %entry ], [ %m, %again ]
  %end = icmp ule i32 %x, 1
  br i1 %end, label %done, label %again
again:
  %odd = and i32 %x, 1
  %is = icmp eq i32 %odd, 1
  %three = mul i32 %x, 3
  %up = add i32 %three, 1
  %down = lshr i32 %x, 1
  %next = select i1 %is, i32 %up, i32 %down
  %m = add i32 %n, 1
  br label %loop
done:
  ret i32 %n
}
define amdgpu_kernel void @k(ptr addrspace(1) %out, ptr addrspace(1) %unused) {
entry:
  %t = call i32 @llvm.amdgcn.workitem.id.x()
  br label %loop
loop:
  %k = phi i32 [ 0, %entry ], [ %kn, %loop ]
  %sum = phi i32 [ 0, %entry ], [ %total, %loop ]
  %first = add i32 %t, %k
  %a = call i32 @collatz(i32 %first)
  %second = add i32 %a, 7
  %b = call i32 @collatz(i32 %second)
  %part = add i32 %sum, %a
  %total = add i32 %part, %b
  %kn = add i32 %k, 1
  %more = icmp ult i32 %kn, 3
  br i1 %more, label %loop, label %end
end:
  %p = getelementptr i32, ptr addrspace(1) %out, i32 %t
  store i32 %total, ptr addrspace(1) %p
  ret void
}"""
)


def collatz(x: int) -> int:
    steps = 0
    while x > 1:
        x = 3 * x + 1 if x & 1 else x >> 1
        steps += 1
    return steps


@pytest.mark.parametrize("arch", ["gfx942", "gfx1100"])
def test_functions_are_called_and_return(compile_ir: Compile, library: Library, arch: str) -> None:
    out, unused = np.zeros(128, np.int32), np.zeros(1, np.int32)
    run(library, compile_ir(CALLS, arch), Geometry((1, 1, 1), (128, 1, 1)), (out, unused))
    want = []
    for t in range(128):
        lengths = [collatz(t + k) for k in range(3)]
        want.append(sum(lengths) + sum(collatz(n + 7) for n in lengths))
    assert out.tolist() == want


FAULTS = {
    "read past the end": (
        "  %p = getelementptr i32, ptr addrspace(1) %in, i32 %t\n"
        "  %x = load volatile i32, ptr addrspace(1) %p\n"
    ),
    "write past the end": (
        "  %p = getelementptr i64, ptr addrspace(1) %in, i32 %t\n"
        "  store i64 5, ptr addrspace(1) %p\n"
    ),
    "scalar read": (
        "  %p = getelementptr i8, ptr addrspace(4) null, i64 64\n"
        "  %x = load volatile i32, ptr addrspace(4) %p\n"
    ),
    "LDS": (
        "  %o = mul i32 %t, 400\n"
        "  %p = getelementptr i8, ptr addrspace(3) @tile, i32 %o\n"
        "  store volatile i32 %t, ptr addrspace(3) %p\n"
    ),
    "private": (
        "  %a = alloca [4 x i32], addrspace(5)\n"
        "  %p = getelementptr [4 x i32], ptr addrspace(5) %a, i32 0, i32 %t\n"
        "  store volatile i32 %t, ptr addrspace(5) %p\n"
    ),
    "misaligned atomic": (
        "  %p = getelementptr i8, ptr addrspace(1) %in, i32 %t\n"
        '  %x = atomicrmw add ptr addrspace(1) %p, i32 1 syncscope("agent") monotonic\n'
    ),
    "trap": "  call void @llvm.trap()\n",
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_read_alike_on_both_tiers(compile_ir: Compile, library: Library, name: str) -> None:
    text = (
        HEADER
        + "@tile = internal addrspace(3) global [64 x i32] poison, align 16\n"
        + "define amdgpu_kernel void @k(ptr addrspace(1) %in) {\n"
        + "  %t = call i32 @llvm.amdgcn.workitem.id.x()\n"
        + FAULTS[name]
        + "  ret void\n}"
    )
    data = np.zeros(40, np.int32)
    kernel, launch = prepared(compile_ir(text, "gfx942"), Geometry((1, 1, 1), (64, 1, 1)), (data,))
    texts = []
    runs = (NumpyTier(kernel.program).run, JitTier(kernel.program, library).run)
    for run in runs:
        with pytest.raises(FlyDSLError) as caught:
            run(launch)
        texts.append(str(caught.value))
    assert texts[0] == texts[1]


def test_code_is_kept_and_made_again_when_damaged(compile_ir: Compile, tmp_path: Path) -> None:
    code, geometry = compile_ir(TOTALS, "gfx942"), Geometry((3, 1, 1), (256, 1, 1))
    data = np.arange(256 * 3, dtype=np.uint32)

    def first_of(cache: CodeCache) -> bool:
        total = np.zeros(1, np.uint32)
        kernel, launch = prepared(code, geometry, (data, total))
        tier = JitTier(kernel.program, Library(cache))
        tier.run(launch)
        assert total[0] == data.sum()
        return tier.kernel(launch.entry).cached

    assert not first_of(CodeCache(tmp_path))
    assert first_of(CodeCache(tmp_path))
    for number, path in enumerate(sorted(tmp_path.iterdir())):
        whole = path.read_bytes()
        path.write_bytes(whole[: len(whole) // 2] if number % 2 else whole[:-9] + bytes(9))
    assert not first_of(CodeCache(tmp_path))
    assert first_of(CodeCache(tmp_path))


def test_another_kernel_has_another_key(compile_ir: Compile) -> None:
    keys = set()
    for text in (TOTALS, CHAIN, ENDLESS):
        for arch in ("gfx942", "gfx950"):
            kernel = LoadedCode(read_code_object(compile_ir(text, arch))).kernels["k"]
            keys |= {kernel_key(kernel.program, 0, level=n) for n in (0, 1)}
    assert len(keys) == 12


def test_an_unusable_cache_folder_does_no_harm(compile_ir: Compile, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    total, data = np.zeros(1, np.uint32), np.ones(256, np.uint32)
    library = Library(CodeCache(tmp_path / "file" / "below"))
    with pytest.warns(FlyDSLWarning, match="nothing can be kept"):
        run(library, compile_ir(TOTALS, "gfx942"), Geometry((1, 1, 1), (256, 1, 1)), (data, total))
    assert total[0] == 256


def test_code_that_refers_to_something_else_is_refused() -> None:
    with pytest.raises(CompilerBug, match="outside itself"):
        compiled(
            "declare void @other()\ndefine void @f() {\n  call void @other()\n  ret void\n}", 0
        )


@pytest.mark.parametrize("tier", ["numpy", "jit"])
def test_the_setting_chooses_the_tier(
    compile_ir: Compile, monkeypatch: pytest.MonkeyPatch, tier: str
) -> None:
    used: list[str] = []
    for name, kind in (("numpy", NumpyTier), ("jit", JitTier)):
        plain: Callable[..., LaunchRecord] = kind.run

        def noted(
            *given: Any, name: str = name, plain: Callable[..., LaunchRecord] = plain
        ) -> LaunchRecord:
            used.append(name)
            return plain(*given)

        monkeypatch.setattr(kind, "run", noted)
    loaded = LoadedCode(read_code_object(compile_ir(TOTALS, "gfx942")))
    total, data = np.zeros(1, np.uint32), np.ones(256, np.uint32)
    ranges = [Allocation(x.ctypes.data, x.ctypes.data + x.nbytes, True, "x") for x in (data, total)]
    kernarg = struct.pack("<QQ", data.ctypes.data, total.ctypes.data)
    with scope(FLYDSL_EMU_TIER=tier):
        loaded.kernels["k"].launch(Geometry((1, 1, 1), (256, 1, 1)), kernarg, ranges)
    assert used == [tier]
    assert total[0] == 256


def test_large_launches_are_compiled_by_default(
    compile_ir: Compile, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    used = []
    for name, kind in (("numpy", NumpyTier), ("jit", JitTier)):

        def note(_self: object, launch: Launch, *_rest: object, name: str = name) -> LaunchRecord:
            used.append(name)
            return LaunchRecord(launch.kernel, launch.geometry, launch.program)

        monkeypatch.setattr(kind, "run", note)
    total, data = np.zeros(1, np.uint32), np.ones(256, np.uint32)
    kernarg = struct.pack("<QQ", data.ctypes.data, total.ctypes.data)
    loaded = LoadedCode(read_code_object(compile_ir(TOTALS, "gfx942")))
    with scope(FLYDSL_EMU_TIER="auto", FLYDSL_EMU_CACHE_DIR=tmp_path):
        for groups in (1, 100_000):
            loaded.kernels["k"].launch(Geometry((groups, 1, 1), (256, 1, 1)), kernarg, [])
    assert used == ["numpy", "jit"]


def test_a_file_in_the_place_of_the_cache_is_warned_of(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    image = compiled("define i32 @one() {\n  ret i32 1\n}\n", 0)
    with scope(FLYDSL_EMU_CACHE_DIR=tmp_path / "file"):
        with pytest.warns(FlyDSLWarning, match="FLYDSL_EMU_CACHE_DIR names .* is a file"):
            CodeCache().keep("key", image, {})
        assert not CodeCache().has("key")
        assert CodeCache().load("key") is None
