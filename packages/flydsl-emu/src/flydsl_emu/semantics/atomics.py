"""Atomic read-modify-write operations on global memory, buffers and LDS."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import (
    bf16_to_f32,
    f32_to_bf16,
    half_bits,
    half_to_f32,
    high16,
    join64,
    low16,
    pack16,
    split64,
)
from flydsl_emu.semantics.buffers import BufferAccess
from flydsl_emu.semantics.layout import returns_old
from flydsl_emu.semantics.registry import define
from flydsl_emu.semantics.value_types import F32, F64, I32, I64, U32, U64, Type
from flydsl_emu.semantics.vmem import flat_address

__all__ = ["COMMUTATIVE", "OPERATIONS", "buffer_atomic", "flat_atomic", "lds_atomic"]

Update = Callable[..., Value]


def _increment(v: VectorApi, old: Value, data: Value) -> Value:
    return v.select(v.le(data, old), v.sub(old, old), v.add(old, 1))


def _decrement(v: VectorApi, old: Value, data: Value) -> Value:
    wrap = v.bit_or(v.eq(old, 0), v.lt(data, old))
    return v.select(wrap, data, v.sub(old, 1))


def _compare_swap(v: VectorApi, old: Value, new: Value, compared: Value) -> Value:
    return v.select(v.eq(old, compared), new, old)


def _packed_half_add(v: VectorApi, old: Value, data: Value) -> Value:
    parts = [
        half_bits(v, v.add(half_to_f32(v, half(v, old)), half_to_f32(v, half(v, data))))
        for half in (low16, high16)
    ]
    return pack16(v, *parts)


def _packed_bfloat_add(v: VectorApi, old: Value, data: Value) -> Value:
    parts = [
        f32_to_bf16(v, v.add(bf16_to_f32(v, half(v, old)), bf16_to_f32(v, half(v, data))))
        for half in (low16, high16)
    ]
    return pack16(v, *parts)


def _clamped_subtract(v: VectorApi, old: Value, data: Value) -> Value:
    return v.select(v.lt(old, data), v.sub(old, old), v.sub(old, data))


def _conditional_subtract(v: VectorApi, old: Value, data: Value) -> Value:
    return v.select(v.lt(old, data), old, v.sub(old, data))


def _masked_or(v: VectorApi, old: Value, mask: Value, data: Value) -> Value:
    return v.bit_or(v.bit_and(old, v.bit_not(mask)), data)


def _wrap(v: VectorApi, old: Value, limit: Value, step: Value) -> Value:
    return v.select(v.le(limit, old), v.sub(old, limit), v.add(old, step))


def _conditional_exchange(v: VectorApi, old: Value, data: Value) -> Value:
    """Replace each half by the data's where the data's top bit of that half is set."""
    result = old
    for low in (0, 32):
        write = v.eq(v.bit_and(v.shr(data, low + 31), 1), 1)
        half = 0x7FFFFFFF << low
        kept = v.bit_and(result, ~(0xFFFFFFFF << low) & (1 << 64) - 1)
        result = v.select(write, v.bit_or(kept, v.bit_and(data, half)), result)
    return result


OPERATIONS: dict[str, Update] = {
    "swap": lambda _v, _old, data: data,
    "cmpswap": _compare_swap,
    "add": lambda v, old, data: v.add(old, data),
    "sub": lambda v, old, data: v.sub(old, data),
    "rsub": lambda v, old, data: v.sub(data, old),
    "min": lambda v, old, data: v.min(old, data),
    "max": lambda v, old, data: v.max(old, data),
    "and": lambda v, old, data: v.bit_and(old, data),
    "or": lambda v, old, data: v.bit_or(old, data),
    "xor": lambda v, old, data: v.bit_xor(old, data),
    "inc": _increment,
    "dec": _decrement,
    "sub_clamp": _clamped_subtract,
    "cond_sub": _conditional_subtract,
    "pk_add_f16": _packed_half_add,
    "pk_add_bf16": _packed_bfloat_add,
    "mskor": _masked_or,
    "wrap": _wrap,
    "condxchg": _conditional_exchange,
}
"""``new = update(api, old, data…)`` by operation name."""

COMMUTATIVE = frozenset(("add", "min", "max", "and", "or", "xor"))
"""Operations whose final value, for integers, does not depend on the order of the lanes."""

# Mnemonic part -> (operation, element type).
_GLOBAL: dict[str, tuple[str, Type]] = {
    "swap": ("swap", U32),
    "cmpswap": ("cmpswap", U32),
    "add": ("add", U32),
    "sub": ("sub", U32),
    "smin": ("min", I32),
    "umin": ("min", U32),
    "smax": ("max", I32),
    "umax": ("max", U32),
    "and": ("and", U32),
    "or": ("or", U32),
    "xor": ("xor", U32),
    "inc": ("inc", U32),
    "dec": ("dec", U32),
}
_FLOAT: dict[str, tuple[str, Type]] = {
    "add_f32": ("add", F32),
    "add_f64": ("add", F64),
    "min_f64": ("min", F64),
    "max_f64": ("max", F64),
    "pk_add_f16": ("pk_add_f16", U32),
    "pk_add_bf16": ("pk_add_bf16", U32),
}


def _elements(v: VectorApi, data: Sequence[Value], type: Type) -> list[Value]:
    """Return data registers as elements of `type`."""
    if type.bits == 32:
        return [v.cast(x, type) for x in data]
    return [v.cast(join64(v, data[k], data[k + 1]), type) for k in range(0, len(data), 2)]


def _registers(v: VectorApi, x: Value, type: Type) -> list[Value]:
    if type.bits == 32:
        return [v.cast(x, U32)]
    return list(split64(v, v.cast(x, U64)))


def flat_atomic(space: str, operation: str, type: Type) -> Callable[..., object]:
    """Return the meaning of an atomic on global or flat addresses."""

    def call(
        v: VectorApi, i: Instruction, address: Value, data: list[Value], base: Value | None = None
    ) -> object:
        where = flat_address(v, i, address, base, type.bits // 8)
        old = v.atomic(space, operation, where, _elements(v, data, type), None)
        return _registers(v, old, type) if returns_old(i) else ()

    return call


def buffer_atomic(operation: str, type: Type) -> Callable[..., object]:
    """Return the meaning of an atomic on a buffer."""
    size = type.bits // 8

    def call(
        v: VectorApi,
        i: Instruction,
        arch: str,
        data: list[Value],
        registers: list[Value] | None,
        descriptor: list[Value],
        scalar_offset: Value,
    ) -> object:
        where = BufferAccess(v, i, registers, descriptor, scalar_offset, arch)
        old = v.atomic(
            "global", operation, where.at(), _elements(v, data, type), where.inside(size)
        )
        return _registers(v, old, type) if returns_old(i) else ()

    return call


def _wide(table: dict[str, tuple[str, Type]]) -> dict[str, tuple[str, Type]]:
    types = {U32.name: U64, I32.name: I64}
    return {f"{name}_x2": (op, types[base.name]) for name, (op, base) in table.items()}


for _name, (_operation, _type) in {**_GLOBAL, **_wide(_GLOBAL), **_FLOAT}.items():
    define(
        f"global_atomic_{_name}",
        "returned.regs = inst auto regs auto",
        flat_atomic("global", _operation, _type),
    )
    define(
        f"flat_atomic_{_name}",
        "returned.regs = inst auto regs",
        flat_atomic("flat", _operation, _type),
    )
    define(
        f"buffer_atomic_{_name}",
        "replaced.regs = inst arch regs regs regs u32",
        buffer_atomic(_operation, _type),
    )


# LDS ---------------------------------------------------------------------------------------------
def lds_atomic(
    operation: str, type: Type, returns: bool, swapped: bool = True
) -> Callable[..., object]:
    """Return the meaning of an atomic on LDS; `swapped`: cmpswap names the compared value first."""

    def call(v: VectorApi, i: Instruction, address: Value, *data: list[Value]) -> object:
        where = v.add(address, i.mod("offset"))
        operands = [e for group in data for e in _elements(v, group, type)]
        if operation == "cmpswap" and swapped:
            operands.reverse()
        old = v.atomic("lds", operation, where, operands, None)
        return _registers(v, old, type) if returns else ()

    return call


_LDS: dict[str, tuple[str, Type]] = {
    "add_u32": ("add", U32),
    "sub_u32": ("sub", U32),
    "rsub_u32": ("rsub", U32),
    "inc_u32": ("inc", U32),
    "dec_u32": ("dec", U32),
    "min_i32": ("min", I32),
    "max_i32": ("max", I32),
    "min_u32": ("min", U32),
    "max_u32": ("max", U32),
    "and_b32": ("and", U32),
    "or_b32": ("or", U32),
    "xor_b32": ("xor", U32),
    "cmpst_b32": ("cmpswap", U32),
    "add_f32": ("add", F32),
    "min_f32": ("min", F32),
    "max_f32": ("max", F32),
    "add_u64": ("add", U64),
    "sub_u64": ("sub", U64),
    "rsub_u64": ("rsub", U64),
    "inc_u64": ("inc", U64),
    "dec_u64": ("dec", U64),
    "min_i64": ("min", I64),
    "max_i64": ("max", I64),
    "min_u64": ("min", U64),
    "max_u64": ("max", U64),
    "and_b64": ("and", U64),
    "or_b64": ("or", U64),
    "xor_b64": ("xor", U64),
    "cmpst_b64": ("cmpswap", U64),
    "add_f64": ("add", F64),
    "min_f64": ("min", F64),
    "max_f64": ("max", F64),
    "pk_add_f16": ("pk_add_f16", U32),
    "pk_add_bf16": ("pk_add_bf16", U32),
    "cmpst_f32": ("cmpswap", F32),
    "cmpst_f64": ("cmpswap", F64),
}
for _name, (_operation, _type) in _LDS.items():
    _data = " regs regs" if _operation == "cmpswap" else " regs"
    define(f"ds_{_name}", f"= inst u32{_data}", lds_atomic(_operation, _type, False))
    _verb, _, _rest = _name.rpartition("_")
    define(
        f"ds_{_verb}_rtn_{_rest}", f"regs = inst u32{_data}", lds_atomic(_operation, _type, True)
    )
for _bits, _type in (("32", U32), ("64", U64)):
    define(f"ds_wrxchg_rtn_b{_bits}", "regs = inst u32 regs", lds_atomic("swap", _type, True))
