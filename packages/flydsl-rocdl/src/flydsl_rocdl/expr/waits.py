"""Waiting for memory: ``s_waitcnt`` and the split counters."""

from __future__ import annotations

from flydsl.errors import TargetError, UserTypeError
from flydsl_rocdl.expr.access import amd_facts, immediate, operation

__all__ = [
    "s_wait_asynccnt",
    "s_wait_dscnt",
    "s_wait_expcnt",
    "s_wait_loadcnt",
    "s_wait_storecnt",
    "s_wait_tensorcnt",
    "s_waitcnt",
]


def s_waitcnt(
    bitfield: int | None = None,
    *,
    vmcnt: int | None = None,
    lgkmcnt: int | None = None,
    expcnt: int | None = None,
) -> None:
    """Wait until at most the given numbers of operations are outstanding.

    Args:
        bitfield: The instruction's raw immediate, instead of the keywords.
        vmcnt: Vector memory operations; None does not wait for them.
        lgkmcnt: LDS, scalar memory and message operations; None does not wait.
        expcnt: Exports; None does not wait.

    Raises:
        UserTypeError: Both forms together, or a value not known at compile time.
        UserValueError: A value out of range; names the limit.
        TargetError: The architecture has only split counters.
    """
    facts = amd_facts("s_waitcnt")
    if facts.waits is None:
        raise TargetError(
            f"{facts.name} has no combined wait instruction",
            code="FLY-T641",
            allowed=", ".join(f"s_wait_{name}" for name in facts.split_counters),
        )
    if bitfield is not None:
        if (vmcnt, lgkmcnt, expcnt) != (None, None, None):
            raise UserTypeError(
                "s_waitcnt takes either the raw immediate or counters", code="FLY-U615"
            )
        field = immediate("the immediate of s_waitcnt", bitfield, 0, 0xFFFF)
    else:
        field = facts.waits.encode(vmcnt, lgkmcnt, expcnt)
    operation("rocdl.s.waitcnt", bitfield=f"{field} : i32")


def _split(counter: str, count: int) -> None:
    name = f"s_wait_{counter}"
    facts = amd_facts(name)
    limit = facts.split_counters.get(counter)
    if limit is None:
        raise TargetError(
            f"{facts.name} has no counter {counter}",
            code="FLY-T641",
            allowed=", ".join(facts.split_counters) or "s_waitcnt",
        )
    number = immediate(name, count, 0, limit)
    operation(f"rocdl.s.wait.{counter}", count=f"{number} : i16")


def s_wait_loadcnt(count: int) -> None:
    """Wait until at most `count` loads are outstanding; `TargetError` without split counters."""
    _split("loadcnt", count)


def s_wait_storecnt(count: int) -> None:
    """Wait until at most `count` stores are outstanding; `TargetError` without split counters."""
    _split("storecnt", count)


def s_wait_dscnt(count: int) -> None:
    """Wait until at most `count` LDS operations are outstanding; `TargetError` elsewhere."""
    _split("dscnt", count)


def s_wait_expcnt(count: int) -> None:
    """Wait until at most `count` exports are outstanding; `TargetError` without split counters."""
    _split("expcnt", count)


def s_wait_asynccnt(count: int) -> None:
    """Wait until at most `count` asynchronous LDS transfers are outstanding."""
    _split("asynccnt", count)


def s_wait_tensorcnt(count: int) -> None:
    """Wait until at most `count` tensor transfers are outstanding."""
    _split("tensorcnt", count)
