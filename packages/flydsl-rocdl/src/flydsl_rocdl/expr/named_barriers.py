"""Named barriers: barriers of some waves of a workgroup (RDNA4 and later).

A wave takes part in one named barrier at a time: it joins, signals and waits. All numbers of waves
are known when compiling.
"""

from __future__ import annotations

from typing import Any

from flydsl.errors import TargetError, UserValueError
from flydsl.expr.ambient import IRValue, Session, require
from flydsl.expr.emit import constant, emit
from flydsl_rocdl.expr.access import amd_facts, effect, immediate

__all__ = ["NamedBarrier"]

_SYMBOL = "__fly_named_barrier_"
_KIND = '!llvm.target<"amdgcn.named.barrier", 0>'
_MOST = 16
_JOINED = 1
"""Immediate of a wait for the barrier that the wave has joined."""


class NamedBarrier:
    """A barrier of `members` waves of the workgroup.

    One wave calls `init`, and all pass the workgroup's barrier, before the members join.

    Args:
        members: Waves that take part.

    Raises:
        UserValueError: No such number of waves.
        TargetError: The architecture has no named barriers.
    """

    __slots__ = ("_pointer", "members")

    def __init__(self, members: int) -> None:
        facts = amd_facts("NamedBarrier")
        if "split-barrier" not in facts.has:
            raise TargetError(f"{facts.name} has no named barriers", code="FLY-T643",
                              allowed="s_barrier")  # fmt: skip
        self.members = immediate("the number of waves", members, 1, 32)
        self._pointer = _allocated(require("NamedBarrier"))

    def init(self) -> None:
        """Set how many waves take part; for one wave to call, once."""
        self._call("init", self.members)

    def join(self) -> None:
        """Make this the wave's barrier."""
        self._call("join")

    def signal(self) -> None:
        """Arrive."""
        self._call("signal.var", 0)

    def wait(self) -> None:
        """Wait until all members have arrived; the wave must have joined."""
        session = require("NamedBarrier.wait")
        effect("amdgcn.s.barrier.wait", (constant(session, "i16", _JOINED),))

    def leave(self) -> None:
        """Stop taking part: the barrier has one member less."""
        session = require("NamedBarrier.leave")
        effect("amdgcn.s.barrier.leave", (constant(session, "i16", _JOINED),))

    def _call(self, name: str, *counts: int) -> None:
        session = require(f"NamedBarrier.{name}")
        operands = [self._pointer, *(constant(session, "i32", n) for n in counts)]
        effect(f"amdgcn.s.barrier.{name}", operands)


def _allocated(session: Session) -> IRValue:
    """Return a pointer to a new barrier, a global of the kernel's module."""
    ir = session.ir
    kernel = session.kernel
    assert kernel is not None
    function = kernel.entry.owner
    module = function.operation.parent
    block = module.regions[0].blocks[0]
    taken = [op for op in block.operations if op.operation.name == "llvm.mlir.global"
             and _SYMBOL in str(op.attributes["sym_name"])]  # fmt: skip
    if len(taken) >= _MOST:
        raise UserValueError("a workgroup has up to 16 named barriers", code="FLY-U613",
                             value=len(taken) + 1)  # fmt: skip
    symbol = f"{_SYMBOL}{len(taken)}"
    parsed: dict[str, Any] = {
        "sym_name": f'"{symbol}"', "global_type": _KIND, "linkage": "#llvm.linkage<internal>",
        "addr_space": "3 : i32", "visibility_": "0 : i64", "unnamed_addr": "0 : i64",
    }  # fmt: skip
    attributes = {name: ir.Attribute.parse(text) for name, text in parsed.items()}
    here = session.locations.here()
    point = ir.InsertionPoint.at_block_begin(block)
    session.create("llvm.mlir.global", (), (), attributes, None, 1, here, point)
    where = {"global_name": ir.FlatSymbolRefAttr.get(symbol)}
    return emit("llvm.mlir.addressof", ir.Type.parse("!llvm.ptr<3>"), (), where)
