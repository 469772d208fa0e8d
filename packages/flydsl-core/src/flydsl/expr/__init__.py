"""The expression language (``import flydsl.expr as fx``): what kernels are written with.

Values: `numeric` (numbers), `vector`, `layouts`, `tuple_functions`, `layout_functions` and
`layout_questions` (algebra), `pointers`, `tensors`, `storage`, `structs` (with
`fields`) and `shared` (memory), `annotations`.
Operations: `copying`, `gathering`, `tiling`, `multiply`, `gemms`, `atomics`, `gpu`, `output`,
`math_ops`, `extremes`, `arith`, `fast` (fast-math flags), `static` (compile-time control).
Inside: `ambient` (the trace in progress), `emit` and `locations` (operations and where they come
from), `wrapping` (IR values as DSL values), `values`, `stored`, `lanes`, `enums`.

To add a function, put it in the module of its subject, name it in that module's ``__all__`` and in
the list here. Namespaces such as ``fx.rocdl`` come from plugins, on first use.
"""

from __future__ import annotations

# ruff: noqa: A004, I001  (the public API has names of builtins; the lists are packed)
import sys
from typing import TYPE_CHECKING, Any


from flydsl.expr import arith, gpu, numeric, vector
from flydsl.expr import math_ops as math
from flydsl.expr.annotations import Constexpr, Stream
from flydsl.expr.arith import ceildiv, cmpf, cmpi, shrui
from flydsl.expr.atomics import (
    atomic_add, atomic_and, atomic_cas, atomic_fmax, atomic_fmin, atomic_max, atomic_min, atomic_or,
    atomic_sub, atomic_xchg, atomic_xor, generic_load, generic_store, memory_fence,
)  # fmt: skip
from flydsl.expr.copying import (
    CopyAtom, UniversalAtomic, UniversalAtomicAdd, UniversalAtomicAnd, UniversalAtomicDec,
    UniversalAtomicInc, UniversalAtomicMax, UniversalAtomicMin, UniversalAtomicOr, UniversalCopy,
    UniversalCopy128b, UniversalCopy16b, UniversalCopy32b, UniversalCopy64b, UniversalCopy8b,
    atom_set_value, copy, copy_atom_call, make_copy_atom,
)  # fmt: skip
from flydsl.expr.enums import (
    AddressSpace, AtomicOp, AtomicOrdering, CachePolicy, GemmTraversalOrder, MmaOperand,
    ReductionOp, RoundingMode, SyncScope,
)  # fmt: skip
from flydsl.expr.extremes import max, maximumf, maxnumf, min, minimumf, minnumf
from flydsl.expr.fast import FastMathFlags, fastmath
from flydsl.expr.gathering import gather, scatter
from flydsl.expr.gemms import gemm, mma_atom_call
from flydsl.expr.gpu import (
    barrier, block_dim, block_id, block_idx, grid_dim, known_block_size, lane_id,
    num_warp_threads, shuffle, shuffle_down, shuffle_idx, shuffle_up, shuffle_xor, thread_id,
    thread_idx,
)  # fmt: skip
from flydsl.expr.layout_functions import (
    append, blocked_product, coalesce, complement, composed_get_inner, composed_get_offset,
    composed_get_outer, composition, coprofile, coshape, cosize, crd2idx, dice, flat_divide,
    flat_product, get, get_, get_1d_coord, get_flat_coord, get_iter, get_layout, get_shape,
    get_stride, group, idx2crd, left_inverse, logical_divide, logical_product,
    make_composed_layout, make_fragment_layout_like, make_identity_layout, make_layout,
    make_layout_like, make_ordered_layout, make_tile, prepend, raked_product, recast_layout,
    right_inverse, select, size, slice, take, tile_to_shape, tiled_divide, tiled_product,
    zipped_divide, zipped_product,
)  # fmt: skip
from flydsl.expr.layout_questions import (
    compatible, congruent, is_bijective, is_injective, is_profile_congruent,
    is_profile_weakly_congruent, is_surjective, make_layout_tv, max_common_layout,
    max_common_vector, nullspace, weakly_congruent,
)  # fmt: skip
from flydsl.expr.layouts import IntTupleValue, LayoutValue
from flydsl.expr.tuple_functions import (
    ceil_div, depth, elem_less, equal, get_leaves, get_scalar, has_none, int_tuple_add,
    int_tuple_div, int_tuple_mod, int_tuple_mul, int_tuple_product, int_tuple_product_each,
    int_tuple_product_like, int_tuple_sub, make_coord, make_int_tuple, make_shape, make_stride,
    rank, shape_div,
)  # fmt: skip
from flydsl.expr.making import empty_like, full, full_like, ones_like, zeros_like
from flydsl.expr.math_ops import (
    absf, absi, acos, acosh, asin, asinh, atan, atan2, atanh, cbrt, ceil, clampf, copysign, cos,
    cosh, ctlz, ctpop, cttz, erf, erfc, exp, exp2, expm1, floor, fma, fpowi, ipowi, isfinite,
    isinf, isnan, isnormal, log, log10, log1p, log2, powf, round, roundeven, rsqrt, sin, sincos,
    sinh, sqrt, tan, tanh, trunc,
)  # fmt: skip
from flydsl.expr.multiply import (
    MmaAtom, ThrMma, TiledMma, UniversalFMA, make_mma_atom, make_tiled_mma,
)  # fmt: skip
from flydsl.expr.numeric import (
    BFloat16, Boolean, Float16, Float32, Float4E2M1FN, Float64, Float6E2M3FN, Float6E3M2FN,
    Float8E4M3, Float8E4M3B11FNUZ, Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ,
    Float8E8M0FNU, Index, Int128, Int16, Int32, Int4, Int64, Int8, Numeric, Uint128, Uint16,
    Uint32, Uint64, Uint8,
)  # fmt: skip
from flydsl.expr.output import device_assert, printf
from flydsl.expr.pointers import (
    Pointer, PointerType, add_offset, apply_swizzle, get_dyn_shared, inttoptr, make_ptr,
    make_view, ptr_load, ptr_store, ptrtoint, recast_iter, to_llvm_ptr,
)  # fmt: skip
from flydsl.expr.shared import Arena, SharedAllocator
from flydsl.expr.static import const_expr, range_constexpr
from flydsl.expr.storage import Align, Array, Storage
from flydsl.expr.structs import Empty, Struct, struct, union
from flydsl.expr.tensors import (
    CoordTensor, Tensor, make_fragment_like, make_rmem_tensor, memref_alloca, memref_load,
    memref_load_vec, memref_store, memref_store_vec,
)  # fmt: skip
from flydsl.expr.tiling import (
    ThrCopy, TiledCopy, make_tiled_copy, make_tiled_copy_A, make_tiled_copy_B, make_tiled_copy_C,
    make_tiled_copy_tv,
)  # fmt: skip
from flydsl.expr.vector import Vector
from flydsl.expr.vector_types import (
    BFloat16x1, BFloat16x16, BFloat16x2, BFloat16x4, BFloat16x8, Float16x1, Float16x16,
    Float16x2, Float16x4, Float16x8, Float32x1, Float32x2, Float32x4, Float32x8,
    Float4E2M1FNx16, Float4E2M1FNx2, Float4E2M1FNx32, Float4E2M1FNx4, Float4E2M1FNx8, Float64x1,
    Float64x2, Float64x4, Float8E4M3B11FNUZx1, Float8E4M3B11FNUZx16, Float8E4M3B11FNUZx2,
    Float8E4M3B11FNUZx4, Float8E4M3B11FNUZx8, Float8E4M3FNUZx1, Float8E4M3FNUZx16,
    Float8E4M3FNUZx2, Float8E4M3FNUZx4, Float8E4M3FNUZx8, Float8E4M3FNx1, Float8E4M3FNx16,
    Float8E4M3FNx2, Float8E4M3FNx4, Float8E4M3FNx8, Float8E4M3x1, Float8E4M3x16, Float8E4M3x2,
    Float8E4M3x4, Float8E4M3x8, Float8E5M2x1, Float8E5M2x16, Float8E5M2x2, Float8E5M2x4,
    Float8E5M2x8, Float8E8M0FNUx1, Float8E8M0FNUx16, Float8E8M0FNUx2, Float8E8M0FNUx4,
    Float8E8M0FNUx8, Int128x1, Int16x1, Int16x16, Int16x2, Int16x4, Int16x8, Int32x1, Int32x2,
    Int32x4, Int32x8, Int4x16, Int4x2, Int4x32, Int4x4, Int4x8, Int64x1, Int64x2, Int64x4,
    Int8x1, Int8x16, Int8x2, Int8x4, Int8x8, Uint128x1, Uint16x1, Uint16x16, Uint16x2, Uint16x4,
    Uint16x8, Uint32x1, Uint32x2, Uint32x4, Uint32x8, Uint64x1, Uint64x2, Uint64x4, Uint8x1,
    Uint8x16, Uint8x2, Uint8x4, Uint8x8,
)  # fmt: skip

if TYPE_CHECKING:
    from flydsl.layout import Basis, ComposedLayout, E, Layout, Swizzle, Tile


__all__ = [
    "AddressSpace", "Align", "Arena", "Array", "AtomicOp", "AtomicOrdering", "BFloat16",
    "BFloat16x1", "BFloat16x2", "BFloat16x4", "BFloat16x8", "BFloat16x16", "Basis", "Boolean",
    "CachePolicy", "ComposedLayout", "Constexpr", "CoordTensor", "CopyAtom", "E", "Empty",
    "FastMathFlags", "Float4E2M1FN", "Float4E2M1FNx2", "Float4E2M1FNx4", "Float4E2M1FNx8",
    "Float4E2M1FNx16", "Float4E2M1FNx32", "Float6E2M3FN", "Float6E3M2FN", "Float8E4M3",
    "Float8E4M3B11FNUZ", "Float8E4M3B11FNUZx1", "Float8E4M3B11FNUZx2", "Float8E4M3B11FNUZx4",
    "Float8E4M3B11FNUZx8", "Float8E4M3B11FNUZx16", "Float8E4M3FN", "Float8E4M3FNUZ",
    "Float8E4M3FNUZx1", "Float8E4M3FNUZx2", "Float8E4M3FNUZx4", "Float8E4M3FNUZx8",
    "Float8E4M3FNUZx16", "Float8E4M3FNx1", "Float8E4M3FNx2", "Float8E4M3FNx4", "Float8E4M3FNx8",
    "Float8E4M3FNx16", "Float8E4M3x1", "Float8E4M3x2", "Float8E4M3x4", "Float8E4M3x8",
    "Float8E4M3x16", "Float8E5M2", "Float8E5M2FNUZ", "Float8E5M2x1", "Float8E5M2x2", "Float8E5M2x4",
    "Float8E5M2x8", "Float8E5M2x16", "Float8E8M0FNU", "Float8E8M0FNUx1", "Float8E8M0FNUx2",
    "Float8E8M0FNUx4", "Float8E8M0FNUx8", "Float8E8M0FNUx16", "Float16", "Float16x1", "Float16x2",
    "Float16x4", "Float16x8", "Float16x16", "Float32", "Float32x1", "Float32x2", "Float32x4",
    "Float32x8", "Float64", "Float64x1", "Float64x2", "Float64x4", "GemmTraversalOrder", "Index",
    "Int4", "Int4x2", "Int4x4", "Int4x8", "Int4x16", "Int4x32", "Int8", "Int8x1", "Int8x2",
    "Int8x4", "Int8x8", "Int8x16", "Int16", "Int16x1", "Int16x2", "Int16x4", "Int16x8", "Int16x16",
    "Int32", "Int32x1", "Int32x2", "Int32x4", "Int32x8", "Int64", "Int64x1", "Int64x2", "Int64x4",
    "Int128", "Int128x1", "IntTupleValue", "Layout", "LayoutValue", "MmaAtom", "MmaOperand",
    "Numeric", "Pointer", "PointerType", "ReductionOp", "RoundingMode", "SharedAllocator",
    "Storage", "Stream", "Struct", "Swizzle", "SyncScope", "Tensor", "ThrCopy", "ThrMma", "Tile",
    "TiledCopy", "TiledMma", "Uint8", "Uint8x1", "Uint8x2", "Uint8x4", "Uint8x8", "Uint8x16",
    "Uint16", "Uint16x1", "Uint16x2", "Uint16x4", "Uint16x8", "Uint16x16", "Uint32", "Uint32x1",
    "Uint32x2", "Uint32x4", "Uint32x8", "Uint64", "Uint64x1", "Uint64x2", "Uint64x4", "Uint128",
    "Uint128x1", "UniversalAtomic", "UniversalAtomicAdd", "UniversalAtomicAnd",
    "UniversalAtomicDec", "UniversalAtomicInc", "UniversalAtomicMax", "UniversalAtomicMin",
    "UniversalAtomicOr", "UniversalCopy", "UniversalCopy8b", "UniversalCopy16b", "UniversalCopy32b",
    "UniversalCopy64b", "UniversalCopy128b", "UniversalFMA", "Vector", "absf", "absi", "acos",
    "acosh", "add_offset", "append", "apply_swizzle", "arith", "asin", "asinh", "atan", "atan2",
    "atanh", "atom_set_value", "atomic_add", "atomic_and", "atomic_cas", "atomic_fmax",
    "atomic_fmin", "atomic_max", "atomic_min", "atomic_or", "atomic_sub", "atomic_xchg",
    "atomic_xor", "barrier", "block_dim", "block_id", "block_idx", "blocked_product", "cbrt",
    "ceil", "ceil_div", "ceildiv", "clampf", "cmpf", "cmpi", "coalesce", "compatible", "complement",
    "composed_get_inner", "composed_get_offset", "composed_get_outer", "composition", "congruent",
    "const_expr", "coprofile", "copy", "copy_atom_call", "copysign", "cos", "cosh", "coshape",
    "cosize", "crd2idx", "ctlz", "ctpop", "cttz", "depth", "device_assert", "dice", "elem_less",
    "empty_like", "equal", "erf", "erfc", "exp", "exp2", "expm1", "fastmath", "flat_divide",
    "flat_product", "floor", "fma", "fpowi", "full", "full_like", "gather", "gemm", "generic_load",
    "generic_store", "get", "get_", "get_1d_coord", "get_dyn_shared", "get_flat_coord", "get_iter",
    "get_layout", "get_leaves", "get_scalar", "get_shape", "get_stride", "gpu", "grid_dim", "group",
    "has_none", "idx2crd", "int_tuple_add", "int_tuple_div", "int_tuple_mod", "int_tuple_mul",
    "int_tuple_product", "int_tuple_product_each", "int_tuple_product_like", "int_tuple_sub",
    "inttoptr", "ipowi", "is_bijective", "is_injective", "is_profile_congruent",
    "is_profile_weakly_congruent", "is_surjective", "isfinite", "isinf", "isnan", "isnormal",
    "known_block_size", "lane_id", "left_inverse", "log", "log1p", "log2", "log10",
    "logical_divide", "logical_product", "make_composed_layout", "make_coord", "make_copy_atom",
    "make_fragment_layout_like", "make_fragment_like", "make_identity_layout", "make_int_tuple",
    "make_layout", "make_layout_like", "make_layout_tv", "make_mma_atom", "make_ordered_layout",
    "make_ptr", "make_rmem_tensor", "make_shape", "make_stride", "make_tile", "make_tiled_copy",
    "make_tiled_copy_A", "make_tiled_copy_B", "make_tiled_copy_C", "make_tiled_copy_tv",
    "make_tiled_mma", "make_view", "math", "max", "max_common_layout", "max_common_vector",
    "maximumf", "maxnumf", "memory_fence", "memref_alloca", "memref_load", "memref_load_vec",
    "memref_store", "memref_store_vec", "min", "minimumf", "minnumf", "mma_atom_call", "nullspace",
    "num_warp_threads", "numeric", "ones_like", "powf", "prepend", "printf", "ptr_load",
    "ptr_store", "ptrtoint", "raked_product", "range_constexpr", "rank", "recast_iter",
    "recast_layout", "right_inverse", "round", "roundeven", "rsqrt", "scatter", "select",
    "shape_div", "shrui", "shuffle", "shuffle_down", "shuffle_idx", "shuffle_up", "shuffle_xor",
    "sin", "sincos", "sinh", "size", "slice", "sqrt", "struct", "take", "tan", "tanh", "thread_id",
    "thread_idx", "tile_to_shape", "tiled_divide", "tiled_product", "to_llvm_ptr", "trunc", "union",
    "vector", "weakly_congruent", "zeros_like", "zipped_divide", "zipped_product",
]  # fmt: skip

# Importing the path flydsl.expr.struct would put its module in the place of the decorator. A module
# that is loaded already is only looked up.
sys.modules.setdefault(f"{__name__}.struct", sys.modules[__name__])

_PLAIN = frozenset({"Basis", "ComposedLayout", "CoordSwizzle", "E", "Layout", "Swizzle", "Tile"})


def __getattr__(name: str) -> Any:
    """Return a class of the layout algebra, or a namespace of a plugin such as ``fx.rocdl``.

    The algebra's own objects are what is known while tracing; run-time ones are `LayoutValue`.

    Raises:
        UserAttributeError: There is no such name; says what is close or what to install.
    """
    if name in _PLAIN:
        from flydsl import layout

        value = globals()[name] = getattr(layout, name)
        return value
    if name == "llvm":
        import importlib

        return importlib.import_module("flydsl.expr.llvm")
    from flydsl.plugins.namespaces import expr_attribute

    return expr_attribute(name)


def __dir__() -> list[str]:
    return [*globals(), *_PLAIN]
