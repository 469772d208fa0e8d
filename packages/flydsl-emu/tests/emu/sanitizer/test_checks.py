"""Where the run-time checks draw the line, one small kernel each."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from code_mutants import kernels_of, patched
from hazard_kernels import FENCED, KERNELS, LDS, kernel
from launching import checked

from flydsl_emu.decode import decode

ARCHS = ("gfx942", "gfx950")
Compile = Callable[[str, str], bytes]
Array = Any


def codes(report: Any) -> list[str]:
    return [f.code for f in report.findings]


def arrays(elements: int = 1024, kind: Any = np.float32) -> list[Any]:
    x = np.random.default_rng().integers(1, 100, elements).astype(kind)
    return [x, np.zeros_like(x)]


@pytest.fixture(params=ARCHS)
def build(request: pytest.FixtureRequest, compile_ir: Compile) -> Callable[..., bytes]:
    return lambda body, globals_="": compile_ir(kernel(body, globals_), request.param)


# Races -------------------------------------------------------------------------------------------
SAME_VALUE = """
  %wave = lshr i32 %t, 6
  %v = VALUE
  store i32 %v, ptr addrspace(3) @tile
  FENCE
  %w = load i32, ptr addrspace(3) @tile
  store i32 %w, ptr addrspace(1) %yp
  ret void
"""


@pytest.mark.parametrize(
    ("value", "expected"), [("add i32 7, 0", []), ("add i32 %wave, 7", ["FLY-U733"])]
)
def test_writes_of_one_value_do_not_race(
    build: Callable[..., bytes], value: str, expected: list[str]
) -> None:
    code = build(SAME_VALUE.replace("VALUE", value).replace("FENCE", FENCED), LDS)
    assert codes(checked(code, [*arrays(), 0], grid=3)) == expected


COUNT = """
  store i32 0, ptr addrspace(3) @tile
  FENCE
  %a = atomicrmw add ptr addrspace(3) @tile, i32 1 syncscope("workgroup") monotonic
  %b = atomicrmw add ptr addrspace(3) @tile, i32 2 syncscope("workgroup") monotonic
  BETWEEN
  %w = load i32, ptr addrspace(3) @tile
  %s = add i32 %a, %b
  %r = add i32 %s, %w
  store i32 %r, ptr addrspace(1) %yp
  ret void
"""


@pytest.mark.parametrize(("between", "expected"), [(FENCED, []), ("", ["FLY-U733"])])
def test_atomics_race_with_plain_accesses_only(
    build: Callable[..., bytes], between: str, expected: list[str]
) -> None:
    code = build(COUNT.replace("FENCE", FENCED).replace("BETWEEN", between), LDS)
    assert codes(checked(code, [*arrays(), 0], grid=2)) == expected


# Loads into LDS, two stages in flight: while one half is read, the next one is on its way.
PIPELINE = f"""
  %wide = zext i32 4096 to i64
  %rx = call ptr addrspace(8) @llvm.amdgcn.make.buffer.rsrc.p8.p1(ptr addrspace(1) %x, i16 0, i64 %wide, i32 159744)
  %wave = lshr i32 %t, 6
  %uniform = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %wave)
  %start = mul i32 %uniform, 64
  %to0 = getelementptr float, ptr addrspace(3) @tile, i32 %start
  %to1 = getelementptr float, ptr addrspace(3) %to0, i32 256
  %byte = mul i32 %t, 4
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rx, ptr addrspace(3) %to0, i32 4, i32 %byte, i32 0, i32 0, i32 0)
  call void @llvm.amdgcn.raw.ptr.buffer.load.lds(ptr addrspace(8) %rx, ptr addrspace(3) %to1, i32 4, i32 %byte, i32 1024, i32 0, i32 0)
  call void @llvm.amdgcn.s.waitcnt(i32 3952)
  call void @llvm.amdgcn.s.barrier()
  %mirror = sub i32 255, %t
  %far = getelementptr float, ptr addrspace(3) @tile, i32 %mirror
  %w = load volatile float, ptr addrspace(3) %far
  call void @llvm.amdgcn.s.waitcnt(i32 3952)
  {FENCED}
  %next = getelementptr float, ptr addrspace(3) %far, i32 256
  %w2 = load float, ptr addrspace(3) %next
  %r = fadd float %w, %w2
  store float %r, ptr addrspace(1) %yp
  ret void
"""  # noqa: E501


@pytest.mark.parametrize(("left", "race"), [(1, False), (2, True)])
def test_partial_waits_for_loads_into_lds(
    build: Callable[..., bytes], left: int, race: bool
) -> None:
    """One transfer may be outstanding when the older one is read, two may not."""
    code = build(PIPELINE, LDS)
    (kernel_,) = kernels_of(code)
    instructions = decode(kernel_.arch, kernel_.code, 0)
    barrier = next(i.pc for i in instructions if i.name == "s_barrier")
    load = next(i.pc for i in reversed(instructions) if i.mods.get("lds"))
    between = [i.pc for i in instructions if i.name == "s_waitcnt" and load < i.pc < barrier]
    # LLVM waits for all transfers before it reads LDS; a hand-written kernel does not.
    text = bytearray(kernel_.code)
    for pc in between:
        text[pc : pc + 4] = struct.pack("<I", 0xBF8C0F70 | left)
    assert between
    report = checked(patched(code, kernel_.code, bytes(text)), [*arrays(), 0], checks="race")
    assert codes(report) == (["FLY-U733"] if race else [])


# Undefined values --------------------------------------------------------------------------------
UNDEFINED = """
  %slot = getelementptr i32, ptr addrspace(3) @tile, i32 %t
  %first = icmp ult i32 %t, 128
  br i1 %first, label %fill, label %read
fill:
  store i32 %t, ptr addrspace(3) %slot
  br label %read
read:
  FENCE
  %u = load i32, ptr addrspace(3) %slot
  USE
  store i32 %r, ptr addrspace(1) %yp
  ret void
"""
LANE = "%l = and i32 %t, 63\n  %b = mul i32 %l, 4\n"
FILLED = f"""{LANE}
  %p = getelementptr i32, ptr addrspace(3) @tile, i32 %l
  %d = load i32, ptr addrspace(3) %p
  %r = call i32 @llvm.amdgcn.ds.bpermute(i32 %b, i32 %d)
"""
USES = {
    "stored": ("%r = add i32 %u, 1", True),
    "not chosen": ("%r = select i1 %first, i32 %u, i32 5", False),
    "masked away": ("%m = and i32 %u, 0\n  %r = add i32 %m, %t", False),
    "low bits kept": ("%r = and i32 %u, 255", True),
    "high bits set": ("%r = or i32 %u, -1", False),
    "compared": (
        "%c = icmp sgt i32 %u, 3\n  %r = select i1 %c, i32 1, i32 2",
        True,
    ),
    "read from a filled lane": (FILLED, False),
    "permuted": (f"{LANE}  %r = call i32 @llvm.amdgcn.ds.bpermute(i32 %b, i32 %u)", True),
}


@pytest.mark.parametrize("use", USES)
def test_undefined_bits_are_followed(build: Callable[..., bytes], use: str) -> None:
    text, found = USES[use]
    code = build(UNDEFINED.replace("FENCE", FENCED).replace("USE", text), LDS)
    report = checked(code, [*arrays(256, np.int32), 0])
    assert codes(report) == (["FLY-U734"] if found else [])
    if found:
        # Threads from 128 on are waves 2 and 3.
        assert report.findings[0].place.wave == 2
        assert report.findings[0].place.lane == 0


BRANCH = """
  %some = icmp sgt i32 %n, 0
  br i1 %some, label %fill, label %read
fill:
  store i32 %n, ptr addrspace(3) @tile
  br label %read
read:
  %u = load i32, ptr addrspace(3) @tile
  %s = call i32 @llvm.amdgcn.readfirstlane.i32(i32 %u)
  %c = icmp eq i32 %s, 3
  br i1 %c, label %then, label %done
then:
  store float 1.0, ptr addrspace(1) %yp
  br label %done
done:
  ret void
"""


def test_undefined_branch(build: Callable[..., bytes]) -> None:
    code = build(BRANCH, LDS)
    assert codes(checked(code, [*arrays(), 3], checks="init")) == []
    report = checked(code, [*arrays(), 0], checks="init")
    assert codes(report) == ["FLY-U734"]
    assert "decides a branch" in report.findings[0].message


PRIVATE = """
  %a = alloca [8 x i32], addrspace(5)
  %k = and i32 %t, 3
  %p = getelementptr [8 x i32], ptr addrspace(5) %a, i32 0, i32 %k
  store volatile i32 %t, ptr addrspace(5) %p
  %q = getelementptr i32, ptr addrspace(5) %p, i32 OFFSET
  %v = load volatile i32, ptr addrspace(5) %q
  store i32 %v, ptr addrspace(1) %yp
  ret void
"""


@pytest.mark.parametrize(("offset", "found"), [("0", False), ("1", True)])
def test_scratch(build: Callable[..., bytes], offset: str, found: bool) -> None:
    report = checked(build(PRIVATE.replace("OFFSET", offset)), [*arrays(256, np.int32), 0])
    assert codes(report) == (["FLY-U734"] if found else [])


# Bounds ------------------------------------------------------------------------------------------
UNIFORM = """
  %v = load float, ptr addrspace(1) %xp
  %neighbour = add i32 %t, %n
  %byte = shl nuw i32 %neighbour, 2
  %n64 = zext i32 %byte to i64
  %p = getelementptr i8, ptr addrspace(1) %y, i64 %n64
  store float %v, ptr addrspace(1) %p
  ret void
"""


@pytest.mark.parametrize(("shift", "expected"), [(0, []), (1, ["FLY-U735"])])
def test_slices_of_one_array(build: Callable[..., bytes], shift: int, expected: list[str]) -> None:
    both = np.ones(512, np.float32)
    report = checked(build(UNIFORM), [both[256:], both[:256], shift], checks="oob")
    assert codes(report) == expected
    if expected:
        finding = report.findings[0]
        assert "argument 1, 0 bytes past its end" in finding.message
        assert (finding.place.wave, finding.place.lane) == (3, 63)
        assert both[256] == 1.0


# Lanes -------------------------------------------------------------------------------------------
def test_scalar_from_a_wave_without_lanes(build: Callable[..., bytes], compile_ir: Compile) -> None:
    for arch in ARCHS:
        code = compile_ir(KERNELS["lanes"], arch)
        (kernel_,) = kernels_of(code)
        instructions = decode(kernel_.arch, kernel_.code, 0)
        at = next(n for n, i in enumerate(instructions) if i.name == "v_readfirstlane_b32")
        before = instructions[at - 1]
        # s_mov_b64 exec, 0
        text = kernel_.code[: before.pc] + struct.pack("<I", 0xBEFE0180)
        text += struct.pack("<I", 0xBF800000) * (before.size // 4 - 1)
        text += kernel_.code[before.pc + before.size :]
        arguments = [*arrays(512, np.int32), 0]
        assert checked(code, arguments, checks="barrier", grid=2).findings == []
        report = checked(patched(code, kernel_.code, text), arguments, checks="barrier", grid=2)
        assert codes(report) == ["FLY-U737"]
