"""Checks of Fly IR beyond what IRDL can express; for tests and ``FLYDSL_VERIFY``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from flydsl.dialects import fly_types as ft
from flydsl.dialects.algebra import ALGEBRA
from flydsl.dialects.building import decode
from flydsl.dialects.checks import (
    check_copy,
    check_copy_call,
    check_gemm,
    check_mma_call,
    static_size,
)
from flydsl.dialects.definition import OPS
from flydsl.dialects.fly_atomics import (
    ATOMIC_ORDERINGS,
    FENCE_ORDERINGS,
    LOAD_ORDERINGS,
    READ_MODIFY_WRITE,
    STORE_ORDERINGS,
)
from flydsl.dialects.infer import result_type
from flydsl.dialects.leaves import leaf_widths
from flydsl.errors import CompilerBug, FlyDSLError
from flydsl.mlir import source_location, verify

if TYPE_CHECKING:
    from flydsl.mlir import ir

__all__ = ["verify_module"]

_FORM = frozenset({"operandSegmentSizes", "resultSegmentSizes"})


def verify_module(module: ir.Module, after: str = "") -> None:
    """Check `module` with MLIR's verifier and every Fly operation with its own rules.

    Args:
        module: The module.
        after: What produced it, for the message.

    Raises:
        CompilerBug: An operation is malformed.
    """
    from flydsl.mlir import ir

    verify(module, after)
    problems: list[CompilerBug] = []

    def check(op: Any) -> Any:
        if op.name.startswith("fly."):
            try:
                _check(op, op.name[4:])
            except FlyDSLError as error:
                text = f"invalid {op.name}" + (f" after {after}" if after else "")
                problems.append(
                    CompilerBug(
                        f"{text}: {error.message}",
                        code="FLY-B314",
                        value=str(op),
                        location=source_location(op.location),
                    )
                )
        return ir.WalkResult.ADVANCE

    with module.context, ir.Location.unknown():
        module.operation.walk(check)
    if problems:
        raise problems[0]


def _expect(condition: bool, message: str, value: object = None) -> None:
    if not condition:
        raise CompilerBug(message, code="FLY-B314", value=value)


def _check(op: Any, name: str) -> None:
    spec = OPS.get(name)
    _expect(spec is not None, "no such operation", name)
    assert spec is not None
    for result in op.results:
        ft.of(result.type)
    if spec.operand_segments:
        _expect("operandSegmentSizes" in op.attributes, "operandSegmentSizes are missing")
        sizes = decode(op.attributes["operandSegmentSizes"])
        _expect(len(sizes) == len(spec.operands), "wrong number of operand segments", sizes)
        _expect(sum(sizes) == len(op.operands), "operand segments do not add up", sizes)
    kinds = [ft.of(x.type) for x in op.operands]
    if name in ALGEBRA and not isinstance(kinds[0] if kinds else None, type(None)):
        keywords = {a: decode(op.attributes[a]) for a in op.attributes if a not in _FORM}
        inferred = result_type(name, [x.type for x in op.operands], keywords)
        if not (name == "add_offset" and isinstance(kinds[0], ft.PtrType)):
            _expect(op.result.type == inferred, f"the result should be {inferred}", op.result.type)
    elif name in ("make_int_tuple", "make_shape", "make_stride", "make_coord"):
        _check_leaves(ft.of(op.result.type), [x.type for x in op.operands])
    elif name == "pack":
        kind = ft.of(op.result.type)
        has_pointer = int(isinstance(kind, ft.MemRefType))
        _check_leaves(kind, [x.type for x in op.operands][has_pointer:])
    elif name == "unpack":
        has_pointer = int(isinstance(kinds[0], ft.MemRefType))
        _check_leaves(kinds[0], [r.type for r in op.results][has_pointer:])
    elif name in _CALLS:
        _CALLS[name](op, kinds)
    elif name == "alloca":
        kind = ft.of(op.result.type)
        _expect(isinstance(kind, ft.PtrType), "alloca gives a pointer", op.result.type)
    elif name in _ACCESSES:
        _ACCESSES[name](op, kinds)


def _check_leaves(kind: ft.FlyType | None, types: list[Any]) -> None:
    _expect(kind is not None, "not a Fly type")
    assert kind is not None
    wanted = [f"i{width}" for width in leaf_widths(kind)]
    found = [str(t) for t in types]
    _expect(found == wanted, f"{kind} has leaves {wanted}", found)


def _on_pointers(kinds: list[Any]) -> bool:
    return all(not isinstance(kind, ft.MemRefType) for kind in kinds)


def _copy_call(_op: Any, kinds: list[Any]) -> None:
    if not _on_pointers(kinds):
        check_copy_call(*kinds[:3])


def _copy(_op: Any, kinds: list[Any]) -> None:
    check_copy(kinds[0], kinds[1], kinds[2], kinds[3] if len(kinds) > 3 else None)


def _mma_call(_op: Any, kinds: list[Any]) -> None:
    if not _on_pointers(kinds):
        check_mma_call(*kinds[:5])


def _gemm(_op: Any, kinds: list[Any]) -> None:
    check_gemm(*kinds[:5])


def _element(kind: Any) -> str:
    _expect(isinstance(kind, ft.MemRefType), "the operand is no tensor in memory", kind)
    return str(kind.element)


def _same(found: Any, wanted: str) -> None:
    _expect(str(found) == wanted, f"the type should be {wanted}", found)


def _vector(kind: Any) -> str:
    return f"vector<{static_size(kind.layout)}x{_element(kind)}>"


def _pointer(kind: Any, value: Any) -> None:
    """Check that a value may go through a pointer: an element, or a vector of elements."""
    _expect(isinstance(kind, ft.PtrType), "the operand is no pointer", kind)
    text = str(value.type)
    fits = text == kind.element or text.endswith(f"x{kind.element}>")
    _expect(fits, f"the value should be of {kind.element}", text)


def _ordered(op: Any, allowed: tuple[str, ...], attribute: str = "ordering") -> None:
    if attribute in op.attributes:
        _expect(decode(op.attributes[attribute]) in allowed, f"no such {attribute}")


def _load(op: Any, kinds: list[Any]) -> None:
    _expect(isinstance(kinds[0], ft.PtrType), "the operand is no pointer", kinds[0])
    _ordered(op, LOAD_ORDERINGS)


def _store(op: Any, kinds: list[Any]) -> None:
    _pointer(kinds[1], op.operands[0])
    _ordered(op, STORE_ORDERINGS)


def _read_modify_write(op: Any, kinds: list[Any]) -> None:
    if kinds[0] is not None:  # else LLVM's own pointer, which has no element type
        _pointer(kinds[0], op.operands[1])
    _ordered(op, READ_MODIFY_WRITE, "operation")
    _ordered(op, ATOMIC_ORDERINGS)
    _same(op.result.type, str(op.operands[1].type))


def _compare_and_swap(op: Any, kinds: list[Any]) -> None:
    if kinds[0] is not None:
        _pointer(kinds[0], op.operands[1])
    _same(op.operands[2].type, str(op.operands[1].type))
    _ordered(op, ATOMIC_ORDERINGS, "success_ordering")
    _same(op.results[0].type, str(op.operands[1].type))
    _same(op.results[1].type, "i1")


_ACCESSES: Mapping[str, Callable[[Any, list[Any]], None]] = {
    "memref_load": lambda op, kinds: _same(op.result.type, _element(kinds[0])),
    "memref_store": lambda op, kinds: _same(op.operands[0].type, _element(kinds[1])),
    "memref_load_vec": lambda op, kinds: _same(op.result.type, _vector(kinds[0])),
    "memref_store_vec": lambda op, kinds: _same(op.operands[0].type, _vector(kinds[1])),
    "ptr_load": _load,
    "ptr_store": _store,
    "atomic_rmw": _read_modify_write,
    "atomic_cas": _compare_and_swap,
    "fence": lambda op, _kinds: _ordered(op, FENCE_ORDERINGS),
}
_CALLS = {"copy_atom_call": _copy_call, "copy": _copy, "mma_atom_call": _mma_call, "gemm": _gemm}
