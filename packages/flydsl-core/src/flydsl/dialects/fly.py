"""One builder per Fly operation; result types are inferred, wrong operands raise `UserError`.

Operands are SSA values; where an integer tuple, layout, tile or swizzle is expected, the Python
value works too (nested tuples may hold i32, i64 or index values; None is the wildcard). Operations
are made at the ambient ``ir.InsertionPoint`` with the ambient ``ir.Location``.
"""

from __future__ import annotations

from flydsl.dialects.building import Builder, as_value, int_tuple, static
from flydsl.dialects.fly_atomics import (
    atomic_cas,
    atomic_rmw,
    fence,
    ordered_load,
    ordered_store,
)
from flydsl.dialects.fly_atoms import (
    atom_set_value,
    copy,
    copy_atom_call,
    copy_atom_call_ssa,
    gemm,
    gemm_steps,
    make_copy_atom,
    make_mma_atom,
    mma_atom_call,
    mma_atom_call_ssa,
    mma_make_fragment,
    tiled_mma_partition,
    tiled_mma_partition_shape,
)
from flydsl.dialects.fly_memory import (
    alloca,
    get_dyn_shared,
    inttoptr,
    make_fragment_like,
    make_ptr,
    make_tile,
    memref_alloca,
    memref_load,
    memref_load_vec,
    memref_store,
    memref_store_vec,
    pack,
    ptr_load,
    ptr_store,
    ptrtoint,
    recast_iter,
    to_llvm_ptr,
    unpack,
)

__all__ = [
    "add_offset",
    "alloca",
    "append",
    "apply_swizzle",
    "as_value",
    "atom_set_value",
    "atomic_cas",
    "atomic_rmw",
    "blocked_product",
    "ceil_div",
    "coalesce",
    "complement",
    "composed_get_inner",
    "composed_get_offset",
    "composed_get_outer",
    "composition",
    "coprofile",
    "copy",
    "copy_atom_call",
    "copy_atom_call_ssa",
    "coshape",
    "cosize",
    "crd2idx",
    "dice",
    "elem_less",
    "equal",
    "fence",
    "flat_divide",
    "flat_product",
    "gemm",
    "gemm_steps",
    "get",
    "get_1d_coord",
    "get_copy_atom",
    "get_dyn_shared",
    "get_flat_coord",
    "get_iter",
    "get_layout",
    "get_layout_tv",
    "get_mma_atom",
    "get_scalar",
    "get_shape",
    "get_stride",
    "group",
    "idx2crd",
    "int_tuple_add",
    "int_tuple_div",
    "int_tuple_mod",
    "int_tuple_mul",
    "int_tuple_product",
    "int_tuple_product_each",
    "int_tuple_product_like",
    "int_tuple_sub",
    "inttoptr",
    "left_inverse",
    "logical_divide",
    "logical_product",
    "make_composed_layout",
    "make_coord",
    "make_copy_atom",
    "make_fragment_layout_like",
    "make_fragment_like",
    "make_identity_layout",
    "make_int_tuple",
    "make_layout",
    "make_layout_like",
    "make_mma_atom",
    "make_ordered_layout",
    "make_ptr",
    "make_shape",
    "make_stride",
    "make_tile",
    "make_tiled_copy",
    "make_tiled_mma",
    "make_view",
    "max_common_layout",
    "memref_alloca",
    "memref_load",
    "memref_load_vec",
    "memref_store",
    "memref_store_vec",
    "mma_atom_call",
    "mma_atom_call_ssa",
    "mma_make_fragment",
    "nullspace",
    "ordered_load",
    "ordered_store",
    "pack",
    "prepend",
    "ptr_load",
    "ptr_store",
    "ptrtoint",
    "raked_product",
    "recast_iter",
    "recast_layout",
    "right_inverse",
    "select",
    "shape_div",
    "size",
    "slice",
    "static",
    "take",
    "tile_to_shape",
    "tiled_copy_partition_dst",
    "tiled_copy_partition_src",
    "tiled_copy_retile",
    "tiled_divide",
    "tiled_mma_partition",
    "tiled_mma_partition_shape",
    "tiled_product",
    "to_llvm_ptr",
    "unpack",
    "zipped_divide",
    "zipped_product",
]

make_int_tuple = make_shape = make_stride = make_coord = int_tuple

# Constructors
make_layout = Builder("make_layout")
make_ordered_layout = Builder("make_ordered_layout")
make_identity_layout = Builder("make_identity_layout")
make_layout_like = Builder("make_layout_like")
make_fragment_layout_like = Builder("make_fragment_layout_like")
make_composed_layout = Builder("make_composed_layout")
make_view = Builder("make_view")

# Queries
get_shape = Builder("get_shape")
get_stride = Builder("get_stride")
get_layout = Builder("get_layout")
get_iter = Builder("get_iter")
composed_get_inner = Builder("composed_get_inner")
composed_get_offset = Builder("composed_get_offset")
composed_get_outer = Builder("composed_get_outer")
get = Builder("get")
get_scalar = Builder("get_scalar")
size = Builder("size")
cosize = Builder("cosize")
coshape = Builder("coshape")
coprofile = Builder("coprofile")

# Tuples and modes
int_tuple_add = Builder("int_tuple_add")
int_tuple_sub = Builder("int_tuple_sub")
int_tuple_mul = Builder("int_tuple_mul")
int_tuple_div = Builder("int_tuple_div")
int_tuple_mod = Builder("int_tuple_mod")
int_tuple_product = Builder("int_tuple_product")
int_tuple_product_each = Builder("int_tuple_product_each")
int_tuple_product_like = Builder("int_tuple_product_like")
shape_div = Builder("shape_div")
ceil_div = Builder("ceil_div")
elem_less = Builder("elem_less")
equal = Builder("equal")
append = Builder("append")
prepend = Builder("prepend")
select = Builder("select")
take = Builder("take")
group = Builder("group")
slice = Builder("slice")  # noqa: A001
dice = Builder("dice")

# Algebra
coalesce = Builder("coalesce")
complement = Builder("complement")
composition = Builder("composition")
right_inverse = Builder("right_inverse")
left_inverse = Builder("left_inverse")
nullspace = Builder("nullspace")
max_common_layout = Builder("max_common_layout")
tile_to_shape = Builder("tile_to_shape")
recast_layout = Builder("recast_layout")
crd2idx = Builder("crd2idx")
idx2crd = Builder("idx2crd")
get_flat_coord = Builder("get_flat_coord")
get_1d_coord = Builder("get_1d_coord")
logical_divide = Builder("logical_divide")
zipped_divide = Builder("zipped_divide")
tiled_divide = Builder("tiled_divide")
flat_divide = Builder("flat_divide")
logical_product = Builder("logical_product")
zipped_product = Builder("zipped_product")
tiled_product = Builder("tiled_product")
flat_product = Builder("flat_product")
blocked_product = Builder("blocked_product")
raked_product = Builder("raked_product")

# Pointers
add_offset = Builder("add_offset")
apply_swizzle = Builder("apply_swizzle")

# Tiled operations
make_tiled_copy = Builder("make_tiled_copy")
make_tiled_mma = Builder("make_tiled_mma")
get_copy_atom = Builder("get_copy_atom")
get_mma_atom = Builder("get_mma_atom")
get_layout_tv = Builder("get_layout_tv")
tiled_copy_partition_src = Builder("tiled_copy_partition_src")
tiled_copy_partition_dst = Builder("tiled_copy_partition_dst")
tiled_copy_retile = Builder("tiled_copy_retile")
