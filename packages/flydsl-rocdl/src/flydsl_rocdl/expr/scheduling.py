"""Directions to the instruction scheduler, priorities and barriers."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from flydsl.errors import TargetError, UserValueError
from flydsl.expr.ambient import require
from flydsl.expr.emit import constant
from flydsl.expr.numeric import Boolean, Int32
from flydsl_rocdl.expr.access import amd_facts, immediate, intrinsic, operation
from flydsl_rocdl.expr.waits import s_wait_dscnt, s_waitcnt

__all__ = [
    "SCHED_MASKS",
    "iglp_opt",
    "lds_barrier",
    "s_barrier",
    "s_barrier_leave",
    "s_barrier_signal",
    "s_barrier_signal_isfirst",
    "s_barrier_wait",
    "s_get_barrier_state",
    "s_nop",
    "s_setprio",
    "s_sleep",
    "sched_barrier",
    "sched_dsrd",
    "sched_dswr",
    "sched_group_barrier",
    "sched_mfma",
    "sched_vmem",
    "wave_barrier",
]

SCHED_MASKS: Mapping[str, int] = MappingProxyType(
    {
        "none": 0,
        "non-mem-non-side-effect": 0x1,
        "valu": 0x2,
        "salu": 0x4,
        "mfma": 0x8,
        "wmma": 0x8,
        "vmem": 0x10,
        "vmem-read": 0x20,
        "vmem-write": 0x40,
        "ds": 0x80,
        "ds-read": 0x100,
        "ds-write": 0x200,
        "transcendental": 0x400,
        "lds-dma": 0x800,
    }
)
"""Instruction classes of scheduling masks; values from LLVM's AMDGPU user guide."""

_EVERY_CLASS = 0xFFF


def _mask(what: str, masks: tuple[int | str, ...]) -> int:
    out = 0
    for mask in masks:
        if isinstance(mask, str):
            if mask.lower() not in SCHED_MASKS:
                raise UserValueError(
                    f"{what} does not know the instruction class {mask!r}",
                    code="FLY-U616", value=mask, allowed=", ".join(SCHED_MASKS),
                )  # fmt: skip
            out |= SCHED_MASKS[mask.lower()]
        else:
            out |= immediate(f"the mask of {what}", mask, 0, _EVERY_CLASS)
    return out


def sched_barrier(*masks: int | str) -> None:
    """Keep the scheduler from moving instructions across, except the classes of `masks`.

    Raises:
        UserValueError: An unknown class or bit.
        UserTypeError: A mask that is not known at compile time.
    """
    amd_facts("sched_barrier")
    operation("rocdl.sched.barrier", mask=f"{_mask('sched_barrier', masks)} : i32")


def sched_group_barrier(mask: int | str, size: int, group: int) -> None:
    """Ask for a group of `size` instructions of the classes `mask` at this place of the schedule.

    Args:
        mask: Instruction classes (`SCHED_MASKS` names or bits).
        size: Number of instructions.
        group: Sequence number; groups with equal numbers keep their order.
    """
    amd_facts("sched_group_barrier")
    operation(
        "rocdl.sched.group.barrier",
        mask=f"{_mask('sched_group_barrier', (mask,))} : i32",
        size=f"{immediate('size', size, 0, 2**31 - 1)} : i32",
        groupId=f"{immediate('group', group, 0, 2**31 - 1)} : i32",
    )


def sched_mfma(count: int) -> None:
    """Schedule `count` matrix instructions here."""
    sched_group_barrier(0x8, count, 0)


def sched_vmem(count: int) -> None:
    """Schedule `count` vector memory reads here."""
    sched_group_barrier(0x20, count, 0)


def sched_dsrd(count: int) -> None:
    """Schedule `count` LDS reads here."""
    sched_group_barrier(0x100, count, 0)


def sched_dswr(count: int) -> None:
    """Schedule `count` LDS writes here."""
    sched_group_barrier(0x200, count, 0)


def iglp_opt(variant: int) -> None:
    """Apply LLVM's instruction-group strategy `variant` (0 to 3) to this block."""
    amd_facts("iglp_opt")
    operation("rocdl.iglp.opt", variant=f"{immediate('variant', variant, 0, 3)} : i32")


def s_setprio(priority: int) -> None:
    """Set this wave's priority, 0 to 3."""
    amd_facts("s_setprio")
    operation("rocdl.s.setprio", priority=f"{immediate('priority', priority, 0, 3)} : i16")


def s_nop(cycles: int) -> None:
    """Do nothing for `cycles` + 1 cycles, 0 to 15."""
    amd_facts("s_nop")
    operation("rocdl.s.nop", count=f"{immediate('cycles', cycles, 0, 15)} : i16")


def s_sleep(units: int) -> None:
    """Sleep about 64 * `units` clocks, 0 to 127."""
    amd_facts("s_sleep")
    operation("rocdl.s.sleep", count=f"{immediate('units', units, 0, 127)} : i32")


def s_barrier() -> None:
    """Wait for all waves of the workgroup, without any memory ordering."""
    amd_facts("s_barrier")
    operation("rocdl.s.barrier")


def _split_barrier(what: str) -> None:
    facts = amd_facts(what)
    if "split-barrier" not in facts.has:
        raise TargetError(f"{facts.name} has no split barriers", code="FLY-T643",
                          allowed="s_barrier")  # fmt: skip


def s_barrier_signal(barrier: int) -> None:
    """Arrive at a barrier: -1 the workgroup's, -3 the cluster's, 1 to 16 a named one.

    Raises:
        TargetError: The architecture has no split barriers.
    """
    _split_barrier("s_barrier_signal")
    number = immediate("the barrier", barrier, -4, 16)
    operation("rocdl.s.barrier.signal", id=f"{number} : i32")


def s_barrier_wait(barrier: int) -> None:
    """Wait until all members have arrived at a barrier; see `s_barrier_signal`."""
    _split_barrier("s_barrier_wait")
    number = immediate("the barrier", barrier, -4, 16)
    operation("rocdl.s.barrier.wait", id=f"{number} : i16")


def s_barrier_leave() -> None:
    """Leave the named barrier that this wave joined."""
    _split_barrier("s_barrier_leave")
    operation("rocdl.s.barrier.leave", id="0 : i16")


def s_barrier_signal_isfirst(barrier: int) -> Boolean:
    """Arrive at a barrier and return whether this wave was the first."""
    _split_barrier("s_barrier_signal_isfirst")
    session = require("s_barrier_signal_isfirst")
    number = constant(session, "i32", immediate("the barrier", barrier, -4, 16))
    return Boolean.wrap(intrinsic("amdgcn.s.barrier.signal.isfirst", Boolean.ir_type, (number,)))


def s_get_barrier_state(barrier: int) -> Int32:
    """Return a barrier's state word: members in bits 22:16, arrivals in bits 6:0."""
    _split_barrier("s_get_barrier_state")
    session = require("s_get_barrier_state")
    number = constant(session, "i32", immediate("the barrier", barrier, -4, 16))
    return Int32.wrap(intrinsic("amdgcn.s.get.barrier.state", Int32.ir_type, (number,)))


def lds_barrier() -> None:
    """Wait for all waves of the workgroup and order their accesses of LDS, and of nothing else.

    Unlike `fx.barrier`, loads and stores of global memory, and loads into LDS, stay on their way:
    use it inside pipelines, after `wait_asyncmark`, and where a stage of LDS is free again.
    """
    facts = amd_facts("lds_barrier")
    # A wavefront's fence is no instruction; it keeps the compiler from moving accesses across.
    for ordering in (5, 4):
        operation("llvm.fence", ordering=f"{ordering} : i64", syncscope='"wavefront"')
        if ordering == 5:
            if "dscnt" in facts.split_counters:
                s_wait_dscnt(0)
            else:
                s_waitcnt(lgkmcnt=0)
            s_barrier()


def wave_barrier() -> None:
    """Keep the compiler from moving instructions of one wave across; no instruction results."""
    amd_facts("wave_barrier")
    operation(
        "llvm.call_intrinsic",
        intrin='"llvm.amdgcn.wave.barrier"',
        fastmathFlags="#llvm.fastmath<none>",
        op_bundle_sizes="array<i32>",
        operandSegmentSizes="array<i32: 0, 0>",
    )
