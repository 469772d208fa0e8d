"""``fly-promote-regmem-to-vectorssa``: register tensors become vector SSA values.

A ``fly.alloca`` in register memory whose pointers are only moved, recast, loaded and stored is
split into pieces at the boundaries of its vector accesses; each piece is a vector value that
`scf.if`, `scf.for` and `scf.while` carry where it changes. A run-time index needs the whole in one
piece and uses ``vector.extract`` and ``vector.insert``. What cannot be promoted stays memory.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flydsl.dialects import fly_types as ft
from flydsl.dialects.building import decode
from flydsl.dialects.elements import storage_bits
from flydsl.dialects.fly_memory import vector_type
from flydsl.mlir import identity
from flydsl.passes.promoted_access import Access, Slot, SlotWriter
from flydsl.passes.rewriting import device_functions, rebuild

if TYPE_CHECKING:
    from flydsl.mlir import ir
    from flydsl.plugins.protocols import Target

__all__ = ["run"]

_CARRYING = frozenset({"scf.for", "scf.if", "scf.while"})
Key = tuple[int, int]
"""Number of the slot, number of the piece."""


def _constant(value: Any) -> int | None:
    """Return the int of an integer constant, else None."""
    from flydsl.mlir import ir

    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "arith.constant":
        return None
    attr = owner.attributes["value"]
    return int(attr.value) if isinstance(attr, ir.IntegerAttr) else None


@dataclass(slots=True)
class _Analysis:
    """What a function does with its register allocations; operations by `flydsl.mlir.identity`."""

    slots: list[Slot] = field(default_factory=list)
    accesses: dict[int, Access] = field(default_factory=dict)
    changed: dict[int, set[Key]] = field(default_factory=dict)


def _follow(slot: Slot, pointer: Any, access: Access, found: list[tuple[Any, Access]]) -> bool:
    """Collect the accesses through `pointer`; False when it is used in another way."""
    for use in pointer.uses:
        user = use.owner.operation
        name = user.name
        if name in ("fly.ptr_load", "fly.ptr_store"):
            if name == "fly.ptr_store" and user.operands[0] == pointer:
                return False
            if not access.fits(slot, user):
                return False
            found.append((user, access))
        elif name == "fly.add_offset" and user.operands[0] == pointer:
            offset = user.operands[1]
            moved = access.moved(offset, _constant(offset))
            if not _follow(slot, user.result, moved, found):
                return False
            slot.derived.append(user)
        elif name == "fly.recast_iter":
            kind = ft.of(user.result.type)
            assert isinstance(kind, ft.PtrType)
            recast = access.recast(kind.element)
            if recast is None or not _follow(slot, user.result, recast, found):
                return False
            slot.derived.append(user)
        else:
            return False
    return True


def _analyse(function: Any) -> _Analysis:
    """Find the promotable allocations, their accesses, and which operations change them."""
    from flydsl.mlir import ir

    allocas: list[Any] = []

    def note(op: Any) -> Any:
        if op.name == "fly.alloca":
            allocas.append(op)
        return ir.WalkResult.ADVANCE

    function.walk(note)
    out = _Analysis()
    for op in allocas:
        kind = ft.of(op.result.type)
        if not isinstance(kind, ft.PtrType) or kind.space != "register":
            continue
        count = decode(op.attributes["bytes"]) * 8 // storage_bits(kind.element)
        slot = Slot(len(out.slots), op, kind.element, count)
        found: list[tuple[Any, Access]] = []
        if not _follow(slot, op.result, Access(slot, kind.element), found):
            continue
        if not _within_regions(op, [user for user, _ in found]):
            continue
        slot.split([access.extent(user) for user, access in found])
        out.slots.append(slot)
        for user, access in found:
            out.accesses[identity(user)] = access
            if user.name == "fly.ptr_store":
                _mark_changed(out, slot, access, user)
    return out


def _within_regions(alloca: Any, users: list[Any]) -> bool:
    """Return whether only carrying operations lie between the allocation and every store."""
    home = alloca.parent
    for user in users:
        if user.name != "fly.ptr_store":
            continue
        parent = user.parent
        while parent.operation != home.operation:
            if parent.operation.name not in _CARRYING:
                return False
            parent = parent.operation.parent
    return True


def _mark_changed(out: _Analysis, slot: Slot, access: Access, user: Any) -> None:
    keys = {(slot.number, piece) for piece in slot.touched(access.extent(user))}
    home = slot.alloca.parent.operation
    parent = user.parent.operation
    while parent != home:
        out.changed.setdefault(identity(parent), set()).update(keys)
        parent = parent.parent.operation


class _Promotion:
    """Rewrites one function."""

    def __init__(self, analysis: _Analysis) -> None:
        self.analysis = analysis
        self.slots = {slot.number: slot for slot in analysis.slots}
        self.writer = SlotWriter()
        self.dead: list[Any] = []

    def block(self, block: Any, state: dict[Key, Any]) -> None:
        """Rewrite the accesses in a block; `state` holds and receives the current pieces."""
        for view in list(block.operations):
            op = view.operation
            access = self.analysis.accesses.get(identity(op))
            if access is not None:
                self.writer.at(op)
                if op.name == "fly.ptr_load":
                    value = self.writer.load(access, state, op.result.type)
                    op.result.replace_all_uses_with(value)
                else:
                    self.writer.store(access, state, op.operands[0])
                self.dead.append(op)
            elif len(op.regions):
                self._nested(op, state)

    def _nested(self, op: Any, state: dict[Key, Any]) -> None:
        changed = sorted(self.analysis.changed.get(identity(op), ()))
        if not changed:
            for region in op.regions:
                for block in region.blocks:
                    self.block(block, dict(state))
            return
        self.writer.at(op)
        for key in changed:
            if key not in state:
                state[key] = self.writer.undefined(self._type(key))
        {"scf.for": self._for, "scf.if": self._if, "scf.while": self._while}[op.name](
            op, changed, state
        )

    def _type(self, key: Key) -> ir.Type:
        slot = self.slots[key[0]]
        return vector_type(slot.pieces[key[1]][1], slot.element)

    def _carry_in(self, block: Any, keys: list[Key], state: dict[Key, Any], location: Any) -> None:
        for key in keys:
            state[key] = block.add_argument(self._type(key), location)

    @staticmethod
    def _carry_out(block: Any, keys: list[Key], state: dict[Key, Any]) -> None:
        end = block.operations[len(block.operations) - 1].operation
        rebuild(end, [], [*end.operands, *(state[key] for key in keys)])
        end.erase()

    def _finish(self, op: Any, new: Any, keys: list[Key], state: dict[Key, Any]) -> None:
        results = list(new.results)
        kept = len(op.results)
        for old, replacement in zip(op.results, results[:kept], strict=True):
            old.replace_all_uses_with(replacement)
        state.update(zip(keys, results[kept:], strict=True))
        op.erase()

    def _rebuilt(self, op: Any, keys: list[Key], extra: list[Any]) -> Any:
        types = [r.type for r in op.results] + [self._type(key) for key in keys]
        return rebuild(op, types, [*op.operands, *extra])

    def _for(self, op: Any, keys: list[Key], state: dict[Key, Any]) -> None:
        new = self._rebuilt(op, keys, [state[key] for key in keys])
        block = new.regions[0].blocks[0]
        inner = dict(state)
        self._carry_in(block, keys, inner, op.location)
        self.block(block, inner)
        self._carry_out(block, keys, inner)
        self._finish(op, new, keys, state)

    def _if(self, op: Any, keys: list[Key], state: dict[Key, Any]) -> None:
        from flydsl.mlir import ir

        new = self._rebuilt(op, keys, [])
        if len(new.regions[1].blocks) == 0:
            block = new.regions[1].blocks.append()
            ir.Operation.create("scf.yield", ip=ir.InsertionPoint(block), loc=op.location)
        for region in new.regions:
            inner = dict(state)
            block = region.blocks[0]
            self.block(block, inner)
            self._carry_out(block, keys, inner)
        self._finish(op, new, keys, state)

    def _while(self, op: Any, keys: list[Key], state: dict[Key, Any]) -> None:
        new = self._rebuilt(op, keys, [state[key] for key in keys])
        inner = dict(state)
        for region in new.regions:
            block = region.blocks[0]
            self._carry_in(block, keys, inner, op.location)
            self.block(block, inner)
            self._carry_out(block, keys, inner)
        self._finish(op, new, keys, state)

    def clean(self) -> None:
        """Erase the accesses, the pointers and the allocations."""
        for op in reversed(self.dead):
            op.erase()
        for slot in self.analysis.slots:
            for op in slot.derived:
                op.erase()
            slot.alloca.erase()


def run(module: ir.Module, target: Target | None = None, **options: object) -> None:  # noqa: ARG001
    """Promote the register allocations of every device function of `module`."""
    with module.context:
        for function in list(device_functions(module)):
            if not len(function.regions[0].blocks):
                continue
            analysis = _analyse(function)
            if analysis.slots:
                promotion = _Promotion(analysis)
                promotion.block(function.regions[0].blocks[0], {})
                promotion.clean()
