"""Which LDS addresses the lanes of a wave give to a load into LDS, checked when compiling.

The hardware takes one address per wave and steps it by the size of the transfer for each lane. The
address of a copy is computed here for every thread of a block: thread indices have their values,
and what is uniform but unknown (block indices, loop indices, arguments) gets several values, drawn
once per value. The result must be the same for all lanes of a wave, or step exactly as the hardware
does; a pointer that a loop carries must keep that property from one turn to the next.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from flydsl import mlir
from flydsl.errors import TargetError
from flydsl_rocdl.passes.lowering import Lowering, location_of, refuse
from flydsl_rocdl.passes.offsets import is_uniform

__all__ = ["FORM", "FREE", "LANES", "SAME", "check"]

FORM = "fly_lds"
"""Attribute of a checked copy: how its LDS addresses relate."""
SAME, LANES, FREE = "same", "lanes", "free"
_DMA = ("buffer_copy_lds<", "global_copy_lds<")
_TRIALS = 3
_Vector = list[int]


class _Unknown(Exception):
    """A value differs between lanes in a way that is not known."""


def check(low: Lowering, function: Any) -> None:
    """Check every load into LDS of a function and note the form of its addresses.

    Raises:
        TargetError: Destinations are not what the hardware does, or cannot be shown to be.
    """
    copies: list[Any] = []

    def note(op: Any) -> Any:
        if op.name == "fly.copy_atom_call_ssa" and any(
            prefix in str(op.operands[0].type) for prefix in _DMA
        ):
            copies.append(op)
        return mlir.ir.WalkResult.ADVANCE

    function.walk(note)
    for op in copies:
        kind = low.pointer_kind(op.operands[2].type) if len(op.operands) > 2 else None
        if kind is None or kind.space != "shared":
            raise refuse(op, "a load into LDS writes shared memory", code="FLY-T633",
                         allowed="a tensor in shared memory as the destination")  # fmt: skip
        text = str(op.operands[0].type)
        size = int(text[text.index("_lds<") + 5 :].partition(",")[0]) // 8
        try:
            form = _form(low, op, size)
        except TargetError:
            if "global_copy_lds<" not in text or not low.facts.lds_async_bytes:
                raise
            form = FREE  # every lane has an address of its own
        op.attributes[FORM] = low.b.attribute(f'"{form}"')


def _form(low: Lowering, op: Any, size: int) -> str:
    wave = low.facts.wave_size
    forms: set[str] = set()
    for trial in range(_TRIALS):
        threads = _Threads(low, trial)
        try:
            addresses = threads.value(op.operands[2])
        except _Unknown:
            raise _refusal(op, "cannot be followed through what computes them", size) from None
        for first in range(0, len(addresses), wave):
            group = addresses[first : first + wave]
            steps = [address - group[0] for address in group]
            if not any(steps) and len(group) > 1:
                forms.add(SAME)
            elif steps == [lane * size for lane in range(len(group))]:
                forms.add(LANES)
            else:
                raise _refusal(op, f"are {group[:4]}… in the first lanes of a wave", size)
    if len(forms) != 1:
        raise _refusal(op, "differ from wave to wave", size)
    return forms.pop()


def _refusal(op: Any, what: str, size: int) -> Exception:
    error = refuse(
        op, f"the destinations of a load into LDS {what}", code="FLY-T639",
        allowed=f"lane i of a wave writes {size} * i bytes after lane 0, or all lanes name the"
        " place of lane 0",
        hint="swizzle the source instead of the destination, or copy through registers",
    )  # fmt: skip
    return error.with_location(location_of(op))


class _Threads:
    """Values of integers and pointers for every thread of a block, in one trial."""

    def __init__(self, low: Lowering, trial: int) -> None:
        wave = low.facts.wave_size
        self._low = low
        self._block = low.block or (2 * wave, 1, 1)
        self._known: dict[Any, _Vector] = {}
        self._random = random.Random(1000 + trial)
        self._count = self._block[0] * self._block[1] * self._block[2]

    def value(self, value: Any) -> _Vector:
        """Return the value in each thread."""
        found = self._known.get(value)
        if found is None:
            found = self._known[value] = self._compute(value)
        return found

    def _uniform(self) -> _Vector:
        return [self._random.randrange(1, 64)] * self._count

    def _compute(self, value: Any) -> _Vector:
        owner = value.owner
        if isinstance(owner, mlir.ir.Block):
            return self._argument(value, owner)
        name = owner.name
        if name == "arith.constant":
            return [int(owner.attributes["value"].value)] * self._count
        if name == "gpu.thread_id":
            return self._index("xyz".index(str(owner.attributes["dimension"])[-2]))
        if name in ("gpu.lane_id", "gpu.subgroup_id"):
            wave = self._low.facts.wave_size
            return [t % wave if name == "gpu.lane_id" else t // wave for t in range(self._count)]
        if name in ("fly.alloca", "fly.get_dyn_shared"):
            return [0] * self._count
        if name in _FORWARDED:
            return self.value(owner.operands[0])
        if name == "fly.add_offset":
            kind = self._low.pointer_kind(value.type)
            bits = kind.bits if kind is not None else 8
            base, step = (self.value(x) for x in owner.operands)
            return [b + s * bits // 8 for b, s in zip(base, step, strict=True)]
        if name in _BINARY:
            a, b = (self.value(x) for x in owner.operands)
            try:
                return [_BINARY[name](x, y) for x, y in zip(a, b, strict=True)]
            except (ZeroDivisionError, ValueError):
                raise _Unknown from None
        if is_uniform(value) or name == "rocdl.readfirstlane":
            return self._uniform()
        raise _Unknown

    def _index(self, axis: int) -> _Vector:
        x, y, _ = self._block
        return [(t % x, t // x % y, t // (x * y))[axis] for t in range(self._count)]

    def _argument(self, value: Any, block: Any) -> _Vector:
        parent = block.owner
        number = mlir.ir.BlockArgument(value).arg_number
        if parent.name == "gpu.func" or (parent.name == "scf.for" and number == 0):
            return self._uniform()
        if parent.name != "scf.for":
            raise _Unknown
        start = self.value(parent.operands[2 + number])
        # Carried values keep their differences between lanes if every turn does.
        self._known[value] = start
        after = self.value(block.operations[len(block.operations) - 1].operands[number - 1])
        wave = self._low.facts.wave_size
        for first in range(0, self._count, wave):
            moved = {after[t] - start[t] for t in range(first, min(first + wave, self._count))}
            if len(moved) > 1:
                raise _Unknown
        return start


_FORWARDED = frozenset(
    {"fly.recast_iter", "fly.ptrtoint", "fly.inttoptr", "arith.extsi", "arith.extui",
     "arith.trunci", "arith.index_cast", "arith.index_castui"}
)  # fmt: skip
_BINARY: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {
        "arith.addi": lambda x, y: x + y,
        "arith.subi": lambda x, y: x - y,
        "arith.muli": lambda x, y: x * y,
        "arith.andi": lambda x, y: x & y,
        "arith.ori": lambda x, y: x | y,
        "arith.xori": lambda x, y: x ^ y,
        "arith.shli": lambda x, y: x << y,
        "arith.shrsi": lambda x, y: x >> y,
        "arith.shrui": lambda x, y: x >> y,
        "arith.divsi": lambda x, y: abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1),
        "arith.divui": lambda x, y: x // y,
        "arith.floordivsi": lambda x, y: x // y,
        "arith.remui": lambda x, y: x % y,
        "arith.remsi": lambda x, y: x - abs(x) // abs(y) * abs(y) * (1 if x >= 0 else -1),
        "arith.minsi": min,
        "arith.maxsi": max,
    }
)
