"""Waiting for memory: ``s_waitcnt`` and the split counters."""

from __future__ import annotations

from flydsl.errors import TargetError, UserTypeError
from flydsl.expr.ambient import require
from flydsl.expr.emit import constant
from flydsl_rocdl.expr.access import amd_facts, effect, immediate, operation

__all__ = [
    "asyncmark",
    "s_wait_asynccnt",
    "s_wait_bvhcnt",
    "s_wait_dscnt",
    "s_wait_expcnt",
    "s_wait_kmcnt",
    "s_wait_loadcnt",
    "s_wait_samplecnt",
    "s_wait_storecnt",
    "s_wait_tensorcnt",
    "s_waitcnt",
    "wait_asyncmark",
]

_MERGED = (("vmcnt", ("loadcnt",)), ("lgkmcnt", ("dscnt", "kmcnt")), ("expcnt", ("expcnt",)))
"""Split counters that stand for each combined one."""
_INTRINSICS = frozenset({"kmcnt", "samplecnt", "bvhcnt"})
"""Counters whose waits are no operations of the ROCDL dialect."""
_INTO_LDS = frozenset({"asynccnt", "tensorcnt"})
"""Counters of transfers that write LDS without registers."""


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
        TargetError: The raw form where only split counters exist. The keywords wait there for the
            loads, for LDS and scalar memory, and for the exports.
    """
    facts = amd_facts("s_waitcnt")
    if facts.waits is None and bitfield is None:
        given = {"vmcnt": vmcnt, "lgkmcnt": lgkmcnt, "expcnt": expcnt}
        for name, merged in _MERGED:
            count = given[name]
            counters = [c for c in merged if c in facts.split_counters]
            if count is not None and counters:
                highest = max(facts.split_counters[counter] for counter in counters)
                number = immediate(name, count, 0, highest)
                for counter in counters:
                    _split(counter, min(number, facts.split_counters[counter]))
        return
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
    if counter in _INTRINSICS:
        session = require(name)
        effect(f"amdgcn.s.wait.{counter}", (constant(session, "i16", number),))
        return
    operation(f"rocdl.s.wait.{counter}", count=f"{number} : i16")
    if counter in _INTO_LDS:
        # No instruction; the compiler must not have read before what arrives now.
        operation("llvm.fence", ordering="4 : i64", syncscope='"wavefront"')


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


def s_wait_kmcnt(count: int) -> None:
    """Wait until at most `count` scalar loads and messages are outstanding."""
    _split("kmcnt", count)


def s_wait_samplecnt(count: int) -> None:
    """Wait until at most `count` texture samples are outstanding."""
    _split("samplecnt", count)


def s_wait_bvhcnt(count: int) -> None:
    """Wait until at most `count` ray intersections are outstanding."""
    _split("bvhcnt", count)


def asyncmark() -> None:
    """End a group of loads into LDS (`BufferCopyLDS`, `GlobalLoadAsyncLDS`)."""
    amd_facts("asyncmark")
    effect("amdgcn.asyncmark", ())


def wait_asyncmark(count: int = 0) -> None:
    """Wait until at most the newest `count` groups of loads into LDS are outstanding.

    The number of operations to wait for is counted when compiling, from program order on every path
    to this place, so it needs no numbers by hand.

    Args:
        count: Groups, 0 to 63, known when compiling.

    Raises:
        UserError: Not a constant, or out of range.
        TargetError: When compiling: the architecture has no such loads.
    """
    amd_facts("wait_asyncmark")
    groups = immediate("the number of groups", count, 0, 63)
    effect("amdgcn.wait.asyncmark", (), {"fly_groups": f"{groups} : i32"})
