"""Integer arithmetic, shifts and bit operations of the vector ALU."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.bits import extract, join64, sign_extend, split64
from flydsl_emu.semantics.registry import define, opcode
from flydsl_emu.semantics.value_types import I16, I32, I64, U16, U32, U64, Type

__all__ = ["bit_table", "median", "saturating_add", "saturating_sub"]


def _swapped(name: str) -> Callable[..., Value]:
    def call(v: VectorApi, a: Value, b: Value) -> Value:
        return getattr(v, name)(b, a)

    return call


def saturating_add(type: Type) -> Callable[..., Value]:
    """Return the saturating sum of two integers of `type`."""
    top = (1 << type.bits) - 1 if type.kind == "u" else (1 << (type.bits - 1)) - 1
    bottom = 0 if type.kind == "u" else -(1 << (type.bits - 1))

    def call(v: VectorApi, a: Value, b: Value) -> Value:
        total = v.add(a, b)
        if type.kind == "u":
            return v.select(v.lt(total, a), v.const(type, top), total)
        over = v.lt(v.bit_and(v.bit_xor(a, total), v.bit_xor(b, total)), 0)
        edge = v.select(v.lt(a, 0), v.const(type, bottom), v.const(type, top))
        return v.select(over, edge, total)

    return call


def saturating_sub(type: Type) -> Callable[..., Value]:
    """Return the saturating difference of two integers of `type`."""
    top = (1 << (type.bits - 1)) - 1
    bottom = -(1 << (type.bits - 1))

    def call(v: VectorApi, a: Value, b: Value) -> Value:
        difference = v.sub(a, b)
        if type.kind == "u":
            return v.select(v.lt(a, b), v.const(type, 0), difference)
        over = v.lt(v.bit_and(v.bit_xor(a, b), v.bit_xor(a, difference)), 0)
        edge = v.select(v.lt(a, 0), v.const(type, bottom), v.const(type, top))
        return v.select(over, edge, difference)

    return call


def _reverse(function: Callable[..., Value]) -> Callable[..., Value]:
    return lambda v, a, b: function(v, b, a)


for _t, _type in (("u32", U32), ("u16", U16)):
    define(f"v_add_{_t}", f"{_t} = {_t} {_t}", "add", saturating=saturating_add(_type))
    define(f"v_sub_{_t}", f"{_t} = {_t} {_t}", "sub", saturating=saturating_sub(_type))
    define(
        f"v_subrev_{_t}",
        f"{_t} = {_t} {_t}",
        _swapped("sub"),
        saturating=_reverse(saturating_sub(_type)),
    )
for _t, _type in (("i32", I32), ("i16", I16)):
    define(f"v_add_{_t}", f"{_t} = {_t} {_t}", "add", saturating=saturating_add(_type))
    define(f"v_sub_{_t}", f"{_t} = {_t} {_t}", "sub", saturating=saturating_sub(_type))
for _t in ("u32", "i32", "u16", "i16"):
    define(f"v_max_{_t}", f"{_t} = {_t} {_t}", "max")
    define(f"v_min_{_t}", f"{_t} = {_t} {_t}", "min")


def median(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    """Return the middle one of three integers."""
    return v.max(v.min(a, b), v.min(v.max(a, b), c))


for _t in ("u32", "i32", "u16", "i16"):
    _high = _t.endswith("16")
    _sig = f"{_t} = {_t} {_t} {_t}"
    define(f"v_max3_{_t}", _sig, lambda v, a, b, c: v.max(v.max(a, b), c), keeps_high=_high)
    define(f"v_min3_{_t}", _sig, lambda v, a, b, c: v.min(v.min(a, b), c), keeps_high=_high)
    define(f"v_med3_{_t}", _sig, median, keeps_high=_high)

define("v_and_b32", "u32 = u32 u32", "bit_and")
define("v_or_b32", "u32 = u32 u32", "bit_or")
define("v_xor_b32", "u32 = u32 u32", "bit_xor")
define("v_xnor_b32", "u32 = u32 u32", lambda v, a, b: v.bit_not(v.bit_xor(a, b)))
define("v_not_b32", "u32 = u32", "bit_not")
define("v_bfrev_b32", "u32 = u32", "reverse_bits")
define("v_lshlrev_b32", "u32 = u32 u32", _swapped("shl"))
define("v_lshrrev_b32", "u32 = u32 u32", _swapped("shr"))
define("v_ashrrev_i32", "i32 = i32 i32", _swapped("shr"))
define("v_lshlrev_b16", "u16 = u16 u16", _swapped("shl"))
define("v_lshrrev_b16", "u16 = u16 u16", _swapped("shr"))
define("v_ashrrev_i16", "i16 = i16 i16", _swapped("shr"))
define("v_mul_lo_u32", "u32 = u32 u32", "mul")
define("v_mul_hi_u32", "u32 = u32 u32", "mul_high")
define("v_mul_hi_i32", "i32 = i32 i32", "mul_high")
define("v_mul_lo_u16", "u16 = u16 u16", "mul")


@opcode("v_lshlrev_b64", "u64 = u32 u64")
def _shift_left_64(v: VectorApi, amount: Value, x: Value) -> Value:
    return v.shl(x, v.convert(amount, U64))


@opcode("v_lshrrev_b64", "u64 = u32 u64")
def _shift_right_64(v: VectorApi, amount: Value, x: Value) -> Value:
    return v.shr(x, v.convert(amount, U64))


@opcode("v_ashrrev_i64", "i64 = u32 i64")
def _arithmetic_shift_64(v: VectorApi, amount: Value, x: Value) -> Value:
    return v.shr(x, v.convert(amount, I64))


@opcode("v_lshl_add_u64", "u64 = u64 u32 u64")
def _shift_add_64(v: VectorApi, a: Value, amount: Value, c: Value) -> Value:
    return v.add(v.shl(a, v.bit_and(v.convert(amount, U64), 7)), c)


def _low24(v: VectorApi, x: Value) -> Value:
    return v.bit_and(x, 0xFFFFFF)


def _signed24(v: VectorApi, x: Value) -> Value:
    return sign_extend(v, v.cast(x, U32), 24)


@opcode("v_mul_u32_u24", "u32 = u32 u32")
def _mul_u24(v: VectorApi, a: Value, b: Value) -> Value:
    return v.mul(_low24(v, a), _low24(v, b))


@opcode("v_mul_hi_u32_u24", "u32 = u32 u32")
def _mul_hi_u24(v: VectorApi, a: Value, b: Value) -> Value:
    return v.mul_high(_low24(v, a), _low24(v, b))


@opcode("v_mul_i32_i24", "i32 = u32 u32")
def _mul_i24(v: VectorApi, a: Value, b: Value) -> Value:
    return v.mul(_signed24(v, a), _signed24(v, b))


@opcode("v_mul_hi_i32_i24", "i32 = u32 u32")
def _mul_hi_i24(v: VectorApi, a: Value, b: Value) -> Value:
    return v.mul_high(_signed24(v, a), _signed24(v, b))


@opcode("v_mad_u32_u24", "u32 = u32 u32 u32")
def _mad_u24(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    return v.add(_mul_u24(v, a, b), c)


@opcode("v_mad_i32_i24", "i32 = u32 u32 i32")
def _mad_i24(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    return v.add(_mul_i24(v, a, b), c)


@opcode("v_mad_u16", "u16 = u16 u16 u16", keeps_high=True)
@opcode("v_mad_i16", "i16 = i16 i16 i16", keeps_high=True)
@opcode("v_mad_legacy_u16", "u16 = u16 u16 u16")
@opcode("v_mad_legacy_i16", "i16 = i16 i16 i16")
def _mad_16(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    return v.add(v.mul(a, b), c)


@opcode("v_mad_u32_u16", "u32 = u16 u16 u32")
def _mad_u32_u16(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    return v.add(v.mul(v.convert(a, U32), v.convert(b, U32)), c)


@opcode("v_mad_i32_i16", "i32 = i16 i16 i32")
def _mad_i32_i16(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    return v.add(v.mul(v.convert(a, I32), v.convert(b, I32)), c)


@opcode("v_mad_u64_u32", "u64 mask = u32 u32 u64")
def _mad_u64(v: VectorApi, a: Value, b: Value, c: Value) -> tuple[Value, Value]:
    total = v.add(v.mul(v.convert(a, U64), v.convert(b, U64)), c)
    return total, v.lt(total, c)


@opcode("v_mad_i64_i32", "i64 mask = i32 i32 i64")
def _mad_i64(v: VectorApi, a: Value, b: Value, c: Value) -> tuple[Value, Value]:
    product = v.mul(v.convert(a, I64), v.convert(b, I64))
    total = v.add(product, c)
    over = v.lt(v.bit_and(v.bit_xor(product, total), v.bit_xor(c, total)), 0)
    return total, over


# Carry chains ------------------------------------------------------------------------------------
@opcode("v_add_co_u32", "u32 mask = u32 u32")
def _add_co(v: VectorApi, a: Value, b: Value) -> tuple[Value, Value]:
    total = v.add(a, b)
    return total, v.lt(total, a)


@opcode("v_sub_co_u32", "u32 mask = u32 u32")
def _sub_co(v: VectorApi, a: Value, b: Value) -> tuple[Value, Value]:
    return v.sub(a, b), v.lt(a, b)


@opcode("v_subrev_co_u32", "u32 mask = u32 u32")
def _subrev_co(v: VectorApi, a: Value, b: Value) -> tuple[Value, Value]:
    return v.sub(b, a), v.lt(b, a)


@opcode("v_addc_co_u32", "u32 mask = u32 u32 mask")
def _addc(v: VectorApi, a: Value, b: Value, carry: Value) -> tuple[Value, Value]:
    part = v.add(a, b)
    total = v.add(part, v.convert(carry, U32))
    return total, v.bit_or(v.lt(part, a), v.lt(total, part))


def borrowed_difference(v: VectorApi, a: Value, b: Value, borrow: Value) -> tuple[Value, Value]:
    """Return ``a - b - borrow`` and whether it borrows."""
    part = v.sub(a, b)
    total = v.sub(part, v.convert(borrow, U32))
    return total, v.bit_or(v.lt(a, b), v.lt(part, total))


define("v_subb_co_u32", "u32 mask = u32 u32 mask", borrowed_difference)


@opcode("v_subbrev_co_u32", "u32 mask = u32 u32 mask")
def _subbrev(v: VectorApi, a: Value, b: Value, borrow: Value) -> tuple[Value, Value]:
    return borrowed_difference(v, b, a, borrow)


# Fused shifts and logic --------------------------------------------------------------------------
define("v_add3_u32", "u32 = u32 u32 u32", lambda v, a, b, c: v.add(v.add(a, b), c))
define("v_lshl_add_u32", "u32 = u32 u32 u32", lambda v, a, b, c: v.add(v.shl(a, b), c))
define("v_add_lshl_u32", "u32 = u32 u32 u32", lambda v, a, b, c: v.shl(v.add(a, b), c))
define("v_lshl_or_b32", "u32 = u32 u32 u32", lambda v, a, b, c: v.bit_or(v.shl(a, b), c))
define("v_and_or_b32", "u32 = u32 u32 u32", lambda v, a, b, c: v.bit_or(v.bit_and(a, b), c))
define("v_or3_b32", "u32 = u32 u32 u32", lambda v, a, b, c: v.bit_or(v.bit_or(a, b), c))
define("v_xad_u32", "u32 = u32 u32 u32", lambda v, a, b, c: v.add(v.bit_xor(a, b), c))


@opcode("v_bfi_b32", "u32 = u32 u32 u32")
def _bfi(v: VectorApi, mask: Value, a: Value, b: Value) -> Value:
    return v.bit_or(v.bit_and(mask, a), v.bit_and(v.bit_not(mask), b))


@opcode("v_bfm_b32", "u32 = u32 u32")
def _bfm(v: VectorApi, width: Value, offset: Value) -> Value:
    ones = v.sub(v.shl(v.const(U32, 1), width), 1)
    return v.shl(ones, offset)


@opcode("v_bfe_u32", "u32 = u32 u32 u32")
def _bfe_u(v: VectorApi, x: Value, offset: Value, width: Value) -> Value:
    ones = v.sub(v.shl(v.const(U32, 1), width), 1)
    return v.bit_and(v.shr(x, offset), ones)


@opcode("v_bfe_i32", "i32 = i32 u32 u32")
def _bfe_i(v: VectorApi, x: Value, offset: Value, width: Value) -> Value:
    count = v.bit_and(width, 31)
    up = v.bit_and(v.sub(v.const(U32, 32), count), 31)
    # A field that reaches past bit 31 takes the sign of the source, as an arithmetic shift does.
    moved = v.cast(v.shr(x, v.cast(v.bit_and(offset, 31), I32)), U32)
    spread = v.shr(v.cast(v.shl(moved, up), I32), v.cast(up, I32))
    return v.select(v.eq(count, 0), v.const(I32, 0), spread)


@opcode("v_alignbit_b32", "u32 = u32 u32 u32")
def _alignbit(v: VectorApi, high: Value, low: Value, amount: Value) -> Value:
    wide = v.shr(join64(v, high=high, low=low), v.convert(v.bit_and(amount, 31), U64))
    return split64(v, wide)[0]


@opcode("v_alignbyte_b32", "u32 = u32 u32 u32")
def _alignbyte(v: VectorApi, high: Value, low: Value, amount: Value) -> Value:
    bits = v.shl(v.bit_and(amount, 3), 3)
    return split64(v, v.shr(join64(v, high=high, low=low), v.convert(bits, U64)))[0]


@opcode("v_perm_b32", "u32 = u32 u32 u32")
def _perm(v: VectorApi, high: Value, low: Value, selector: Value) -> Value:
    """Choose four bytes out of eight; selectors 8-11 replicate signs, 12 is 0, above is 0xff."""
    data = join64(v, high=high, low=low)
    choices = [extract(v, selector, 8 * at, 8) for at in range(4)]
    chosen = [_byte_of(v, data, choice) for choice in choices]
    special = v.any(v.ne(v.bit_and(selector, 0xF8F8F8F8), 0))

    def with_constants() -> Value:
        pairs = zip(choices, chosen, strict=True)
        return _packed_bytes(v, [_byte_or_constant(v, data, c, byte) for c, byte in pairs])

    return v.rarely(special, with_constants, _packed_bytes(v, chosen), "v_perm_b32")


def _byte_of(v: VectorApi, data: Value, choice: Value) -> Value:
    position = v.shl(v.convert(v.bit_and(choice, 7), U64), 3)
    return v.bit_and(v.convert(v.shr(data, position), U32), 0xFF)


def _byte_or_constant(v: VectorApi, data: Value, choice: Value, byte: Value) -> Value:
    sign_at = v.add(v.shl(v.convert(v.bit_and(choice, 3), U64), 4), 15)
    sign = v.bit_and(v.convert(v.shr(data, sign_at), U32), 1)
    byte = v.select(v.lt(7, choice), v.mul(sign, 0xFF), byte)
    byte = v.select(v.eq(choice, 12), v.const(U32, 0), byte)
    return v.select(v.lt(12, choice), v.const(U32, 0xFF), byte)


def _packed_bytes(v: VectorApi, parts: Sequence[Value]) -> Value:
    result = parts[0]
    for at in (1, 2, 3):
        result = v.bit_or(result, v.shl(parts[at], 8 * at))
    return result


def bit_table(v: VectorApi, i: Instruction, a: Value, b: Value, c: Value) -> Value:
    """Return the bits that a three-operand table (modifier ``bitop3``) gives."""
    table = i.mod("bitop3")
    result = None
    for row in range(8):
        if not table >> row & 1:
            continue
        term = None
        for bit, x in ((4, a), (2, b), (1, c)):
            factor = x if row & bit else v.bit_not(x)
            term = factor if term is None else v.bit_and(term, factor)
        result = term if result is None else v.bit_or(result, term)
    return v.bit_xor(a, a) if result is None else result


define("v_bitop3_b32", "u32 = inst u32 u32 u32", bit_table)
define("v_bitop3_b16", "u16 = inst u16 u16 u16", bit_table)


# Counting ----------------------------------------------------------------------------------------
@opcode("v_bcnt_u32_b32", "u32 = u32 u32")
def _bcnt(v: VectorApi, a: Value, b: Value) -> Value:
    return v.add(v.popcount(a), b)


def _or_all_ones(v: VectorApi, found: Value, width: int) -> Value:
    return v.select(v.eq(found, width), v.const(U32, 0xFFFFFFFF), found)


@opcode("v_ffbh_u32", "u32 = u32")
def _ffbh_u(v: VectorApi, x: Value) -> Value:
    return _or_all_ones(v, v.leading_zeros(x), 32)


@opcode("v_ffbl_b32", "u32 = u32")
def _ffbl(v: VectorApi, x: Value) -> Value:
    return _or_all_ones(v, v.trailing_zeros(x), 32)


@opcode("v_ffbh_i32", "u32 = i32")
def _ffbh_i(v: VectorApi, x: Value) -> Value:
    flipped = v.cast(v.bit_xor(x, v.shr(x, 31)), U32)
    return _or_all_ones(v, v.leading_zeros(flipped), 32)


# Sums of absolute differences ---------------------------------------------------------------------
def _distance(v: VectorApi, a: Value, b: Value) -> Value:
    return v.sub(v.max(a, b), v.min(a, b))


@opcode("v_sad_u32", "u32 = u32 u32 u32")
def _sad_u32(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    return v.add(_distance(v, a, b), c)


@opcode("v_sad_u16", "u32 = u32 u32 u32")
def _sad_u16(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    for at in (0, 16):
        c = v.add(_distance(v, extract(v, a, at, 16), extract(v, b, at, 16)), c)
    return c


@opcode("v_sad_u8", "u32 = u32 u32 u32")
def _sad_u8(v: VectorApi, a: Value, b: Value, c: Value) -> Value:
    for at in (0, 8, 16, 24):
        c = v.add(_distance(v, extract(v, a, at, 8), extract(v, b, at, 8)), c)
    return c
