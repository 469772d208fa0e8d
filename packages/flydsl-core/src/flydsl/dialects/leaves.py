"""The run-time leaves of Fly types and values: which they are, and rebuilding a value from them.

Order everywhere: as in the type's text, left to right (pre-order); across a boundary the 32-bit
leaves come first, then the 64-bit ones (`flydsl.layout.operand_leaves`). `View` is added here to
what `flydsl.layout` knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flydsl import layout as fl
from flydsl.dialects import fly_types as ft
from flydsl.dialects.infer import value_of_type
from flydsl.dialects.views import View
from flydsl.errors import CompilerBug, UserError
from flydsl.layout.leaf import DynamicLeaf

__all__ = ["leaf_widths", "leaves_of", "with_leaves"]


def leaves_of(x: Any) -> tuple[DynamicLeaf, ...]:
    """Return the run-time leaves of a value in the order of operands."""
    return fl.operand_leaves(x.layout if isinstance(x, View) else x)


def leaf_widths(kind: ft.FlyType) -> list[int]:
    """Return the widths of a type's run-time leaves, in the order of operands."""
    if "?" not in str(kind):
        return []
    return [leaf.width for leaf in leaves_of(value_of_type(kind))]


def with_leaves(x: Any, leaves: Sequence[Any]) -> Any:
    """Return `x` with its run-time leaves replaced by `leaves`, given in the order of operands.

    Raises:
        CompilerBug: Their number differs.
    """
    try:
        if isinstance(x, View):
            return View(x.pointer, fl.rebuild_from_operands(x.layout, leaves))
        return fl.rebuild_from_operands(x, leaves)
    except UserError as error:
        raise CompilerBug(f"the leaves do not fit {x}", code="FLY-B313") from error
