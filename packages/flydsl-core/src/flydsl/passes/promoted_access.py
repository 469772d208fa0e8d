"""Register allocations as vectors: what an access touches, reading it and writing it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from flydsl import mlir
from flydsl.dialects.building import parsed
from flydsl.dialects.elements import storage_bits
from flydsl.dialects.fly_memory import element_type, vector_type
from flydsl.passes.lowering_memory import concatenated, overlaid, part

__all__ = ["Access", "Slot", "SlotWriter"]

Extent = tuple[int, int] | None
"""First element and number of elements; None when the index is known only at run time."""


@dataclass(slots=True, eq=False)
class Slot:
    """One register allocation.

    Attributes:
        number: Its number in the function.
        alloca: The operation.
        element: Element type text.
        count: Number of elements.
        pieces: (first element, elements) of each vector that holds a part of it.
        derived: Pointer operations on it; uses before definitions.
    """

    number: int
    alloca: Any
    element: str
    count: int
    pieces: list[tuple[int, int]] = field(default_factory=list)
    derived: list[Any] = field(default_factory=list)

    def split(self, extents: list[Extent]) -> None:
        """Choose the pieces: cut where vector accesses begin and end.

        Scalar accesses cut only when there are no vector accesses: they index into a piece.
        """
        if any(extent is None for extent in extents):
            self.pieces = [(0, self.count)]
            return
        known = [extent for extent in extents if extent is not None]
        wide = [extent for extent in known if extent[1] > 1] or known
        cuts = {0, self.count}
        for first, count in wide:
            cuts |= {first, first + count}
        ordered = sorted(cuts)
        self.pieces = [(a, b - a) for a, b in pairwise(ordered)]

    def touched(self, extent: Extent) -> list[int]:
        """Return the numbers of the pieces that an access touches."""
        if extent is None:
            return list(range(len(self.pieces)))
        first, end = extent[0], extent[0] + extent[1]
        return [i for i, (at, n) in enumerate(self.pieces) if at < end and first < at + n]


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """A pointer into a slot.

    Attributes:
        slot: The slot.
        element: Element type that the pointer has, perhaps after a recast.
        static_bits: Static offset in bits.
        dynamic: Run-time offsets, in elements of the slot.
    """

    slot: Slot
    element: str
    static_bits: int = 0
    dynamic: tuple[Any, ...] = ()

    def moved(self, offset: Any, constant: int | None) -> Access:
        """Return the pointer `offset` elements further."""
        if constant is not None:
            bits = self.static_bits + constant * storage_bits(self.element)
            return replace(self, static_bits=bits)
        return replace(self, dynamic=(*self.dynamic, offset))

    def recast(self, element: str) -> Access | None:
        """Return the pointer to other elements; None when a run-time offset has other units."""
        same = storage_bits(element) == storage_bits(self.element)
        return replace(self, element=element) if same or not self.dynamic else None

    def _shape(self, user: Any) -> tuple[int, int]:
        """Return the elements accessed and their bits."""
        type_ = user.result.type if user.name == "fly.ptr_load" else user.operands[0].type
        if isinstance(type_, mlir.ir.VectorType):
            return type_.shape[0], storage_bits(str(type_.element_type))
        return 1, storage_bits(str(type_))

    def fits(self, slot: Slot, user: Any) -> bool:
        """Return whether the access covers whole elements of the slot, within its bounds."""
        count, bits = self._shape(user)
        unit = storage_bits(slot.element)
        if self.dynamic:
            return bits == unit and self.static_bits % unit == 0
        if self.static_bits % unit or count * bits % unit or self.static_bits < 0:
            return False
        return self.static_bits + count * bits <= slot.count * unit

    def extent(self, user: Any) -> Extent:
        """Return which elements of the slot are accessed."""
        if self.dynamic:
            return None
        count, bits = self._shape(user)
        unit = storage_bits(self.slot.element)
        return self.static_bits // unit, count * bits // unit


class SlotWriter:
    """Creates the vector operations of accesses, before one operation."""

    def __init__(self) -> None:
        self._at: Any = None
        self._location: Any = None

    def at(self, op: Any) -> None:
        """Create before `op` from now on."""
        self._at = mlir.ir.InsertionPoint(op)
        self._location = op.location

    def create(
        self,
        name: str,
        results: list[Any],
        operands: list[Any],
        attributes: dict[str, Any] | None = None,
    ) -> Any:
        """Create an operation."""
        return mlir.ir.Operation.create(
            name,
            results=results,
            operands=operands,
            attributes=attributes,
            ip=self._at,
            loc=self._location,
        )

    def undefined(self, type_: mlir.ir.Type) -> mlir.ir.Value:
        """Return a value of which nothing is known."""
        poison = {"value": parsed("#ub.poison")}
        return self.create("ub.poison", [type_], [], poison).result

    def _piece(self, slot: Slot, piece: int, state: dict[Any, Any]) -> mlir.ir.Value:
        key = (slot.number, piece)
        if key not in state:
            state[key] = self.undefined(vector_type(slot.pieces[piece][1], slot.element))
        value: mlir.ir.Value = state[key]
        return value

    def _position(self, access: Access) -> list[mlir.ir.Value]:
        """Return the run-time position of an access as one index value."""
        index = mlir.ir.IndexType.get()
        total = None
        for offset in access.dynamic:
            cast = self.create("arith.index_cast", [index], [offset]).result
            total = (
                cast if total is None else self.create("arith.addi", [index], [total, cast]).result
            )
        static = access.static_bits // storage_bits(access.slot.element)
        if static:
            total = self.create("arith.addi", [index], [total, self._index(static)]).result
        return [total]

    def _index(self, value: int) -> mlir.ir.Value:
        index = mlir.ir.IndexType.get()
        attributes = {"value": mlir.ir.IntegerAttr.get(index, value)}
        return self.create("arith.constant", [index], [], attributes).result

    def _static(self, position: int) -> dict[str, Any]:
        return {"static_position": mlir.ir.DenseI64ArrayAttr.get([position])}

    def _positions(self, access: Access, count: int) -> list[mlir.ir.Value]:
        (base,) = self._position(access)
        index = mlir.ir.IndexType.get()
        return [base] + [
            self.create("arith.addi", [index], [base, self._index(i)]).result
            for i in range(1, count)
        ]

    def _dynamic_marker(self) -> dict[str, Any]:
        return {"static_position": mlir.ir.DenseI64ArrayAttr.get([-(2**63)])}

    def load(self, access: Access, state: dict[Any, Any], type_: mlir.ir.Type) -> mlir.ir.Value:
        """Return what a load of `type_` through the pointer reads."""
        slot = access.slot
        is_vector, count, element = _described(type_)
        if access.dynamic:
            vector = self._piece(slot, 0, state)
            scalars = [
                self.create(
                    "vector.extract",
                    [element_type(slot.element)],
                    [vector, position],
                    self._dynamic_marker(),
                ).result
                for position in self._positions(access, count)
            ]
            if is_vector:
                made = self.create(
                    "vector.from_elements", [vector_type(count, slot.element)], scalars
                ).result
                return self._as(made, type_)
            return self._as(scalars[0], type_)
        unit = storage_bits(slot.element)
        first = access.static_bits // unit
        units = count * storage_bits(element) // unit
        if not is_vector and element == slot.element:
            (piece,) = slot.touched((first, 1))
            vector = self._piece(slot, piece, state)
            position = self._static(first - slot.pieces[piece][0])
            return self.create("vector.extract", [type_], [vector], position).result
        gathered = []
        for piece in slot.touched((first, units)):
            at, size = slot.pieces[piece]
            begin, end = max(at, first), min(at + size, first + units)
            vector = self._piece(slot, piece, state)
            gathered.append(part(self.create, vector, begin - at, end - begin, slot.element))
        return self._as(concatenated(self.create, gathered, slot.element), type_)

    def _as(self, value: mlir.ir.Value, type_: mlir.ir.Type) -> mlir.ir.Value:
        """Return the same bits as another type."""
        if value.type == type_:
            return value
        is_vector, count, element = _described(type_)
        have_vector, _, _ = _described(value.type)
        if not have_vector and not is_vector:
            return self.create("arith.bitcast", [type_], [value]).result
        if not have_vector:
            one = vector_type(1, str(value.type))
            value = self.create("vector.from_elements", [one], [value]).result
        cast = value
        if value.type != vector_type(count, element):
            cast = self.create("vector.bitcast", [vector_type(count, element)], [value]).result
        if is_vector:
            return cast
        return self.create("vector.extract", [type_], [cast], self._static(0)).result

    def store(self, access: Access, state: dict[Any, Any], value: mlir.ir.Value) -> None:
        """Write `value` through the pointer: update the pieces in `state`."""
        slot = access.slot
        is_vector, count, element = _described(value.type)
        if access.dynamic:
            self._store_dynamic(access, state, value, count)
            return
        unit = storage_bits(slot.element)
        first = access.static_bits // unit
        units = count * storage_bits(element) // unit
        if not is_vector and element == slot.element:
            (piece,) = slot.touched((first, 1))
            at, size = slot.pieces[piece]
            key = (slot.number, piece)
            type_ = vector_type(size, slot.element)
            if size == 1:
                state[key] = self.create("vector.from_elements", [type_], [value]).result
                return
            old = self._piece(slot, piece, state)
            position = self._static(first - at)
            state[key] = self.create("vector.insert", [type_], [value, old], position).result
            return
        value = self._as(value, vector_type(units, slot.element))
        for piece in slot.touched((first, units)):
            self._store_piece(slot, piece, state, value, first)

    def _store_piece(
        self, slot: Slot, piece: int, state: dict[Any, Any], value: mlir.ir.Value, first: int
    ) -> None:
        at, size = slot.pieces[piece]
        units = mlir.ir.VectorType(value.type).shape[0]
        begin, end = max(at, first), min(at + size, first + units)
        source = part(self.create, value, begin - first, end - begin, slot.element)
        key = (slot.number, piece)
        if end - begin == size:
            state[key] = source
            return
        old = self._piece(slot, piece, state)
        state[key] = overlaid(self.create, old, source, begin - at, slot.element)

    def _store_dynamic(
        self, access: Access, state: dict[Any, Any], value: mlir.ir.Value, count: int
    ) -> None:
        slot = access.slot
        key = (slot.number, 0)
        whole = vector_type(slot.count, slot.element)
        scalar = element_type(slot.element)
        is_vector = _described(value.type)[0]
        for i, position in enumerate(self._positions(access, count)):
            one = value
            if is_vector:
                one = self.create(
                    "vector.extract", [_element(value)], [value], self._static(i)
                ).result
            one = self._as(one, scalar)
            old = self._piece(slot, 0, state)
            state[key] = self.create(
                "vector.insert", [whole], [one, old, position], self._dynamic_marker()
            ).result


def _described(type_: mlir.ir.Type) -> tuple[bool, int, str]:
    """Return whether a type is a vector, its number of elements and the element text."""
    if isinstance(type_, mlir.ir.VectorType):
        return True, type_.shape[0], str(type_.element_type)
    return False, 1, str(type_)


def _element(value: mlir.ir.Value) -> Any:
    return mlir.ir.VectorType(value.type).element_type
