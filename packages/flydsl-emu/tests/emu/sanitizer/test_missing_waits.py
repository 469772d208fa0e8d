"""Missing waits and wait states: nothing is reported of what LLVM compiles, everything when a wait
or nop is taken out."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise

import pytest
from code_mutants import NOP, kernels_of, mutants
from hazard_kernels import BRANCHES, CHAIN, FLAGS, KERNELS, MATRIX, matrix_kernel

from flydsl_emu import check_code_object
from flydsl_emu.codeobject import Kernel
from flydsl_emu.decode import Instruction, decode
from flydsl_emu.sanitizer import check_kernel
from flydsl_emu.sanitizer.flow import FlowBlock, blocks_of, without_empty_masks
from flydsl_emu.sanitizer.registers import effects
from flydsl_emu.sanitizer.spacing import missing_wait_states

ARCHS = ("gfx942", "gfx950")
USES = ("vector", "store", "source", "sum", "inputs")
Compile = Callable[[str, str], bytes]


@pytest.fixture(scope="module")
def memory_kernels(compile_ir: Compile) -> list[Kernel]:
    return [k for t in KERNELS.values() for arch in ARCHS for k in kernels_of(compile_ir(t, arch))]


@pytest.fixture(scope="module")
def matrix_kernels(compile_ir: Compile) -> list[Kernel]:
    return [
        kernel
        for name, (_, _, archs) in MATRIX.items()
        for use in USES
        for arch in archs
        for kernel in kernels_of(compile_ir(matrix_kernel(name, use), arch))
    ]


def test_compiled_kernels_have_no_findings(
    memory_kernels: list[Kernel], matrix_kernels: list[Kernel]
) -> None:
    assert len(memory_kernels) == 22
    assert len(matrix_kernels) > 170
    for kernel in (*memory_kernels, *matrix_kernels):
        assert check_kernel(kernel) == []


@pytest.mark.parametrize("arch", [*ARCHS, "gfx1100", "gfx1201"])
def test_flags_between_workgroups(compile_ir: Compile, arch: str) -> None:
    (kernel,) = kernels_of(compile_ir(FLAGS, arch))
    assert check_kernel(kernel) == []
    instructions = decode(kernel.arch, kernel.code, 0)
    at = next(n for n, i in enumerate(instructions) if i.name.endswith("_inv"))
    wait = next(i for i in reversed(instructions[:at]) if i.name.startswith("s_wait"))
    (mutant,) = mutants(kernel, lambda i: i.pc == wait.pc)
    assert any("empties caches" in f.message for f in check_kernel(mutant.kernel))


def test_every_deleted_wait_is_found(
    memory_kernels: list[Kernel], matrix_kernels: list[Kernel]
) -> None:
    planted, missed = 0, []
    for kernel in (*memory_kernels, *matrix_kernels[::3]):
        for mutant in mutants(kernel, lambda i: i.name == "s_waitcnt"):
            planted += 1
            found = check_kernel(mutant.kernel)
            if not any(f.code == "FLY-U731" for f in found):
                missed.append((kernel.arch, str(mutant.instruction), mutant.instruction.pc))
    assert planted > 150
    assert missed == []


def _weaker(kernel: Kernel, i: Instruction) -> Kernel:
    states = i.mods["simm16"]
    word = struct.pack("<I", NOP + states - 1)
    return replace(kernel, code=kernel.code[: i.pc] + word + kernel.code[i.pc + 4 :])


def test_wait_states_are_exact(matrix_kernels: list[Kernel]) -> None:
    """One state less than LLVM inserts is a finding.

    Exempt: LLVM keeps the f64 products' rule for VALU results in memory accesses also where the
    product does not come between the two.
    """
    planted, missed = 0, []
    for kernel in matrix_kernels:
        instructions = decode(kernel.arch, kernel.code, 0)
        for before, i in pairwise(instructions):
            if i.name != "s_nop" or not i.mods["simm16"]:
                continue
            planted += 1
            found = check_kernel(_weaker(kernel, i))
            if not any(f.code == "FLY-U732" for f in found):
                missed.append(before.name)
    assert planted > 250
    assert missed in ([], ["v_add_f64"] * len(missed))
    assert len(missed) <= 2


def _flow(kernel: Kernel) -> tuple[list[FlowBlock], list[FlowBlock]]:
    """Return the blocks with all branches, and with those that some wave takes."""
    instructions = decode(kernel.arch, kernel.code, 0)
    registers = [effects(i, kernel.wave_size) for i in instructions]
    blocks = blocks_of(instructions)
    return blocks, without_empty_masks(instructions, registers, blocks, kernel.wave_size)


@pytest.mark.parametrize("arch", ARCHS)
def test_no_wave_takes_a_branch_that_needs_an_empty_mask(compile_ir: Compile, arch: str) -> None:
    (kernel,) = kernels_of(compile_ir(CHAIN, arch))
    instructions = decode(kernel.arch, kernel.code, 0)
    registers = [effects(i) for i in instructions]
    blocks, taken = _flow(kernel)
    pruned = [
        instructions[old.last - 1].name
        for old, new in zip(blocks, taken, strict=True)
        if new.successors and old.successors != new.successors
    ]
    assert pruned
    assert set(pruned) <= {"s_cbranch_execz", "s_cbranch_execnz"}
    # On such a path the distance is too short; no wave takes it.
    assert missing_wait_states(arch, instructions, registers, blocks)
    assert check_kernel(kernel) == []


@pytest.mark.parametrize("arch", [*ARCHS, "gfx1100", "gfx1201"])
def test_divergent_branches_may_be_empty(compile_ir: Compile, arch: str) -> None:
    names = set()
    for name in ("scalars", "reduce"):
        (kernel,) = kernels_of(compile_ir(KERNELS[name], arch))
        blocks, taken = _flow(kernel)
        assert blocks == taken
        names |= {i.name for i in decode(kernel.arch, kernel.code, 0)}
    assert "s_cbranch_execz" in names


@pytest.mark.parametrize("arch", ARCHS)
def test_a_use_right_behind_a_branch(compile_ir: Compile, arch: str) -> None:
    """LLVM 22.1 sees only the longer of two paths from the product to the store."""
    (kernel,) = kernels_of(compile_ir(BRANCHES, arch))
    (finding,) = check_kernel(kernel)
    assert finding.code == "FLY-U732"
    assert finding.place.instruction.startswith("global_store_dwordx4")
    assert finding.other is not None
    assert finding.other.instruction.startswith("v_mfma_f32_16x16x16")


def _needs_memory(kernel: Kernel) -> list[Instruction]:
    """Return the waits after which the next use of a register is of a load that they cover."""
    instructions = decode(kernel.arch, kernel.code, 0)
    out = []
    for n, i in enumerate(instructions[:-1]):
        loaded = [
            r
            for load in instructions[max(0, n - 6) : n]
            if load.name.startswith(("global_load", "s_load", "ds_read", "buffer_load"))
            for r in effects(load).defs
        ]
        if i.name == "s_waitcnt" and set(effects(instructions[n + 1]).uses) & set(loaded):
            out.append(i)
    return out


def test_direct_uses_are_all_found(memory_kernels: list[Kernel]) -> None:
    """A use right after the wait for its load, LDS read or scalar load."""
    kinds = set()
    for kernel in memory_kernels:
        for wait in _needs_memory(kernel):
            (mutant,) = mutants(kernel, lambda i, at=wait.pc: i.pc == at)
            following = decode(kernel.arch, kernel.code, 0)[mutant.index + 1]
            found = [f for f in check_kernel(mutant.kernel) if f.place.pc == following.pc]
            assert found
            assert found[0].other is not None
            kinds.add(found[0].other.instruction.split("_")[0])
    assert kinds >= {"global", "s", "ds"}


def test_a_finding_names_both_sides_and_the_wait(compile_ir: Compile) -> None:
    (kernel,) = kernels_of(compile_ir(KERNELS["exchange"], "gfx942"))
    (mutant, *_) = mutants(kernel, lambda i: "vmcnt" in str(i))
    finding = check_kernel(mutant.kernel)[0]
    assert finding.code == "FLY-U731"
    assert finding.check == "wait"
    assert finding.place.instruction.startswith("ds_write_b32")
    assert finding.other is not None
    assert finding.other.instruction.startswith("global_load_dword")
    assert "vmcnt(0)" in finding.hint
    assert finding.place.source is None


def test_barrier_with_outstanding_lds_writes(compile_ir: Compile) -> None:
    (kernel,) = kernels_of(compile_ir(KERNELS["exchange"], "gfx950"))
    instructions = decode(kernel.arch, kernel.code, 0)
    at = next(n for n, i in enumerate(instructions) if i.name == "s_barrier")
    before = next(i for i in reversed(instructions[:at]) if i.name == "s_waitcnt")
    (mutant,) = mutants(kernel, lambda i: i.pc == before.pc)
    messages = [f.message for f in check_kernel(mutant.kernel)]
    assert any("barrier while writes to LDS" in m for m in messages)


def test_code_object_api_reads_every_kernel(compile_ir: Compile) -> None:
    code = compile_ir(KERNELS["loop"], "gfx942")
    assert not check_code_object(code)
    (kernel,) = kernels_of(code)
    for n, mutant in enumerate(mutants(kernel, lambda i: i.name == "s_waitcnt")):
        changed = code.replace(kernel.code, mutant.kernel.code)
        report = check_code_object(changed)
        assert report, n
        assert report.to_json().startswith('[{"check": "wait", "code": "FLY-U731"')
