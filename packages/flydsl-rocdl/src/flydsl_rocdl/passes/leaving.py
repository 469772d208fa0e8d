"""Values that lanes take out of a loop in different iterations, kept in vector registers.

A value that is the same in all lanes lives in a scalar register, which goes on changing for the
lanes that stay in a loop. What a lane takes out of the loop must therefore be copied to a vector
register inside it. LLVM 22.1 makes the copy, but may then fold its scalar source into a use after
the loop (fixed later, llvm/llvm-project#203256). The copy made here is an instruction that it
cannot look through: a DPP move that permutes nothing.

It is made only where it can matter: for results of ``scf.while`` that are used, where lanes may
leave the loop at different times, and whose value may come from a scalar register.
"""

from __future__ import annotations

from typing import Any

from flydsl_rocdl.passes.builder import Builder, Value
from flydsl_rocdl.passes.lowering import Lowering

__all__ = ["keep"]

_SAME = frozenset(
    {
        "arith.constant", "gpu.block_id", "gpu.block_dim", "gpu.grid_dim", "gpu.cluster_id",
        "rocdl.readfirstlane", "rocdl.readlane", "ub.poison", "llvm.mlir.constant",
        "llvm.mlir.poison", "fly.alloca", "fly.get_dyn_shared",
    }
)  # fmt: skip
"""Operations whose result is the same in all lanes whatever their operands are."""
_CONSTANT = frozenset({"arith.constant", "ub.poison", "llvm.mlir.constant", "llvm.mlir.poison"})
_BITS = {"i1": 1, "i8": 8, "i16": 16, "i32": 32, "i64": 64, "f16": 16, "bf16": 16, "f32": 32,
         "f64": 64}  # fmt: skip
_ADDRESSES = {"global": "i64", "generic": "i64", "shared": "i32"}
"""Integer types of the addresses that can be copied."""
_ALL_LANES = 0xF
_UNPERMUTED = 0xE4
"""``quad_perm:[0,1,2,3]``."""


def keep(low: Lowering, function: Any) -> None:
    """Copy what lanes take out of loops, where the loops of `function` need it."""
    found: list[Any] = []
    advance = low.b.ir.WalkResult.ADVANCE

    def collect(op: Any) -> Any:
        if op.name == "scf.while":
            found.append(op)
        return advance

    function.walk(collect)
    flow = _Flow(low.b.ir)
    for loop in found:
        used = [i for i, result in enumerate(loop.results) if next(iter(result.uses), None)]
        end = _terminator(loop, 0)
        if not used or not flow.differs(end.operands[0]):
            continue
        low.b.at(end)
        for index in used:
            value = end.operands[index + 1]
            if not flow.from_scalar(value, loop):
                continue
            kind = low.pointer_kind(value.type)
            if str(value.type) in _BITS:
                end.operands[index + 1] = _copied(low.b, value)
            elif kind is not None and kind.space in _ADDRESSES:
                number = low.b.value("fly.ptrtoint", low.b.type(_ADDRESSES[kind.space]), (value,))
                address = _copied(low.b, number)
                end.operands[index + 1] = low.b.value("fly.inttoptr", value.type, (address,))


def _terminator(op: Any, region: int) -> Any:
    block = op.regions[region].blocks[0]
    return block.operations[len(block.operations) - 1].operation


def _copied(b: Builder, value: Value) -> Value:
    """Return a copy of an integer or float of up to 64 bits that LLVM does not look through."""
    text = str(value.type)
    bits = _BITS[text]
    plain = b.type(f"i{bits}")
    number = value if text[0] == "i" else b.value("llvm.bitcast", plain, (value,))
    wide = b.type("i64" if bits == 64 else "i32")
    if bits < 32:
        number = b.value("llvm.zext", wide, (number,))
    lanes = b.constant(_ALL_LANES)
    operands = (number, number, b.constant(_UNPERMUTED), lanes, lanes, b.constant(0, "i1"))
    name = f"amdgcn.update.dpp.{wide}"
    copy: Value = b.intrinsic(name, wide, operands).result
    if bits < 32:
        copy = b.value("llvm.trunc", plain, (copy,))
    return copy if text[0] == "i" else b.value("llvm.bitcast", value.type, (copy,))


class _Flow:
    """Where values come from, through control flow.

    Args:
        ir: The ``mlir.ir`` module.
    """

    def __init__(self, ir: Any) -> None:
        self._ir = ir

    def differs(self, value: Value) -> bool:
        """Return whether lanes may hold different values."""
        seen: set[Value] = set()
        stack = [value]
        while stack:
            here = stack.pop()
            if here in seen:
                continue
            seen.add(here)
            merged = self._merged(here)
            if merged is not None:
                stack.extend(merged[0])
                stack.extend(merged[1])
                continue
            owner = here.owner
            if isinstance(owner, self._ir.Block) or owner.name in _SAME:
                continue  # an argument of the kernel
            if not self._plain(owner):
                return True
            stack.extend(owner.operands)
        return False

    def from_scalar(self, value: Value, loop: Any) -> bool:
        """Return whether a value may be one that `loop` computes for all lanes alike."""
        seen: set[Value] = set()
        stack = [value]
        while stack:
            here = stack.pop()
            if here in seen:
                continue
            seen.add(here)
            merged = self._merged(here)
            if merged is not None and merged[0]:
                stack.extend(merged[0])
            elif self._inside(here, loop) and not self.differs(here):
                return True
        return False

    def _plain(self, op: Any) -> bool:
        """Return whether the results are functions of the operands, the same in every lane."""
        name = op.name
        dialect = name.partition(".")[0]
        if dialect in ("arith", "math", "vector", "builtin"):
            return True
        return bool(len(op.operands)) and name in ("fly.ptr_load", "fly.add_offset", "llvm.load")

    def _inside(self, value: Value, loop: Any) -> bool:
        owner = value.owner
        if isinstance(owner, self._ir.Block):
            owner = owner.owner
        elif owner.name in _CONSTANT:
            return False
        while owner is not None:
            if owner == loop:
                return True
            parent = owner.parent
            owner = None if parent is None else parent.operation
        return False

    def _merged(self, value: Value) -> tuple[list[Value], list[Value]] | None:
        """Return what a value is one of, and what decides which; None if it is computed.

        The index of a counted loop is one of nothing, and its bounds decide it.
        """
        owner = value.owner
        if isinstance(owner, self._ir.Block):
            return self._argument(value, owner)
        name = owner.name
        if name not in ("scf.if", "scf.while", "scf.for"):
            return None
        index = self._ir.OpResult(value).result_number
        if name == "scf.if":
            arms = [_terminator(owner, r).operands[index] for r in (0, 1)]
            return arms, [owner.operands[0]]
        if name == "scf.while":
            end = _terminator(owner, 0)
            return [end.operands[index + 1]], [end.operands[0]]
        bounds = list(owner.operands)[:3]
        return [owner.operands[index + 3], _terminator(owner, 0).operands[index]], bounds

    def _argument(self, value: Value, block: Any) -> tuple[list[Value], list[Value]] | None:
        loop = block.owner
        number = self._ir.BlockArgument(value).arg_number
        if loop.name == "scf.for":
            bounds = list(loop.operands)[:3]
            if number == 0:
                return [], bounds
            return [loop.operands[number + 2], _terminator(loop, 0).operands[number - 1]], bounds
        if loop.name != "scf.while":
            return None
        if block == loop.regions[0].blocks[0]:
            return [loop.operands[number], _terminator(loop, 1).operands[number]], []
        return [_terminator(loop, 0).operands[number + 1]], []
