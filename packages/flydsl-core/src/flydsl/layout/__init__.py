"""The layout algebra: pure Python, usable in a REPL, inside kernels and in the compiler alike.

Modules, low to high: `leaf` (the leaf protocol), `basis`, `tuples`, `evaluate`, `swizzle`, `layouts`
and `composed` (the objects), `text` (canonical text), `walk` (leaves), then the operations.

To add an operation: write it in the module of its kind (or a new one) with the functions of `leaf`
as its only arithmetic, deciding only on static ints, widths and divisors; export it here; test it
against brute force over all coordinates in ``tests/unit/layout``.
"""

from __future__ import annotations

from flydsl.layout.basis import Basis, E
from flydsl.layout.composed import ComposedLayout, CoordTensor, Tile
from flydsl.layout.layouts import Layout
from flydsl.layout.leaf import Dyn, DynamicLeaf
from flydsl.layout.swizzle import CoordSwizzle, Swizzle
from flydsl.layout.text import parse, to_text
from flydsl.layout.walk import (
    dynamic_leaves,
    leaves,
    map_leaves,
    operand_leaves,
    rebuild,
    rebuild_from_operands,
    symbolic,
)

__all__ = [
    "Basis",
    "ComposedLayout",
    "CoordSwizzle",
    "CoordTensor",
    "Dyn",
    "DynamicLeaf",
    "E",
    "Layout",
    "Swizzle",
    "Tile",
    "dynamic_leaves",
    "leaves",
    "map_leaves",
    "operand_leaves",
    "parse",
    "rebuild",
    "rebuild_from_operands",
    "symbolic",
    "to_text",
]
