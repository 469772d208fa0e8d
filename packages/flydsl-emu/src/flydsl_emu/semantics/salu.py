"""The scalar ALU: SOP1, SOP2, SOPC and SOPK."""

from __future__ import annotations

from collections.abc import Callable

from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import high16, low16, pack16, sign_extend
from flydsl_emu.semantics.registry import define, opcode
from flydsl_emu.semantics.value_types import I32, I64, U32, U64, Type

__all__: list[str] = []


# Moves and selections ----------------------------------------------------------------------------
@opcode("s_mov_b32", "u32 = u32")
@opcode("s_mov_b64", "u64 = u64")
def _move(_v: VectorApi, x: Value) -> Value:
    return x


@opcode("s_movk_i32", "i32 = imm")
def _move_immediate(v: VectorApi, k: int) -> Value:
    return v.const(I32, k)


@opcode("s_cmov_b32", "u32 = scc old u32")
@opcode("s_cmov_b64", "u64 = scc old u64")
def _conditional_move(v: VectorApi, scc: Value, old: Value, x: Value) -> Value:
    return v.select(scc, x, old)


@opcode("s_cmovk_i32", "i32 = scc old imm")
def _conditional_immediate(v: VectorApi, scc: Value, old: Value, k: int) -> Value:
    return v.select(scc, v.const(I32, k), old)


@opcode("s_cselect_b32", "u32 = scc u32 u32")
@opcode("s_cselect_b64", "u64 = scc u64 u64")
def _select(v: VectorApi, scc: Value, a: Value, b: Value) -> Value:
    return v.select(scc, a, b)


# Arithmetic --------------------------------------------------------------------------------------
@opcode("s_add_u32", "u32 scc = u32 u32")
def _add_u(v: VectorApi, a: Value, b: Value) -> tuple[Value, Value]:
    total = v.add(a, b)
    return total, v.lt(total, a)


@opcode("s_sub_u32", "u32 scc = u32 u32")
def _sub_u(v: VectorApi, a: Value, b: Value) -> tuple[Value, Value]:
    return v.sub(a, b), v.lt(a, b)


@opcode("s_addc_u32", "u32 scc = u32 u32 scc")
def _addc(v: VectorApi, a: Value, b: Value, carry: Value) -> tuple[Value, Value]:
    part = v.add(a, b)
    total = v.add(part, v.convert(carry, U32))
    return total, v.bit_or(v.lt(part, a), v.lt(total, part))


@opcode("s_subb_u32", "u32 scc = u32 u32 scc")
def _subb(v: VectorApi, a: Value, b: Value, borrow: Value) -> tuple[Value, Value]:
    part = v.sub(a, b)
    total = v.sub(part, v.convert(borrow, U32))
    return total, v.bit_or(v.lt(a, b), v.lt(part, total))


def _add_i(v: VectorApi, a: Value, b: Value) -> tuple[Value, Value]:
    total = v.add(a, b)
    return total, v.lt(v.bit_and(v.bit_xor(a, total), v.bit_xor(b, total)), 0)


define("s_add_i32", "i32 scc = i32 i32", _add_i)


@opcode("s_sub_i32", "i32 scc = i32 i32")
def _sub_i(v: VectorApi, a: Value, b: Value) -> tuple[Value, Value]:
    difference = v.sub(a, b)
    return difference, v.lt(v.bit_and(v.bit_xor(a, b), v.bit_xor(a, difference)), 0)


@opcode("s_addk_i32", "i32 scc = old imm")
def _addk(v: VectorApi, a: Value, k: int) -> tuple[Value, Value]:
    return _add_i(v, a, v.const(I32, k))


define("s_mul_i32", "u32 = u32 u32", "mul")
define("s_mul_hi_u32", "u32 = u32 u32", "mul_high")
define("s_mul_hi_i32", "i32 = i32 i32", "mul_high")


@opcode("s_mulk_i32", "i32 = old imm")
def _mulk(v: VectorApi, a: Value, k: int) -> Value:
    return v.mul(a, v.const(I32, k))


@opcode("s_min_u32", "u32 scc = u32 u32")
@opcode("s_min_i32", "i32 scc = i32 i32")
def _min(v: VectorApi, a: Value, b: Value) -> tuple[Value, Value]:
    return v.min(a, b), v.lt(a, b)


@opcode("s_max_u32", "u32 scc = u32 u32")
@opcode("s_max_i32", "i32 scc = i32 i32")
def _max(v: VectorApi, a: Value, b: Value) -> tuple[Value, Value]:
    return v.max(a, b), v.lt(b, a)


@opcode("s_abs_i32", "i32 scc = i32")
def _abs(v: VectorApi, x: Value) -> tuple[Value, Value]:
    size = v.abs(x)
    return size, v.ne(size, 0)


@opcode("s_absdiff_i32", "i32 scc = i32 i32")
def _absdiff(v: VectorApi, a: Value, b: Value) -> tuple[Value, Value]:
    size = v.abs(v.sub(a, b))
    return size, v.ne(size, 0)


def _shift_add(amount: int) -> Callable[..., Value]:
    def call(v: VectorApi, a: Value, b: Value) -> tuple[Value, Value]:
        wide = v.add(v.shl(v.convert(a, U64), amount), v.convert(b, U64))
        return v.convert(wide, U32), v.ne(v.shr(wide, 32), 0)

    return call


for _n in (1, 2, 3, 4):
    define(f"s_lshl{_n}_add_u32", "u32 scc = u32 u32", _shift_add(_n))


@opcode("s_sext_i32_i8", "i32 = u32")
def _extend8(v: VectorApi, x: Value) -> Value:
    return sign_extend(v, x, 8)


@opcode("s_sext_i32_i16", "i32 = u32")
def _extend16(v: VectorApi, x: Value) -> Value:
    return sign_extend(v, x, 16)


# Logic -------------------------------------------------------------------------------------------
_LOGIC: dict[str, Callable[[VectorApi, Value, Value], Value]] = {
    "and": lambda v, a, b: v.bit_and(a, b),
    "or": lambda v, a, b: v.bit_or(a, b),
    "xor": lambda v, a, b: v.bit_xor(a, b),
    "andn2": lambda v, a, b: v.bit_and(a, v.bit_not(b)),
    "orn2": lambda v, a, b: v.bit_or(a, v.bit_not(b)),
    "nand": lambda v, a, b: v.bit_not(v.bit_and(a, b)),
    "nor": lambda v, a, b: v.bit_not(v.bit_or(a, b)),
    "xnor": lambda v, a, b: v.bit_not(v.bit_xor(a, b)),
    "andn1": lambda v, a, b: v.bit_and(v.bit_not(a), b),
    "orn1": lambda v, a, b: v.bit_or(v.bit_not(a), b),
}


def _flagged(compute: Callable[..., Value]) -> Callable[..., tuple[Value, Value]]:
    """Return `compute` with SCC = result is not zero."""

    def call(v: VectorApi, *sources: Value) -> tuple[Value, Value]:
        result = compute(v, *sources)
        return result, v.ne(result, 0)

    return call


for _name in ("and", "or", "xor", "andn2", "orn2", "nand", "nor", "xnor"):
    for _t in ("32", "64"):
        define(f"s_{_name}_b{_t}", f"u{_t} scc = u{_t} u{_t}", _flagged(_LOGIC[_name]))
for _t in ("32", "64"):
    define(f"s_not_b{_t}", f"u{_t} scc = u{_t}", _flagged(lambda v, x: v.bit_not(x)))


def _save_exec(compute: Callable[..., Value], type: Type) -> Callable[..., object]:
    def call(v: VectorApi, active: Value, source: Value) -> tuple[Value, Value, Value]:
        before = v.convert(v.ballot(active), type)
        after = compute(v, source, before)
        return before, after, v.ne(after, 0)

    return call


def _write_exec(compute: Callable[..., Value], type: Type) -> Callable[..., object]:
    def call(v: VectorApi, active: Value, source: Value) -> tuple[Value, Value, Value]:
        after = compute(v, source, v.convert(v.ballot(active), type))
        return after, after, v.ne(after, 0)

    return call


for _type in (U32, U64):
    _t = _type.name
    for _name, _compute in _LOGIC.items():
        define(
            f"s_{_name}_saveexec_b{_type.bits}",
            f"{_t} execbits scc = exec {_t}",
            _save_exec(_compute, _type),
        )
    for _name in ("andn1", "andn2"):
        define(
            f"s_{_name}_wrexec_b{_type.bits}",
            f"{_t} execbits scc = exec {_t}",
            _write_exec(_LOGIC[_name], _type),
        )


# Shifts and fields -------------------------------------------------------------------------------
def _shift(name: str, type: Type) -> Callable[..., Value]:
    def call(v: VectorApi, x: Value, amount: Value) -> Value:
        count = v.convert(amount, type) if type.bits == 64 else v.cast(amount, type)
        return getattr(v, name)(x, count)

    return call


for _t, _u, _i in (("32", U32, I32), ("64", U64, I64)):
    _sig = f"u{_t} scc = u{_t} u32"
    define(f"s_lshl_b{_t}", _sig, _flagged(_shift("shl", _u)))
    define(f"s_lshr_b{_t}", _sig, _flagged(_shift("shr", _u)))
    define(f"s_ashr_i{_t}", f"i{_t} scc = i{_t} u32", _flagged(_shift("shr", _i)))


def _mask_of(v: VectorApi, width: Value, offset: Value, type: Type) -> Value:
    ones = v.sub(v.shl(v.const(type, 1), v.convert(width, type)), 1)
    return v.shl(ones, v.convert(offset, type))


define("s_bfm_b32", "u32 = u32 u32", lambda v, a, b: _mask_of(v, a, b, U32))
define("s_bfm_b64", "u64 = u32 u32", lambda v, a, b: _mask_of(v, a, b, U64))


def _field(type: Type) -> Callable[..., Value]:
    """Return bit-field extraction; the second source holds offset and width (bits 16 to 22)."""
    signed = type.kind == "i"
    unsigned = U32 if type.bits == 32 else U64
    bits = type.bits

    def call(v: VectorApi, x: Value, where: Value) -> Value:
        offset = v.convert(v.bit_and(where, bits - 1), unsigned)
        width = v.bit_and(v.shr(where, 16), 127)
        moved = v.cast(v.shr(x, v.cast(offset, type)), unsigned)
        spare = v.sub(v.const(U32, bits), v.min(width, v.const(U32, bits)))
        room = v.convert(spare, unsigned)
        top = v.cast(v.shl(moved, room), type)
        result = v.shr(top, v.cast(room, type)) if signed else v.shr(top, room)
        return v.select(v.eq(width, 0), v.const(type, 0), result)

    return call


for _type in (U32, I32, U64, I64):
    _sig = f"{_type.name} scc = {_type.name} u32"
    define(f"s_bfe_{_type.name}", _sig, _flagged(_field(_type)))

define("s_brev_b32", "u32 = u32", "reverse_bits")
define("s_brev_b64", "u64 = u64", "reverse_bits")


# Counting ----------------------------------------------------------------------------------------
def _ones(v: VectorApi, x: Value) -> tuple[Value, Value]:
    count = v.popcount(x)
    return count, v.ne(count, 0)


def _zeros(v: VectorApi, x: Value) -> tuple[Value, Value]:
    return _ones(v, v.bit_not(x))


def _first(v: VectorApi, x: Value, width: int) -> Value:
    found = v.trailing_zeros(x)
    return v.select(v.eq(found, width), v.const(U32, 0xFFFFFFFF), found)


def _highest(v: VectorApi, x: Value, width: int) -> Value:
    found = v.leading_zeros(x)
    return v.select(v.eq(found, width), v.const(U32, 0xFFFFFFFF), found)


def _bind(function: Callable[..., Value], width: int, invert: bool) -> Callable[..., Value]:
    return lambda v, x: function(v, v.bit_not(x) if invert else x, width)


for _t, _width in (("32", 32), ("64", 64)):
    define(f"s_bcnt1_i32_b{_t}", f"u32 scc = u{_t}", _ones)
    define(f"s_bcnt0_i32_b{_t}", f"u32 scc = u{_t}", _zeros)
    define(f"s_ff1_i32_b{_t}", f"u32 = u{_t}", _bind(_first, _width, False))
    define(f"s_ff0_i32_b{_t}", f"u32 = u{_t}", _bind(_first, _width, True))
define("s_flbit_i32_b32", "u32 = u32", _bind(_highest, 32, False))
define("s_flbit_i32_b64", "u32 = u64", _bind(_highest, 64, False))


@opcode("s_flbit_i32", "u32 = i32")
def _sign_run32(v: VectorApi, x: Value) -> Value:
    return _highest(v, v.cast(v.bit_xor(x, v.shr(x, 31)), U32), 32)


@opcode("s_flbit_i32_i64", "u32 = i64")
def _sign_run64(v: VectorApi, x: Value) -> Value:
    return _highest(v, v.cast(v.bit_xor(x, v.shr(x, 63)), U64), 64)


# Bits and packing --------------------------------------------------------------------------------
def _set_bit(type: Type, value: int) -> Callable[..., Value]:
    def call(v: VectorApi, old: Value, at: Value) -> Value:
        bit = v.shl(v.const(type, 1), v.convert(at, type))
        return v.bit_or(old, bit) if value else v.bit_and(old, v.bit_not(bit))

    return call


def _test_bit(type: Type, value: int) -> Callable[..., Value]:
    def call(v: VectorApi, x: Value, at: Value) -> Value:
        bit = v.bit_and(v.shr(x, v.convert(at, type)), 1)
        return v.eq(bit, value)

    return call


for _t, _type in (("32", U32), ("64", U64)):
    for _value in (0, 1):
        define(f"s_bitset{_value}_b{_t}", f"u{_t} = old u32", _set_bit(_type, _value))
        define(f"s_bitcmp{_value}_b{_t}", f"scc = u{_t} u32", _test_bit(_type, _value))

define("s_pack_ll_b32_b16", "u32 = u32 u32", lambda v, a, b: pack16(v, low16(v, a), low16(v, b)))
define("s_pack_lh_b32_b16", "u32 = u32 u32", lambda v, a, b: pack16(v, low16(v, a), high16(v, b)))
define("s_pack_hh_b32_b16", "u32 = u32 u32", lambda v, a, b: pack16(v, high16(v, a), high16(v, b)))


def _live_quads(v: VectorApi, x: Value, width: int) -> Value:
    """Return, in the lowest bit of each group of four, whether any of its bits is set."""
    some = v.bit_or(v.bit_or(x, v.shr(x, 1)), v.bit_or(v.shr(x, 2), v.shr(x, 3)))
    return v.bit_and(some, 0x1111111111111111 & (1 << width) - 1)


def _whole_quads(width: int) -> Callable[..., Value]:
    return lambda v, x: v.mul(_live_quads(v, x, width), 15)


def _quad_mask(width: int) -> Callable[..., Value]:
    def call(v: VectorApi, x: Value) -> Value:
        bits = _live_quads(v, x, width)
        # Gather every fourth bit: each step halves the distance of groups twice as wide.
        for step, mask in (
            (3, 0x0303030303030303),
            (6, 0x000F000F000F000F),
            (12, 0x000000FF000000FF),
            (24, 0x000000000000FFFF),
        ):
            bits = v.bit_and(v.bit_or(bits, v.shr(bits, step)), mask & (1 << width) - 1)
        return bits

    return call


for _t, _width in (("32", 32), ("64", 64)):
    define(f"s_wqm_b{_t}", f"u{_t} scc = u{_t}", _flagged(_whole_quads(_width)))
    define(f"s_quadmask_b{_t}", f"u{_t} scc = u{_t}", _flagged(_quad_mask(_width)))


@opcode("s_bitreplicate_b64_b32", "u64 = u32")
def _replicate_bits(v: VectorApi, x: Value) -> Value:
    """Return each bit twice."""
    bits = v.convert(x, U64)
    for step, mask in (
        (16, 0x0000FFFF0000FFFF),
        (8, 0x00FF00FF00FF00FF),
        (4, 0x0F0F0F0F0F0F0F0F),
        (2, 0x3333333333333333),
        (1, 0x5555555555555555),
    ):
        bits = v.bit_and(v.bit_or(bits, v.shl(bits, step)), mask)
    return v.bit_or(bits, v.shl(bits, 1))


# Comparisons -------------------------------------------------------------------------------------
_COMPARE: dict[str, Callable[[VectorApi, Value, Value], Value]] = {
    "eq": lambda v, a, b: v.eq(a, b),
    "lg": lambda v, a, b: v.ne(a, b),
    "gt": lambda v, a, b: v.lt(b, a),
    "ge": lambda v, a, b: v.le(b, a),
    "lt": lambda v, a, b: v.lt(a, b),
    "le": lambda v, a, b: v.le(a, b),
}


def _with_immediate(compare: Callable[..., Value], type: Type) -> Callable[..., Value]:
    # Unsigned comparisons zero-extend the 16-bit field.
    mask = 0xFFFF if type is U32 else -1
    return lambda v, a, k: compare(v, a, v.const(type, k & mask))


for _name, _compare in _COMPARE.items():
    for _type in (I32, U32):
        define(f"s_cmp_{_name}_{_type.name}", f"scc = {_type.name} {_type.name}", _compare)
        define(
            f"s_cmpk_{_name}_{_type.name}",
            f"scc = {_type.name} imm",
            _with_immediate(_compare, _type),
        )
for _name in ("eq", "lg"):
    define(f"s_cmp_{_name}_u64", "scc = u64 u64", _COMPARE[_name])
