"""``fly-rewrite-func-signature``: Fly values at boundaries become pointers and scalars.

A parameter, launch operand or loop-carried value of a Fly type is replaced by its leaves (DESIGN
§11.2): the pointer of a tensor, its 32-bit run-time leaves, then the 64-bit ones. Inside,
``fly.pack`` puts the value together again and ``fly.unpack`` takes it apart, so that later passes
see Fly values only between pure operations. Launches remember the types in ``fly.arg_types``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flydsl.dialects import fly
from flydsl.dialects import fly_types as ft
from flydsl.dialects.building import segments
from flydsl.dialects.fly_memory import element_type
from flydsl.dialects.leaves import leaf_widths
from flydsl.errors import UserTypeError
from flydsl.mlir import source_location
from flydsl.passes.rewriting import functions, needs_leaves, rebuild

if TYPE_CHECKING:
    from flydsl.mlir import ir
    from flydsl.plugins.protocols import Target

__all__ = ["leaf_types", "run"]

_CARRYING = frozenset({"scf.for", "scf.while", "scf.if", "scf.index_switch", "scf.execute_region"})
_ATOMS = (ft.CopyAtomType, ft.MmaAtomType, ft.TiledCopyType, ft.TiledMmaType)


def leaf_types(kind: ft.FlyType) -> list[ir.Type]:
    """Return the types that a value of a Fly type becomes at a boundary."""
    pointer = [kind.pointer.ir] if isinstance(kind, ft.MemRefType) else []
    return pointer + [element_type(f"i{width}") for width in leaf_widths(kind)]


def _expanded(types: Sequence[ir.Type]) -> list[ir.Type]:
    out: list[ir.Type] = []
    for type_ in types:
        kind = needs_leaves(type_)
        out.extend([type_] if kind is None else leaf_types(kind))
    return out


def _taken_apart(values: Sequence[ir.Value]) -> list[ir.Value]:
    """Return the leaves of values, emitting ``fly.unpack`` at the insertion point."""
    out: list[ir.Value] = []
    for value in values:
        kind = needs_leaves(value.type)
        if kind is None:
            out.append(value)
            continue
        if isinstance(kind, _ATOMS):
            _check_stateless(value)
        pointer, leaves = fly.unpack(value)
        out.extend(leaves if pointer is None else [pointer, *leaves])
    return out


def _check_stateless(value: ir.Value) -> None:
    owner = value.owner
    if getattr(owner, "name", "") in ("fly.atom_set_value", "fly.make_copy_atom") and (
        len(owner.operands) > 0
    ):
        raise UserTypeError(
            "an atom with run-time state is carried through control flow",
            code="FLY-U332",
            value=str(value.type),
            hint="set the state again inside the loop or branch",
            location=source_location(owner.location),
        )


def _put_together(type_: ir.Type, leaves: Sequence[ir.Value]) -> ir.Value:
    """Return the value of `type_` from its leaves, emitting ``fly.pack``."""
    kind = needs_leaves(type_)
    if kind is None:
        return leaves[0]
    if isinstance(kind, ft.MemRefType):
        return fly.pack(kind, leaves[1:], leaves[0])
    return fly.pack(kind, leaves)


def _rewrite_arguments(block: Any, first: int = 0) -> None:
    """Expand the block's arguments from `first` on."""
    from flydsl.mlir import ir

    old = list(block.arguments)[first:]
    if all(needs_leaves(argument.type) is None for argument in old):
        return
    locations = ir.Location.current
    at = ir.InsertionPoint.at_block_begin(block)
    for argument in old:
        kind = needs_leaves(argument.type)
        types = [argument.type] if kind is None else leaf_types(kind)
        new = [block.add_argument(t, locations) for t in types]
        with at:
            argument.replace_all_uses_with(_put_together(argument.type, new))
    for _ in old:
        block.erase_argument(first)


def _rewrite_terminator(block: Any, kept: int = 0) -> None:
    """Expand the operands of the block's terminator after the first `kept`."""
    from flydsl.mlir import ir

    op = block.operations[len(block.operations) - 1].operation
    operands = list(op.operands)
    if all(needs_leaves(x.type) is None for x in operands[kept:]):
        return
    with ir.InsertionPoint(op), op.location:
        new = operands[:kept] + _taken_apart(operands[kept:])
    rebuild(op, [], new)
    op.erase()


def _rewrite_carrying(op: Any) -> None:
    """Expand what a structured control-flow operation carries."""
    from flydsl.mlir import ir

    leading = {"scf.for": 3, "scf.while": 0}.get(op.name, len(op.operands))
    operands = list(op.operands)
    results = list(op.results)
    for region in op.regions:
        for block in region.blocks:
            with op.location:
                _rewrite_arguments(block, 1 if op.name == "scf.for" else 0)
            end = block.operations[len(block.operations) - 1].operation
            _rewrite_terminator(block, 1 if end.name == "scf.condition" else 0)
    carried = operands[leading:]
    if all(needs_leaves(x.type) is None for x in [*carried, *results]):
        return
    with ir.InsertionPoint(op), op.location:
        new_operands = operands[:leading] + _taken_apart(carried)
    new = rebuild(op, _expanded([r.type for r in results]), new_operands)
    produced = list(new.results)
    with ir.InsertionPoint(op), op.location:
        for result in results:
            count = len(_expanded([result.type]))
            result.replace_all_uses_with(_put_together(result.type, produced[:count]))
            del produced[:count]
    op.erase()


def _rewrite_launch(op: Any) -> None:
    """Expand the kernel operands of a launch and record their types."""
    from flydsl.mlir import ir

    sizes = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
    # The kernel operands are the second-last segment; the last is the async object (the stream).
    last = len(op.operands) - sizes[-1]
    first = last - sizes[-2]
    operands = list(op.operands)
    arguments = operands[first:last]
    with ir.InsertionPoint(op), op.location:
        leaves = _taken_apart(arguments)
    sizes[-2] = len(leaves)
    types = ir.ArrayAttr.get([ir.TypeAttr.get(x.type) for x in arguments])
    rebuild(
        op,
        [],
        operands[:first] + leaves + operands[last:],
        **{"operandSegmentSizes": segments(sizes), "fly.arg_types": types},
    )
    op.erase()


def _rewrite_region(region: Any) -> None:
    for block in region.blocks:
        for view in list(block.operations):
            op = view.operation
            for inner in op.regions:
                _rewrite_region(inner)
            if op.name in _CARRYING:
                _rewrite_carrying(op)
            elif op.name == "gpu.launch_func" and "fly.arg_types" not in op.attributes:
                _rewrite_launch(op)


def _rewrite_function(op: Any) -> None:
    from flydsl.mlir import ir

    entry = op.regions[0].blocks[0]
    old = [argument.type for argument in entry.arguments]
    with op.location:
        _rewrite_arguments(entry)
        _rewrite_region(op.regions[0])
    new = [argument.type for argument in entry.arguments]
    if len(new) == len(old) and new == old:
        return
    function_type = ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value)
    changed = ir.FunctionType.get(new, list(function_type.results))
    op.attributes["function_type"] = ir.TypeAttr.get(changed)
    if "arg_attrs" in op.attributes:
        spread = []
        for type_, attrs in zip(old, ir.ArrayAttr(op.attributes["arg_attrs"]), strict=True):
            count = len(_expanded([type_]))
            # The attributes of a tensor describe its pointer, which comes first.
            spread += [attrs, *[ir.DictAttr.get({})] * (count - 1)][:count]
        op.attributes["arg_attrs"] = ir.ArrayAttr.get(spread)


def run(module: ir.Module, target: Target | None = None, **options: object) -> None:  # noqa: ARG001
    """Rewrite all kernels, launchers, launches and control flow of `module`.

    Raises:
        UserError: An atom with run-time state is carried through control flow.
    """
    from flydsl.mlir import ir

    with module.context, ir.Location.unknown():
        for op in list(functions(module)):
            _rewrite_function(op)
