"""The Fly dialect: types, operations, atoms, and the layout algebra behind them.

- `definition`: the dialect as data, from which its IRDL is made; importing this package registers
  it with `flydsl.mlir`.
- `fly_types`: Python values of the types (``of(ir_type)``, ``kind.ir``), cached per context.
- `fly`: one builder per operation (`fly_memory`, `fly_atoms`, and `building` behind it).
- `algebra`, `tiled`, `views`: operations as functions on Python values; `infer` gives result types
  from them, `fly-layout-lowering` evaluates them on SSA leaves.
- `atoms`: copy and MMA operations; targets subclass and `atoms.register` them.
- `checks`, `verify`: whether operands fit.
- `leaves`: run-time leaves and their order across boundaries.

To add an operation of the algebra: a line in `definition.OPS`, one in `algebra.ALGEBRA`, one in
`fly`.

Facts about the form of the IR that producers and consumers share:

- IRDL operation names hold no dots, so ``fly.memref.load`` is ``fly.memref_load``, and so on.
- The stream of ``gpu.launch_func`` is its async object, an i64; grid, block and cluster are i32.
- A static allocation is ``fly.alloca() {bytes, sym}``; ``sym`` names a shared one and is unique in
  the gpu.module. A tensor in shared memory is ``fly.memref_alloca() {sym}`` and becomes that.
- Layout-like type parameters are string attributes with the canonical text of `flydsl.layout`.
- ``!fly.tiled_copy<operation, value bits, (thread, value) layout, tile>`` and
  ``!fly.tiled_mma<operation, atom layout, permutation>``.
- A pointer's swizzle acts on byte addresses; after `fly-layout-lowering` no access uses one.
- ``fly.pack`` and ``fly.unpack`` convert between a Fly value and its leaves at boundaries.
"""

from __future__ import annotations

from flydsl.dialects.definition import DIALECT, OPS, TYPES, OpSpec, irdl_source
from flydsl.mlir import register_dialect_source

__all__ = ["DIALECT", "OPS", "TYPES", "OpSpec", "irdl_source"]

register_dialect_source(DIALECT, irdl_source(DIALECT, TYPES, OPS))
