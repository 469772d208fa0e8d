"""A corpus of kernels with one planted bug each: the sanitizer finds all of them.

Which deleted instructions leave a value undefined that matters is decided without the sanitizer:
nothing before them writes their results, and the mutant, run with different contents of everything
that nothing has set up, either gives different results or faults.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from code_mutants import kernels_of, mutants, patched
from hazard_kernels import KERNELS
from launching import allocations_of, checked, kernarg_of

from flydsl.errors import FlyDSLError
from flydsl_emu.codeobject import Kernel, read_code_object
from flydsl_emu.debug.effects import effects_of
from flydsl_emu.decode import SCC, Instruction, decode
from flydsl_emu.dispatch import LoadedCode
from flydsl_emu.execution import Geometry
from flydsl_emu.execution.setup import initialised_scalars

ARCHS = ("gfx942", "gfx950")
Compile = Callable[[str, str], bytes]
Array = Any

# Kernel: workgroups, the elements of x and y that it uses, its last argument.
SHAPES = {
    "exchange": (2, 512, 512, 0),
    "loop": (1, 1024, 256, 4),
    "scalars": (2, 512, 512, 0),
    "buffers": (1, 4096, 1024, 4096),
    "transfer": (2, 512, 512, 512),
    "lanes": (2, 512, 512, 0),
    "atomics": (2, 512, 512, 0),
    "reduce": (2, 512, 512, 0),
    "halves": (2, 512, 512, 0),
    "narrow": (2, 512, 512, 0),
    "single": (1, 1024, 256, 4),
}


def arguments_of(name: str, short_x: int = 0, short_y: int = 0) -> tuple[int, list[Any]]:
    """Return the grid and fresh arguments, with fewer elements of an array than are used."""
    grid, nx, ny, n = SHAPES[name]
    rng = np.random.default_rng()
    kind = {"scalars": np.int32, "lanes": np.int32, "narrow": np.float16}.get(name, np.float32)
    # One block with gaps of at least 16 KiB, so that no access strays into the other array.
    arena = np.zeros(3 << 14, kind)
    x, y = arena[1 << 13 :][: nx - short_x], arena[2 << 14 :][: ny - short_y]
    x[...] = rng.integers(1, 250, len(x))
    return grid, [x, y, n]


def matrix(compile_ir: Compile) -> list[tuple[str, bytes]]:
    return [(name, compile_ir(text, a)) for name, text in KERNELS.items() for a in ARCHS]


@pytest.fixture(scope="module")
def codes(compile_ir: Compile) -> list[tuple[str, bytes]]:
    return matrix(compile_ir)


def test_unchanged_kernels_have_no_findings(codes: list[tuple[str, bytes]]) -> None:
    for name, code in codes:
        grid, arguments = arguments_of(name)
        assert str(checked(code, arguments, grid=grid)) == "no findings", name


@pytest.mark.parametrize("arch", ["gfx1100", "gfx1151", "gfx1201"])
def test_unchanged_kernels_of_rdna_have_no_findings(compile_ir: Compile, arch: str) -> None:
    for name, text in KERNELS.items():
        if name != "transfer":
            grid, arguments = arguments_of(name)
            report = checked(compile_ir(text, arch), arguments, grid=grid)
            assert str(report) == "no findings", name


# Races -------------------------------------------------------------------------------------------
def test_every_deleted_barrier_is_a_race(codes: list[tuple[str, bytes]]) -> None:
    """In these kernels each barrier orders accesses of different waves."""
    planted = 0
    for name, code in codes:
        (kernel,) = kernels_of(code)
        for mutant in mutants(kernel, lambda i: i.name == "s_barrier"):
            planted += 1
            grid, arguments = arguments_of(name)
            report = checked(
                patched(code, kernel.code, mutant.kernel.code), arguments, grid=grid, checks="race"
            )
            assert [f.code for f in report.findings][:1] == ["FLY-U733"], (name, mutant.index)
            finding = report.findings[0]
            assert finding.other is not None
            assert finding.place.wave != finding.other.wave
            assert finding.place.workgroup == finding.other.workgroup
    assert planted == 20


def test_deleted_waits_of_transfers_into_lds_are_races(codes: list[tuple[str, bytes]]) -> None:
    for name, code in codes:
        if name != "transfer":
            continue
        (kernel,) = kernels_of(code)
        (mutant,) = mutants(kernel, lambda i: str(i) == "s_waitcnt vmcnt(0)")
        grid, arguments = arguments_of(name)
        changed = patched(code, kernel.code, mutant.kernel.code)
        report = checked(changed, arguments, grid=grid, checks="race")
        assert "outstanding" in report.findings[0].message


# Undefined values --------------------------------------------------------------------------------
class Scramble:
    """An observer that puts noise where the set-up puts nothing."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def noise(self, target: Array) -> None:
        top = np.iinfo(target.dtype).max
        target[...] = self.rng.integers(0, top, target.shape, dtype=target.dtype, endpoint=True)

    def batch(self, batch: Any) -> None:
        state = batch.state
        self.noise(state.vector[1:])
        self.noise(state.accumulation)
        known = initialised_scalars(batch.program.kernel)
        for code in (*(c for c in range(102) if c not in known), 106, 107, 124):
            self.noise(state.scalar[code])
        state.scc[...] = self.rng.integers(0, 2, state.scc.shape) > 0
        for local in batch.machine.local.values():
            self.noise(local.data)


def outcome(code: bytes, arguments: list[Any], grid: int, seed: int) -> tuple[bytes, ...] | None:
    """Return what a launch leaves in memory, which is restored; None if it faults."""
    kept = [x.copy() for x in arguments[:2]]
    kernel = LoadedCode(read_code_object(code)).kernels["k"]
    geometry = Geometry((grid, 1, 1), (256, 1, 1))
    try:
        kernel.launch(
            geometry, kernarg_of(arguments), allocations_of(arguments), 10**6, Scramble(seed)
        )
        return tuple(x.tobytes() for x in arguments[:2])
    except FlyDSLError:
        return None
    finally:
        for x, old in zip(arguments[:2], kept, strict=True):
            x[...] = old


def computes(i: Instruction) -> bool:
    """Whether an instruction makes a value (and is not a wait, branch or barrier)."""
    control = ("s_wait", "s_nop", "s_barrier", "s_endpgm", "s_cbranch", "s_branch")
    return not i.name.startswith((*control, "buffer_wbl2", "buffer_inv", "global_store"))


def test_every_undefined_value_that_matters_is_found(codes: list[tuple[str, bytes]]) -> None:
    planted, missed, clean = 0, [], 0
    for name, code in codes:
        (kernel,) = kernels_of(code)
        grid, arguments = arguments_of(name)
        assert outcome(code, arguments, grid, 1) == outcome(code, arguments, grid, 2) is not None
        for mutant in mutants(kernel, computes):
            changed = patched(code, kernel.code, mutant.kernel.code)
            results = {outcome(changed, arguments, grid, seed) for seed in (1, 2)}
            report = checked(changed, [x.copy() for x in arguments[:2]] + arguments[2:], grid=grid)
            found = any(f.code == "FLY-U734" for f in report.findings)
            if len(results) == 1 and None not in results:
                # Nothing undefined decides the result; but it may be in a buffer descriptor.
                clean += 1
                assert not found or name in ("buffers", "transfer"), str(mutant.instruction)
            elif not found and leaves_undefined(kernel, mutant.index):
                missed.append((name, kernel.arch, str(mutant.instruction)))
            planted += found
    assert missed == []
    assert planted > 120
    assert clean > 100


def leaves_undefined(kernel: Kernel, index: int) -> bool:
    """Whether nothing before an instruction gives its results a value."""
    instructions = decode(kernel.arch, kernel.code, 0)
    known = {("s", code) for code in initialised_scalars(kernel)} | {("v", 0)}
    for i in instructions[:index]:
        known |= {(o.kind, o.index + k) for o in effects_of(i).writes for k in range(o.count)}
    # SCC comes along with many results; few instructions read it.
    results = [o for o in effects_of(instructions[index]).writes if (o.kind, o.index) != ("s", SCC)]
    return any((o.kind, o.index + k) not in known for o in results for k in range(o.count))


# Bounds ------------------------------------------------------------------------------------------
def oob(code: bytes, arguments: list[Any], grid: int, change: Any = None) -> list[str]:
    report = checked(code, arguments, grid=grid, checks="oob", change=change)
    return [f.code for f in report.findings]


def test_arrays_one_element_short(codes: list[tuple[str, bytes]]) -> None:
    planted = 0
    for name, code in codes:
        for short_x, short_y in ((1, 0), (0, 1)):
            if short_x == 0 and name == "scalars":
                continue
            grid, arguments = arguments_of(name, short_x, short_y)
            planted += 1
            assert oob(code, arguments, grid) == ["FLY-U735"], (name, short_x, short_y)
    assert planted == 42


def test_offsets_past_the_end(codes: list[tuple[str, bytes]]) -> None:
    """The offset field of each global and LDS access, made as large as it gets."""
    planted = 0
    for name, code in codes:
        (kernel,) = kernels_of(code)
        for i in decode(kernel.arch, kernel.code, 0):
            if i.format == "FLAT2":
                field = 0xFFC
            elif i.format == "DS" and i.name.startswith(("ds_read_b", "ds_write_b", "ds_add")):
                field = 0xFF00
            else:
                continue
            (word,) = struct.unpack_from("<I", kernel.code, i.pc)
            changed = kernel.code[: i.pc] + struct.pack("<I", word | field)
            changed += kernel.code[i.pc + 4 :]
            grid, arguments = arguments_of(name)
            planted += 1
            assert oob(patched(code, kernel.code, changed), arguments, grid) == ["FLY-U735"], str(i)
    assert planted > 60


def test_smaller_group_segment(codes: list[tuple[str, bytes]]) -> None:
    def shrink(code: LoadedCode) -> None:
        loaded = code.kernels["k"]
        # The narrow kernel uses 512 bytes, the others at least 1024; the atomic only four.
        size = {"narrow": 511, "atomics": 3}.get(name, 1023)
        descriptor = replace(loaded.kernel.descriptor, group_segment=size)
        loaded.kernel = replace(loaded.kernel, descriptor=descriptor)

    planted = 0
    for name, code in codes:
        (kernel,) = kernels_of(code)
        if not kernel.descriptor.group_segment:
            continue
        grid, arguments = arguments_of(name)
        planted += 1
        assert oob(code, arguments, grid, shrink) == ["FLY-U735"], name
    assert planted == 14


def test_more_records_than_the_buffer_has(codes: list[tuple[str, bytes]]) -> None:
    """Beyond the tensor is another one, so nothing but the descriptor's base tells."""
    for name, code in codes:
        if name != "buffers":
            continue
        both = np.ones(4096 + 4096, np.float32)
        x, y = both[:4096], both[4096:]
        assert oob(code, [x, y, 4096], 2) == []
        (kernel,) = kernels_of(code)
        records = next(i for i in decode(kernel.arch, kernel.code, 0) if i.name == "s_lshl_b32")
        # The shift amount is the second source, bits 8 to 15: 2 becomes 3.
        changed = bytearray(kernel.code)
        assert changed[records.pc + 1] == 130
        changed[records.pc + 1] = 131
        mutant = patched(code, kernel.code, bytes(changed))
        assert set(oob(mutant, [x, y, 4096], 2)) == {"FLY-U735"}
