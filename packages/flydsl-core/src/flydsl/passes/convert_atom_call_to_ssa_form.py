"""``fly-convert-atom-call-to-ssa-form``: register operands of atom calls become vectors.

``fly.copy_atom_call`` from memory to registers loads a vector and stores it to the registers; from
registers it loads them first. A predicate becomes ``scf.if``; a register destination keeps its old
value where it is false. MMA calls load a, b and c and store d.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flydsl import mlir
from flydsl.dialects import fly_types as ft
from flydsl.dialects.building import decode, segments
from flydsl.dialects.checks import static_size
from flydsl.dialects.fly_memory import element_type, vector_type
from flydsl.layout import get
from flydsl.passes.rewriting import device_functions

if TYPE_CHECKING:
    from flydsl.plugins.protocols import Target

__all__ = ["run"]


class _Maker:
    """Creates operations at one place."""

    def __init__(self, at: Any, location: Any) -> None:
        self.at = at
        self.location = location

    def __call__(
        self,
        name: str,
        results: list[Any],
        operands: list[Any],
        attributes: dict[str, Any] | None = None,
        regions: int = 0,
    ) -> Any:
        return mlir.ir.Operation.create(
            name,
            results=results,
            operands=operands,
            attributes=attributes,
            regions=regions,
            ip=self.at,
            loc=self.location,
        )


def _pointer(value: mlir.ir.Value) -> ft.PtrType:
    kind = ft.of(value.type)
    assert isinstance(kind, ft.PtrType)
    return kind


def _guarded(
    make: _Maker, pred: Any, results: list[Any], body: Callable[[_Maker], list[Any]], other: Any
) -> list[Any]:
    """Emit `body` under ``scf.if`` when there is a predicate; `other` gives the else values."""
    if pred is None:
        return body(make)
    guard = make("scf.if", results, [pred], regions=2)
    for region, fill in ((guard.regions[0], body), (guard.regions[1], other)):
        if fill is None:
            continue
        block = region.blocks.append()
        inner = _Maker(mlir.ir.InsertionPoint(block), make.location)
        inner("scf.yield", [], fill(inner))
    return list(guard.results)


def _copy(op: Any) -> None:
    operands = list(op.operands)
    atom, src, dst = operands[:3]
    pred = operands[3] if len(operands) > 3 else None
    kind = ft.of(atom.type)
    assert isinstance(kind, ft.CopyAtomType)
    make = _Maker(mlir.ir.InsertionPoint(op), op.location)
    from_registers = _pointer(src).space == "register"
    to_registers = _pointer(dst).space == "register"
    values = kind.operation.values(kind.bits)
    if from_registers:
        source = vector_type(values, _pointer(src).element)
        src = make("fly.ptr_load", [source], [src]).result
    if to_registers:
        result = vector_type(values, _pointer(dst).element)
        if from_registers:
            loaded = _recast(make, src, result)
        else:

            def call(inner: _Maker) -> list[Any]:
                sizes = {"operandSegmentSizes": segments((1, 1, 0, 0))}
                return [inner("fly.copy_atom_call_ssa", [result], [atom, src], sizes).result]

            def old(inner: _Maker) -> list[Any]:
                return [inner("fly.ptr_load", [result], [dst]).result]

            (loaded,) = _guarded(make, pred, [result], call, old)
            pred = None

        def keep(inner: _Maker) -> list[Any]:
            inner("fly.ptr_store", [], [loaded, dst])
            return []

        _guarded(make, pred, [], keep, None)
    else:

        def store(inner: _Maker) -> list[Any]:
            sizes = {"operandSegmentSizes": segments((1, 1, 1, 0))}
            inner("fly.copy_atom_call_ssa", [], [atom, src, dst], sizes)
            return []

        _guarded(make, pred, [], store, None)
    op.erase()


def _recast(make: _Maker, value: Any, type_: Any) -> Any:
    if value.type == type_:
        return value
    return make("vector.bitcast", [type_], [value]).result


def _mma(op: Any) -> None:
    operands = list(op.operands)
    atom, d, a, b, c = operands[:5]
    kind = ft.of(atom.type)
    assert isinstance(kind, ft.MmaAtomType)
    make = _Maker(mlir.ir.InsertionPoint(op), op.location)
    vectors = []
    for operand, pointer in (("A", a), ("B", b), ("C", c)):
        count = static_size(get(kind.operation.layout_tv(operand), 1))
        type_ = vector_type(count, _pointer(pointer).element)
        vectors.append(make("fly.ptr_load", [type_], [pointer]).result)
    scales = []
    for scale in operands[5:]:
        pointed = ft.of(scale.type)
        if isinstance(pointed, ft.PtrType):
            scales.append(make("fly.ptr_load", [element_type(pointed.element)], [scale]).result)
        else:
            scales.append(scale)
    counts = decode(op.attributes["operandSegmentSizes"])
    attributes = {"operandSegmentSizes": segments((1, 1, 1, 1, *counts[5:]))}
    count = static_size(get(kind.operation.layout_tv("D"), 1))
    result = vector_type(count, _pointer(d).element)
    call = make("fly.mma_atom_call_ssa", [result], [atom, *vectors, *scales], attributes)
    make("fly.ptr_store", [], [call.result, d])
    op.erase()


_HANDLERS = {"fly.copy_atom_call": _copy, "fly.mma_atom_call": _mma}


def run(module: mlir.ir.Module, target: Target | None = None, **options: object) -> None:  # noqa: ARG001
    """Rewrite the atom calls of every device function of `module`."""
    with module.context:
        for function in list(device_functions(module)):
            calls: list[Any] = []

            def note(op: Any, found: list[Any] = calls) -> Any:
                if op.name in _HANDLERS:
                    found.append(op)
                return mlir.ir.WalkResult.ADVANCE

            function.walk(note)
            for op in calls:
                _HANDLERS[op.name](op)
