"""The Fly dialect as data: one line per type and operation, from which its IRDL text is made.

An operand is written ``name``, ``name?`` (optional) or ``name*`` (variadic; all its values have one
type). An operation with two or more optional or variadic operands carries ``operandSegmentSizes``,
results likewise. Attributes listed here are required; optional ones are documented in `fly`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["DIALECT", "OPS", "TYPES", "OpSpec", "irdl_source"]

DIALECT = "fly"

TYPES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "int_tuple": ("value",),
        "layout": ("layout",),
        "composed_layout": ("layout",),
        "swizzle": ("swizzle",),
        "tile": ("tile",),
        "ptr": ("element", "space", "alignment", "swizzle"),
        "memref": ("element", "space", "layout", "alignment"),
        "coord_tensor": ("base", "layout"),
        "copy_atom": ("operation", "bits"),
        "mma_atom": ("operation",),
        "tiled_copy": ("operation", "bits", "layout_tv", "tile"),
        "tiled_mma": ("operation", "atom_layout", "permutation"),
    }
)
"""Type name -> its parameters (types, strings and integers; see `flydsl.dialects.fly_types`)."""


@dataclass(frozen=True, slots=True)
class OpSpec:
    """Operands, results and required attributes of one operation.

    Attributes:
        operands, results: Names, with a trailing ``?`` or ``*``.
        attributes: Names of required attributes.
        pure: It has no effect, so it may be folded, merged with an equal one, or dropped.
    """

    operands: tuple[str, ...]
    results: tuple[str, ...]
    attributes: tuple[str, ...] = ()
    pure: bool = True

    @staticmethod
    def _segmented(slots: tuple[str, ...]) -> bool:
        return sum(slot[-1] in "?*" for slot in slots) > 1

    @property
    def operand_segments(self) -> bool:
        """Whether the operation needs ``operandSegmentSizes``."""
        return self._segmented(self.operands)

    @property
    def result_segments(self) -> bool:
        """Whether the operation needs ``resultSegmentSizes``."""
        return self._segmented(self.results)


def _pure(operands: str, attributes: str = "", results: str = "result") -> OpSpec:
    return OpSpec(tuple(operands.split()), tuple(results.split()), tuple(attributes.split()))


def _effect(operands: str, attributes: str = "", results: str = "") -> OpSpec:
    return OpSpec(
        tuple(operands.split()), tuple(results.split()), tuple(attributes.split()), pure=False
    )


_CONSTRUCTORS = {
    "static": _pure(""),
    "make_int_tuple": _pure("dyn32* dyn64*"),
    "make_shape": _pure("dyn32* dyn64*"),
    "make_stride": _pure("dyn32* dyn64*"),
    "make_coord": _pure("dyn32* dyn64*"),
    "make_layout": _pure("shape stride"),
    "make_ordered_layout": _pure("shape order"),
    "make_identity_layout": _pure("shape"),
    "make_layout_like": _pure("ref"),
    "make_fragment_layout_like": _pure("src"),
    "make_composed_layout": _pure("inner offset outer"),
    "make_view": _pure("iter layout"),
    "pack": _pure("iter? dyn32* dyn64*"),
    "unpack": _pure("input", results="iter? dyn32* dyn64*"),
}

_QUERIES = {
    "get_shape": _pure("layout"),
    "get_stride": _pure("layout"),
    "get_layout": _pure("memref"),
    "get_iter": _pure("memref"),
    "composed_get_inner": _pure("input"),
    "composed_get_offset": _pure("input"),
    "composed_get_outer": _pure("input"),
    "get": _pure("input", "mode"),
    "get_scalar": _pure("int_tuple"),
    "size": _pure("int_tuple"),
    "cosize": _pure("layout"),
    "coshape": _pure("layout"),
    "coprofile": _pure("layout"),
    "get_copy_atom": _pure("tiled_copy"),
    "get_mma_atom": _pure("tiled_mma"),
    "get_layout_tv": _pure("tiled"),
}

_TUPLES = {
    f"int_tuple_{name}": _pure("lhs rhs") for name in ("add", "sub", "mul", "div", "mod")
} | {
    "int_tuple_product": _pure("input"),
    "int_tuple_product_each": _pure("input"),
    "int_tuple_product_like": _pure("lhs rhs"),
    "shape_div": _pure("lhs rhs"),
    "ceil_div": _pure("lhs rhs"),
    "elem_less": _pure("lhs rhs"),
    "equal": _pure("lhs rhs"),
    "append": _pure("tuple elem"),
    "prepend": _pure("tuple elem"),
    "select": _pure("tuple", "indices"),
    "take": _pure("tuple", "begin end"),
    "group": _pure("tuple", "begin end"),
    "slice": _pure("src coord"),
    "dice": _pure("src coord"),
}

_ALGEBRA = {
    "coalesce": _pure("layout pattern?"),
    "complement": _pure("layout codomain_size?"),
    "composition": _pure("outer inner"),
    "right_inverse": _pure("layout"),
    "left_inverse": _pure("layout"),
    "nullspace": _pure("layout"),
    "max_common_layout": _pure("lhs rhs"),
    "tile_to_shape": _pure("block trg_shape ord_shape"),
    "recast_layout": _pure("src", "new_type_bits old_type_bits"),
    "crd2idx": _pure("coord layout"),
    "idx2crd": _pure("coord layout"),
    "get_flat_coord": _pure("index layout"),
    "get_1d_coord": _pure("index layout"),
    **{
        f"{kind}_divide": _pure("layout divisor") for kind in ("logical", "zipped", "tiled", "flat")
    },
    **{
        f"{kind}_product": _pure("layout tile")
        for kind in ("logical", "zipped", "tiled", "flat", "blocked", "raked")
    },
}

_POINTERS = {
    "add_offset": _pure("ptr offset"),
    "apply_swizzle": _pure("ptr swizzle"),
    "recast_iter": _pure("src"),
    "inttoptr": _pure("src"),
    "ptrtoint": _pure("ptr"),
    "to_llvm_ptr": _pure("ptr", "llvm_address_space"),
    "get_dyn_shared": _pure(""),
    "make_ptr": _pure("arg0? arg1? arg2? arg3?"),
}

_MEMORY = {
    "alloca": _effect("", "bytes", "result"),
    "memref_alloca": _effect("", "", "result"),
    "memref_load": _effect("memref indices", "", "result"),
    "memref_store": _effect("value memref indices"),
    "memref_load_vec": _effect("memref", "", "result"),
    "memref_store_vec": _effect("vector memref"),
    "ptr_load": _effect("ptr", "", "result"),
    "ptr_store": _effect("value ptr"),
    "atomic_rmw": _effect("ptr value", "operation ordering", "result"),
    "atomic_cas": _effect(
        "ptr compare value", "success_ordering failure_ordering weak", "old success"
    ),
    "fence": _effect("", "ordering"),
    "output_buffer": _pure(""),
}

_ATOMS = {
    "make_copy_atom": _pure("args*"),
    "make_mma_atom": _pure(""),
    "atom_set_value": _pure("atom value", "field"),
    "make_tiled_copy": _pure("copy_atom layout_tv tile_mn"),
    "make_tiled_mma": _pure("mma_atom atom_layout permutation?"),
    "copy_atom_call": _effect("copy_atom src dst pred?"),
    "copy_atom_call_ssa": _effect("copy_atom src dst? pred?", "", "results*"),
    "copy": _effect("copy_atom src dst pred?"),
    "mma_atom_call": _effect("mma_atom d a b c scale_a? scale_b?"),
    "mma_atom_call_ssa": _effect("mma_atom a b c scale_a? scale_b?", "", "result"),
    "gemm": _effect("mma_atom d a b c scale_a? scale_b?"),
    "tiled_copy_partition_src": _pure("tiled_copy src coord"),
    "tiled_copy_partition_dst": _pure("tiled_copy dst coord"),
    "tiled_copy_retile": _pure("tiled_copy input"),
    "tiled_mma_partition": _pure("tiled_mma input coord", "operand_id"),
    "tiled_mma_partition_shape": _pure("tiled_mma shape", "operand_id"),
}

OPS: Mapping[str, OpSpec] = MappingProxyType(
    {**_CONSTRUCTORS, **_QUERIES, **_TUPLES, **_ALGEBRA, **_POINTERS, **_MEMORY, **_ATOMS}
)
"""Operation name without ``fly.`` -> its form."""


def _slots(kind: str, slots: tuple[str, ...], first: int) -> tuple[str, int]:
    words = {"?": "optional ", "*": "variadic "}
    parts = [
        f"{slot.rstrip('?*')}_: {words.get(slot[-1], '')}%{first + i}"
        for i, slot in enumerate(slots)
    ]
    return (f"irdl.{kind}({', '.join(parts)})" if parts else ""), first + len(slots)


def _op_text(name: str, spec: OpSpec) -> str:
    operands, after = _slots("operands", spec.operands, 0)
    results, after = _slots("results", tuple(f"r_{slot}" for slot in spec.results), after)
    # One constraint value in two slots would force equal types: every slot has its own.
    attributes = ""
    if spec.attributes:
        pairs = [f'"{a}" = %{after + i}' for i, a in enumerate(spec.attributes)]
        attributes = "irdl.attributes {" + ", ".join(pairs) + "}"
        after += len(spec.attributes)
    constraints = " ".join(f"%{i} = irdl.any" for i in range(after))
    return f"irdl.operation @{name} {{ {constraints} {operands} {results} {attributes} }}"


def _type_text(name: str, parameters: tuple[str, ...]) -> str:
    constraints = " ".join(f"%{i} = irdl.any" for i in range(len(parameters)))
    slots = ", ".join(f"{p}: %{i}" for i, p in enumerate(parameters))
    return f"irdl.type @{name} {{ {constraints} irdl.parameters({slots}) }}"


def irdl_source(
    dialect: str, types: Mapping[str, tuple[str, ...]], ops: Mapping[str, OpSpec]
) -> str:
    """Return the IRDL definition of a dialect; targets define theirs with it too."""
    lines = [_type_text(name, parameters) for name, parameters in types.items()]
    lines += [_op_text(name, spec) for name, spec in ops.items()]
    return f"irdl.dialect @{dialect} {{\n  " + "\n  ".join(lines) + "\n}\n"
