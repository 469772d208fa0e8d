"""Pointers: their types, arithmetic and conversions, local data share, loads and stores.

A ``!fly.ptr`` becomes an LLVM pointer in the address space that the target gives its space. Static
LDS is an internal global of address space 3 per allocation; dynamic LDS one external array without
a size, aligned to 1024 bytes, that starts after the static part.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from flydsl_rocdl.passes.async_groups import LDS_SCOPE
from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.descriptors import parts
from flydsl_rocdl.passes.lowering import DYNAMIC_LDS, Lowering, refuse, rule
from flydsl_rocdl.passes.memory_model import access_attributes
from flydsl_rocdl.passes.memtypes import PointerType, bit_width, element_of, storage
from flydsl_rocdl.passes.wide import (
    STRUCT,
    WIDE,
    advance,
    guard_elements,
    make,
    resolve,
    within_reach,
)
from flydsl_rocdl.target import ADDRESS_SPACES

__all__ = ["llvm_pointer", "load", "store"]

_SHARED = ADDRESS_SPACES["shared"]
_DYNAMIC_ALIGN = 1024
_DENSE_BITS = 8


def llvm_pointer(low: Lowering, kind: PointerType) -> Any:
    """Return the LLVM type of a Fly pointer.

    Raises:
        TargetError: AMD GPUs have no such address space.
    """
    if kind.space == WIDE:
        return low.b.type(STRUCT)
    number = ADDRESS_SPACES.get(kind.space)
    if number is None:
        raise refuse(
            low.op, f"AMD GPUs have no address space {kind.space!r}", code="FLY-T630",
            allowed=", ".join(ADDRESS_SPACES),
        )  # fmt: skip
    return low.b.pointer(number)


def _result_kind(low: Lowering, op: Any) -> PointerType:
    kind = low.pointer_kind(op.result.type)
    if kind is None:
        raise refuse(op, f"{op.name} gives {op.result.type}, not a pointer", code="FLY-T630")
    return kind


_STREAMING = {"nontemporal": "unit"}
"""Flags of an access that should not stay in the caches."""


def load(
    low: Lowering,
    pointer: Value,
    kind: PointerType,
    result: Any,
    *,
    streaming: bool = False,
    flags: dict[str, str] | None = None,
) -> Value:
    """Load a number or vector of type `result` with the pointer's alignment."""
    b = low.b
    if kind.space == WIDE:
        return _load_wide(low, pointer, kind, result, streaming=streaming, flags=flags)
    text = str(result)
    stored = storage(text)
    flags = _STREAMING if streaming else flags
    if low.explicit_waits and kind.space == "shared":
        flags = {**(flags or {}), "noalias_scopes": LDS_SCOPE}
    if stored == text:
        return b.load(pointer, result, kind.align, flags=flags)
    value = b.load(pointer, b.type(stored), kind.align, flags=flags)
    if element_of(text)[1] == "i1":
        return b.value("llvm.trunc", result, (value,))
    return b.cast(value, result)


def store(
    low: Lowering,
    value: Value,
    pointer: Value,
    kind: PointerType,
    *,
    streaming: bool = False,
    flags: dict[str, str] | None = None,
) -> None:
    """Store a number or vector of numbers with the pointer's alignment."""
    b = low.b
    if kind.space == WIDE:
        _store_wide(low, value, pointer, kind, streaming=streaming, flags=flags)
        return
    text = str(value.type)
    stored = storage(text)
    if stored != text:
        kept = b.type(stored)
        if element_of(text)[1] == "i1":
            value = b.value("llvm.zext", kept, (value,))
        else:
            value = b.cast(value, kept)
    b.store(value, pointer, kind.align, flags=_STREAMING if streaming else flags)


def _parts(kind: PointerType, text: str) -> tuple[int, int, str]:
    """Return (bytes of one element, elements, element type) of an access to a wide buffer."""
    size = -(-bit_width(storage(text)) // _DENSE_BITS)
    count, element = element_of(text)
    if count < 2 or kind.bits < _DENSE_BITS or bit_width(storage(element)) % _DENSE_BITS:
        return size, 1, text
    return size // count, count, element


def _load_wide(
    low: Lowering,
    pointer: Value,
    kind: PointerType,
    result: Any,
    *,
    streaming: bool,
    flags: dict[str, str] | None,
) -> Value:
    """Load from a wide buffer; what is outside is zero."""
    b = low.b
    size, count, element = _parts(kind, str(result))
    access = resolve(low, low.op, pointer, size * count)
    near = PointerType(kind.element, "buffer" if access.guard is None else "global", kind.align)

    def whole() -> list[Value]:
        return [load(low, access.pointer, near, result, streaming=streaming, flags=flags)]

    if access.guard is None:
        return whole()[0]
    zero = b.value("llvm.mlir.zero", b.type(element))

    def one(at: Value) -> list[Value]:
        part = PointerType(kind.element, "global", min(kind.align, size))
        return [load(low, at, part, b.type(element), streaming=streaming, flags=flags)]

    def pieces() -> list[Value]:
        if count == 1:
            return [b.value("llvm.mlir.zero", result)]
        vector = b.value("llvm.mlir.poison", result)
        for number, (at, guard) in enumerate(guard_elements(low, pointer, size, count)):
            (found,) = b.choose(guard, [zero.type], partial(one, at), lambda: [zero])
            place = b.constant(number)
            vector = b.value("llvm.insertelement", result, (vector, found, place))
        return [vector]

    return b.choose(access.guard, [result], whole, pieces)[0]


def _store_wide(
    low: Lowering,
    value: Value,
    pointer: Value,
    kind: PointerType,
    *,
    streaming: bool,
    flags: dict[str, str] | None,
) -> None:
    """Store to a wide buffer; what is outside is dropped."""
    b = low.b
    size, count, element = _parts(kind, str(value.type))
    access = resolve(low, low.op, pointer, size * count)
    near = PointerType(kind.element, "buffer" if access.guard is None else "global", kind.align)

    def whole() -> list[Value]:
        store(low, value, access.pointer, near, streaming=streaming, flags=flags)
        return []

    def one(number: int, at: Value) -> list[Value]:
        part = PointerType(kind.element, "global", min(kind.align, size))
        place = b.constant(number)
        found = b.value("llvm.extractelement", b.type(element), (value, place))
        store(low, found, at, part, streaming=streaming, flags=flags)
        return []

    def pieces() -> list[Value]:
        if count > 1:
            for number, (at, guard) in enumerate(guard_elements(low, pointer, size, count)):
                b.choose(guard, (), partial(one, number, at), list)
        return []

    if access.guard is None:
        whole()
    else:
        b.choose(access.guard, (), whole, pieces)


@rule("fly.add_offset")
def add_offset(low: Lowering, op: Any) -> list[Value]:
    """Advance a pointer by elements."""
    b = low.b
    kind = low.operand_pointer(op, 0)
    pointer, offset = op.operands
    bits = kind.bits
    if kind.space == WIDE:
        return [advance(low, op, pointer, offset, kind)]
    if bits >= _DENSE_BITS:
        return [b.gep(pointer, offset, b.type(storage(kind.element)))]
    # Elements that share bytes: the offset addresses a whole byte.
    width = str(offset.type)
    scaled = b.binary("llvm.mul", offset, b.constant(bits, width))
    return [b.gep(pointer, b.binary("llvm.ashr", scaled, b.constant(3, width)), b.type("i8"))]


@rule("fly.recast_iter")
def recast(low: Lowering, op: Any) -> list[Value]:
    """Change the element type; the address stays."""
    low.operand_pointer(op, 0)
    return [op.operands[0]]


@rule("fly.make_ptr")
def make_pointer(low: Lowering, op: Any) -> list[Value]:
    """Make a buffer pointer from a global one and, optionally, its length in bytes.

    Loads past the length give zero and stores past it are dropped; without one the buffer is
    unbounded. Offsets from a buffer pointer have 32 bits, those from a wide one 64.
    """
    b = low.b
    kind = _result_kind(low, op)
    base = low.operand_pointer(op, 0)
    if kind.space not in ("buffer", WIDE) or base.space != "global":
        raise refuse(
            op, f"a {kind.space} pointer cannot be made from a {base.space} one", code="FLY-T630",
            allowed="buffer pointers from global ones",
        )  # fmt: skip
    facts = low.facts.buffer
    wide = b.type("i64")
    if kind.space == WIDE:
        return [make(low, *op.operands)]
    if len(op.operands) > 1:
        records, flags = op.operands[1], facts.flags_bounded
        if records.type != wide:
            records = b.value("llvm.zext", wide, (records,))
    else:
        records, flags = b.constant(facts.max_records, "i64"), facts.flags_unbounded
    operands = (op.operands[0], b.constant(0, "i16"), records, b.constant(flags))
    return [b.intrinsic("amdgcn.make.buffer.rsrc", llvm_pointer(low, kind), operands).result]


@rule("fly.inttoptr")
def from_integer(low: Lowering, op: Any) -> list[Value]:
    """Make a pointer from an address."""
    return [low.b.value("llvm.inttoptr", llvm_pointer(low, _result_kind(low, op)), op.operands)]


@rule("fly.ptrtoint")
def to_integer(low: Lowering, op: Any) -> list[Value]:
    """Return a pointer's address."""
    _no_descriptor(op, low.operand_pointer(op, 0))
    return [low.b.value("llvm.ptrtoint", op.result.type, op.operands)]


@rule("fly.to_llvm_ptr")
def to_llvm(low: Lowering, op: Any) -> list[Value]:
    """Hand out the LLVM pointer, in another address space if asked for."""
    (pointer,) = op.operands
    kind = low.operand_pointer(op, 0)
    if kind.space == WIDE and op.result.type == low.b.pointer(8):
        return [within_reach(low, pointer)]
    _no_descriptor(op, kind)
    if kind.space == "buffer" and op.result.type == low.b.pointer(8):
        return [parts(low, op, pointer, kind, 0)[0]]
    if pointer.type == op.result.type:
        return [pointer]
    return [low.b.value("llvm.addrspacecast", op.result.type, (pointer,))]


def _no_descriptor(op: Any, kind: PointerType) -> None:
    if kind.space == WIDE:
        raise refuse(
            op, "a buffer that may be longer than 4 GiB has no address in its space",
            code="FLY-T630",
            hint="bound it with num_records_bytes below 4 GiB, or use the global pointer",
        )  # fmt: skip


def _global(low: Lowering, symbol: str, size: int, align: int, linkage: str) -> None:
    """Create a global in LDS at the start of the module."""
    b = low.b
    b.at_start(low.module)
    b.region_op(
        "llvm.mlir.global",
        {
            "sym_name": f'"{symbol}"',
            "global_type": f"!llvm.array<{size} x i8>",
            "linkage": f"#llvm.linkage<{linkage}>",
            "addr_space": f"{_SHARED} : i32",
            "alignment": f"{align} : i64",
            "visibility_": "0 : i64",
            "unnamed_addr": "0 : i64",
        },
    )


def _address_of(low: Lowering, op: Any, symbol: str) -> Value:
    low.b.at(op)
    return low.b.value(
        "llvm.mlir.addressof", low.b.pointer(_SHARED), (), {"global_name": f"@{symbol}"}
    )


@rule("fly.alloca")
def allocate(low: Lowering, op: Any) -> list[Value]:
    """Allocate LDS for the workgroup, or private memory for the lane."""
    b = low.b
    kind = _result_kind(low, op)
    size = int(op.attributes["bytes"])
    if kind.space == "shared":
        symbol = str(op.attributes["sym"].value)
        if symbol not in low.symbols:
            low.symbols.add(symbol)
            _global(low, symbol, size, kind.align, "internal")
        return [_address_of(low, op, symbol)]
    if kind.space != "register":
        raise refuse(op, f"memory in the space {kind.space!r} cannot be allocated in a kernel",
                     code="FLY-T630", allowed="shared, register")  # fmt: skip
    b.at_start(low.function)
    count = b.constant(size)
    pointer = b.value(
        "llvm.alloca", llvm_pointer(low, kind), (count,),
        {"elem_type": "i8", "alignment": f"{kind.align} : i64"},
    )  # fmt: skip
    b.at(op)
    return [pointer]


@rule("fly.get_dyn_shared")
def dynamic_shared(low: Lowering, op: Any) -> list[Value]:
    """Return the start of the launch's dynamic LDS."""
    if DYNAMIC_LDS not in low.symbols:
        low.symbols.add(DYNAMIC_LDS)
        _global(low, DYNAMIC_LDS, 0, _DYNAMIC_ALIGN, "external")
    return [_address_of(low, op, DYNAMIC_LDS)]


@rule("ub.poison")
def poison(low: Lowering, op: Any) -> list[Value]:
    """An undefined value, also of pointer type."""
    b = low.b
    kind = low.pointer_kind(op.result.type)
    if kind is not None:
        return [b.value("llvm.mlir.poison", llvm_pointer(low, kind))]
    text = str(op.result.type)
    stored = b.type("i64" if text == "index" else storage(text) if "i1" not in text else text)
    return [b.cast(b.value("llvm.mlir.poison", stored), op.result.type)]


@rule("fly.ptr_load")
def load_value(low: Lowering, op: Any) -> list[Value]:
    """Load a number or a vector."""
    kind = low.operand_pointer(op, 0)
    _check_dense(op, kind, str(op.result.type))
    flags = access_attributes(op)
    return [load(low, op.operands[0], kind, op.result.type, flags=flags)]


@rule("fly.ptr_store")
def store_value(low: Lowering, op: Any) -> list[Value]:
    """Store a number or a vector."""
    kind = low.operand_pointer(op, 1)
    value, pointer = op.operands
    _check_dense(op, kind, str(value.type))
    store(low, value, pointer, kind, flags=access_attributes(op))
    return []


def _check_dense(op: Any, kind: PointerType, text: str) -> None:
    if kind.element != "i1" and bit_width(text) % _DENSE_BITS:
        raise refuse(
            op, f"a single {text} is not a whole number of bytes in memory", code="FLY-T633",
            allowed="vectors that fill bytes",
        )  # fmt: skip
