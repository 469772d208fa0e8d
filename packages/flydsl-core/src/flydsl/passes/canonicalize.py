"""``fly-canonicalize``: fold static layout algebra, merge equal pure operations, drop unused ones.

Upstream's ``canonicalize`` and ``cse`` cannot do this, because operations defined through IRDL are
not known to be pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flydsl.dialects import fly_types as ft
from flydsl.dialects.definition import OPS
from flydsl.passes.rewriting import functions

if TYPE_CHECKING:
    from flydsl.mlir import ir
    from flydsl.plugins.protocols import Target

__all__ = ["run"]

_PURE = frozenset("fly." + name for name, spec in OPS.items() if spec.pure)
_FOLDED = (
    ft.IntTupleType,
    ft.LayoutType,
    ft.ComposedLayoutType,
    ft.SwizzleType,
    ft.TileType,
    ft.CoordTensorType,
)
Scope = dict[Any, Any]


class _Folder:
    """Works through one function; `statics` maps static types to their only ``fly.static``."""

    def __init__(self, entry: Any) -> None:
        self.entry = entry
        self.statics: dict[Any, Any] = {}
        self.pure: list[Any] = []
        self.foldable: dict[Any, bool] = {}

    def is_foldable(self, type_: ir.Type) -> bool:
        """Return whether values of the type hold nothing but what the type says."""
        found = self.foldable.get(type_)
        if found is None:
            kind = ft.of(type_)
            found = isinstance(kind, _FOLDED) and "?" not in str(kind)
            self.foldable[type_] = found
        return found

    def static(self, type_: ir.Type, location: Any) -> Any:
        """Return the static value of a type, made once at the start of the function."""
        from flydsl.mlir import ir

        found = self.statics.get(type_)
        if found is None:
            op = ir.Operation.create(
                "fly.static",
                results=[type_],
                ip=ir.InsertionPoint.at_block_begin(self.entry),
                loc=location,
            )
            self.pure.insert(0, op)
            found = self.statics[type_] = op.result
        return found

    def block(self, block: Any, scopes: list[Scope]) -> None:
        """Fold and merge the operations of a block and of the regions in it."""
        for view in list(block.operations):
            op = view.operation
            name = op.name
            if name not in _PURE:
                for region in op.regions:
                    for inner in region.blocks:
                        self.block(inner, [*scopes, {}])
                continue
            if name == "fly.unpack":
                self.pure.append(op)
                continue
            result = op.result
            type_ = result.type
            if self.is_foldable(type_):
                if name == "fly.static" and type_ not in self.statics and block == self.entry:
                    self.statics[type_] = result
                    self.pure.append(op)
                    continue
                result.replace_all_uses_with(self.static(type_, op.location))
                op.erase()
                continue
            self._merge(op, name, scopes)

    def _merge(self, op: Any, name: str, scopes: list[Scope]) -> None:
        attributes = op.attributes
        named = tuple((key, attributes[key]) for key in attributes) if len(attributes) else ()
        key = (name, op.result.type, *op.operands, *named)
        for scope in scopes:
            known = scope.get(key)
            if known is not None:
                op.result.replace_all_uses_with(known)
                op.erase()
                return
        scopes[-1][key] = op.result
        self.pure.append(op)

    def drop_unused(self) -> None:
        """Erase pure operations without users, last first."""
        for op in reversed(self.pure):
            if all(next(iter(r.uses), None) is None for r in op.results):
                op.erase()


def run(module: ir.Module, target: Target | None = None, **options: object) -> None:  # noqa: ARG001
    """Fold, merge and drop the pure Fly operations of every function of `module`."""
    with module.context:
        for op in list(functions(module)):
            folder = _Folder(op.regions[0].blocks[0])
            folder.block(folder.entry, [{}])
            folder.drop_unused()
