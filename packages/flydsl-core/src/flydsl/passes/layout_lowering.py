"""``fly-layout-lowering``: layout algebra, views, copies and gemms become integer arithmetic.

Every pure operation of `flydsl.dialects.algebra` is evaluated with SSA leaves: nothing is emitted
for it but the arithmetic that a load, store, atom call or scalar use asks for. What is left
afterwards is pointers, `fly.ptr_load`/`fly.ptr_store`, `fly.alloca` and atom calls on pointers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from flydsl import layout as fl
from flydsl import mlir
from flydsl.dialects import fly_types as ft
from flydsl.dialects.algebra import ALGEBRA
from flydsl.dialects.building import decode
from flydsl.dialects.infer import SCALAR_RESULTS, value_of_type
from flydsl.dialects.leaves import leaves_of, with_leaves
from flydsl.dialects.views import View
from flydsl.errors import CompilerBug, FlyDSLError
from flydsl.layout.leaf import Leaf
from flydsl.mlir import source_location
from flydsl.passes.lowering_atoms import ATOM_HANDLERS, Atom
from flydsl.passes.lowering_memory import MEMORY_HANDLERS
from flydsl.passes.pointers import SsaPointer
from flydsl.passes.rewriting import functions
from flydsl.passes.ssa import Emitter

if TYPE_CHECKING:
    from flydsl.plugins.protocols import Target

__all__ = ["Lowering", "run"]

_TUPLE_OPS = frozenset({"make_int_tuple", "make_shape", "make_stride", "make_coord"})
_ATTRIBUTES_OF_FORM = frozenset({"operandSegmentSizes", "resultSegmentSizes"})
_INTEGER_WIDTHS = {"i32": 32, "i64": 64}


class Lowering:
    """Lowers one function.

    Attributes:
        emitter: Emits integer arithmetic; `emitter.anchor` is the operation being lowered.
        values: What each Fly value stands for: tuples and layouts with SSA leaves, `View`,
            `SsaPointer`, `Atom`.
        entry: The function's entry block.
    """

    def __init__(self, function: Any, target: Target | None = None) -> None:
        self.entry = function.regions[0].blocks[0]
        self.emitter = Emitter(self.entry, function, target)
        self.values: dict[Any, Any] = {}
        self.atoms: dict[Any, Any] = {}
        self._done: list[Any] = []

    # Values

    def get(self, value: mlir.ir.Value) -> Any:
        """Return what an operand stands for; integers are leaves."""
        found = self.values.get(value)
        if found is not None:
            return found
        kind = ft.of(value.type)
        if isinstance(kind, ft.PtrType):
            return SsaPointer(self.emitter, value, kind)
        if kind is not None:
            raise CompilerBug(
                f"a value of type {kind} has no definition that can be lowered; was "
                "fly-rewrite-func-signature run?",
                code="FLY-B321",
            )
        return self.leaf(value)

    def leaf(self, value: mlir.ir.Value) -> Leaf:
        """Return the leaf of an i32, i64 or index value.

        A constant is a run-time leaf too, as in the inferred types: the algebra would otherwise
        take another path than it took for them.
        """
        text = str(value.type)
        if text != "index":
            return self.emitter.leaf(value, _INTEGER_WIDTHS.get(text, 64))
        narrow = self.emitter.fits_i32(value)
        key = ("cast", value)
        cast = self.emitter.lookup(key)
        if cast is None:
            kind = mlir.ir.IntegerType.get_signless(32 if narrow else 64)
            cast = self.create("arith.index_cast", [kind], [value]).result
            self.emitter.store(key, cast)
        leaf = self.emitter.leaf(cast, 32 if narrow else 64)
        return leaf.extend() if narrow else leaf

    def dynamic_leaf(self, value: mlir.ir.Value, like: Any, *, nonnegative: bool = False) -> Any:
        """Return the leaf of a value with the divisor that a type promises; never an int."""
        return self.emitter.leaf(value, like.width, like.divisor, nonnegative=nonnegative)

    def create(
        self,
        name: str,
        results: list[Any],
        operands: list[mlir.ir.Value],
        attributes: dict[str, Any] | None = None,
    ) -> Any:
        """Create an operation before the one being lowered."""
        anchor = self.emitter.anchor
        return mlir.ir.Operation.create(
            name,
            results=results,
            operands=operands,
            attributes=attributes,
            ip=mlir.ir.InsertionPoint(anchor),
            loc=anchor.location,
        )

    def done(self, op: Any) -> None:
        """Erase `op` when the function is finished: nodes may be emitted before it until then."""
        self._done.append(op)

    # Walking

    def run(self) -> None:
        """Lower the function."""
        self._block(self.entry)
        for op in reversed(self._done):
            op.erase()

    def _block(self, block: Any) -> None:
        for view in list(block.operations):
            op = view.operation
            name = op.name
            if name.startswith("fly."):
                self.emitter.anchor = op
                try:
                    self._lower(op, name[4:])
                except FlyDSLError as error:
                    raise error.with_location(source_location(op.location)) from None
                continue
            for region in op.regions:
                for inner in region.blocks:
                    self.emitter.push()
                    self._block(inner)
                    self.emitter.pop()

    def _lower(self, op: Any, name: str) -> None:
        function = ALGEBRA.get(name)
        if function is not None:
            self._algebra(op, name, function)
            return
        handler = _HANDLERS.get(name)
        if handler is not None:
            handler(self, op)

    def _algebra(self, op: Any, name: str, function: Callable[..., Any]) -> None:
        keywords = {
            attr: decode(op.attributes[attr])
            for attr in op.attributes
            if attr not in _ATTRIBUTES_OF_FORM
        }
        operands = [self.get(x) for x in op.operands]
        plain = [x.kind if isinstance(x, Atom) else x for x in operands]
        self.bind(op.result, _atom_result(name, operands, function(*plain, **keywords)), name)
        self.done(op)

    def bind(self, result: mlir.ir.Value, value: Any, name: str = "") -> None:
        """Record what `result` stands for; scalars and used pointers are replaced."""
        if name in SCALAR_RESULTS:
            width = int(str(result.type)[1:])
            if any(True for _ in result.uses):
                number = int(value) if isinstance(value, bool) else value
                result.replace_all_uses_with(self.emitter.value_of(number, width))
            return
        self.values[result] = value
        if isinstance(value, SsaPointer) and any(
            not _is_lowered(use.owner.name) for use in result.uses
        ):
            replacement = value.value
            if replacement != result:
                result.replace_all_uses_with(replacement)
                self.values[replacement] = value

    # Constructors and boundaries

    def make_tuple(self, op: Any) -> None:
        """``fly.make_int_tuple`` and its synonyms."""
        kind = ft.of(op.result.type)
        assert isinstance(kind, ft.IntTupleType)
        leaves = leaves_of(kind.value)
        operands = [
            self.dynamic_leaf(value, leaf) for value, leaf in zip(op.operands, leaves, strict=True)
        ]
        self.bind(op.result, with_leaves(kind.value, operands))
        self.done(op)

    def make_static(self, op: Any) -> None:
        """``fly.static``."""
        kind = ft.of(op.result.type)
        assert kind is not None
        self.bind(op.result, Atom(kind) if _is_atom(kind) else value_of_type(kind))
        self.done(op)

    def make_atom(self, op: Any) -> None:
        """``fly.make_copy_atom`` and ``fly.make_mma_atom`` stay; the value knows its operation."""
        kind = ft.of(op.result.type)
        assert kind is not None
        self.values[op.result] = Atom(kind, op.result)

    def set_atom_value(self, op: Any) -> None:
        """``fly.atom_set_value``; on a tiled operation it is set on the atom below."""
        atom = self.get(op.operands[0])
        inner = atom.value_in(self)
        if inner == op.operands[0]:
            self.values[op.result] = Atom(atom.kind, op.result)
            return
        made = self.create(
            op.name, [inner.type], [inner, op.operands[1]], {"field": op.attributes["field"]}
        )
        self.values[op.result] = Atom(atom.kind, made.result)
        self.done(op)

    def pack(self, op: Any) -> None:
        """``fly.pack``: extents of layouts are not negative."""
        kind = ft.of(op.result.type)
        assert kind is not None
        operands = list(op.operands)
        value = value_of_type(kind)
        if isinstance(kind, ft.MemRefType):
            value = View(self.get(operands.pop(0)), kind.layout)
        made = [
            self.dynamic_leaf(x, leaf, nonnegative=known)
            for x, (leaf, known) in zip(operands, _leaves_and_extents(value), strict=True)
        ]
        self.bind(op.result, with_leaves(value, made))
        self.done(op)

    def unpack(self, op: Any) -> None:
        """``fly.unpack``."""
        value = self.get(op.operands[0])
        results = list(op.results)
        if isinstance(value, View):
            results.pop(0).replace_all_uses_with(value.pointer.value)
        leaves = leaves_of(value)
        for result, leaf in zip(results, leaves, strict=True):
            width = int(str(result.type)[1:])
            result.replace_all_uses_with(self.emitter.value_of(leaf, width))
        self.done(op)


def _leaves_and_extents(value: Any) -> list[tuple[Any, bool]]:
    """Return the run-time leaves in the order of operands, and whether each is an extent."""
    layout = value.layout if isinstance(value, View) else value
    leaves = fl.dynamic_leaves(layout)
    extents = len(fl.dynamic_leaves(layout.shape)) if isinstance(layout, fl.Layout) else 0
    marked = [(leaf, i < extents) for i, leaf in enumerate(leaves)]
    return sorted(marked, key=lambda pair: pair[0].width)


def _is_atom(kind: ft.FlyType) -> bool:
    return isinstance(kind, ft.CopyAtomType | ft.MmaAtomType | ft.TiledCopyType | ft.TiledMmaType)


def _atom_result(name: str, operands: list[Any], value: Any) -> Any:
    """Keep the SSA value (with its state) of the atom that a tiled operation is made of."""
    if not isinstance(value, ft.FlyType) or not _is_atom(value):
        return value
    if name in ("make_tiled_copy", "make_tiled_mma", "get_copy_atom", "get_mma_atom"):
        return Atom(value, operands[0].value)
    return Atom(value)


_HANDLERS: dict[str, Callable[[Lowering, Any], None]] = {
    **dict.fromkeys(_TUPLE_OPS, Lowering.make_tuple),
    "static": Lowering.make_static,
    "make_copy_atom": Lowering.make_atom,
    "make_mma_atom": Lowering.make_atom,
    "atom_set_value": Lowering.set_atom_value,
    "pack": Lowering.pack,
    "unpack": Lowering.unpack,
    **MEMORY_HANDLERS,
    **ATOM_HANDLERS,
}


def _is_lowered(name: str) -> bool:
    """Return whether operations of that name are evaluated, so they need no operand values."""
    return name.startswith("fly.") and (name[4:] in ALGEBRA or name[4:] in _HANDLERS)


def run(module: mlir.ir.Module, target: Target | None = None, **options: object) -> None:  # noqa: ARG001
    """Lower the layout operations of every function of `module`.

    Raises:
        UserError: A copy or access needs something that is not known at compile time.
        CompilerBug: A Fly value still crosses a boundary.
    """
    with module.context, mlir.ir.Location.unknown():
        for op in list(functions(module)):
            Lowering(op, target).run()
