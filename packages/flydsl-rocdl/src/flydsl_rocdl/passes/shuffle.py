"""Moving values between the lanes of a wave: ``gpu.shuffle``.

A xor by a constant becomes the cheapest exchange that the architecture has: DPP within rows of 16
lanes, a lane swap or a row exchange beyond, ``ds_swizzle`` inside 32 lanes; everything else is
``ds_bpermute`` with the source lane computed. Lanes that take no part give undefined values, as on
hardware.

Sources for DPP controls and swizzle patterns: the CDNA3 and RDNA3 ISA reference guides.
"""

from __future__ import annotations

from typing import Any

from flydsl_rocdl.passes.builder import Value
from flydsl_rocdl.passes.lowering import Lowering, constant_of, refuse, rule
from flydsl_rocdl.passes.memtypes import bit_width

__all__ = ["exchange", "permute", "split_words"]

_QUAD_PERM = {1: 0xB1, 2: 0x4E, 3: 0x1B}
"""Lane order within four lanes for each xor."""
_HALF_MIRROR, _MIRROR, _ROW_ROR_8, _ROW_XMASK = 0x141, 0x140, 0x128, 0x160
_ROW_SHL_4, _ROW_SHR_4 = 0x104, 0x114
_ALL, _EVEN_BANKS, _ODD_BANKS = 0xF, 0x5, 0xA
_SLT, _SGE = 2, 5


def _dpp(low: Lowering, old: Value, value: Value, control: int, banks: int = _ALL) -> Value:
    bound = "true" if banks == _ALL else "false"
    return low.b.value(
        "rocdl.update.dpp", value.type, (old, value),
        {"dppCtrl": f"{control} : i32", "rowMask": "15 : i32", "bankMask": f"{banks} : i32",
         "boundCtrl": bound},
    )  # fmt: skip


def _row_exchange(low: Lowering, word: Value, mask: int) -> Value | None:
    """Exchange lanes by a xor below 16 with DPP; None when it takes another way."""
    if mask in _QUAD_PERM:
        return _dpp(low, word, word, _QUAD_PERM[mask])
    if "row-xmask" in low.facts.has:
        return _dpp(low, word, word, _ROW_XMASK | mask)
    if mask == 4:
        # Banks are groups of four lanes: even ones take from above, odd ones from below.
        up = _dpp(low, word, word, _ROW_SHL_4, _EVEN_BANKS)
        return _dpp(low, up, word, _ROW_SHR_4, _ODD_BANKS)
    control = {7: _HALF_MIRROR, 8: _ROW_ROR_8, 15: _MIRROR}.get(mask)
    return None if control is None else _dpp(low, word, word, control)


def _swap(low: Lowering, word: Value, mask: int) -> Value:
    """Exchange lanes `mask` apart with ``permlane*_swap``."""
    b = low.b
    pair = b.type("!llvm.struct<(i32, i32)>")
    false = b.constant(0, "i1")
    swapped = b.intrinsic(f"amdgcn.permlane{mask}.swap", pair, (word, word, false, false)).result
    first, second = (
        b.value("llvm.extractvalue", word.type, (swapped,), {"position": f"array<i64: {i}>"})
        for i in (0, 1)
    )
    # Of the two results, the lower lanes find their partner in the second, the upper in the first.
    upper = b.compare(1, b.binary("llvm.and", low.lane(), b.constant(mask)), b.constant(0))
    return b.select(upper, first, second)


def exchange(low: Lowering, word: Value, mask: int) -> Value:
    """Return the value of lane ``lane ^ mask``, for a constant mask below the wave size.

    Args:
        low: The lowering.
        word: An i32.
        mask: Distance; 0 gives the value itself.
    """
    b = low.b
    if mask == 0:
        return word
    if mask < 16:
        found = _row_exchange(low, word, mask)
        if found is not None:
            return found
    if mask in low.facts.lane_swaps:
        return _swap(low, word, mask)
    if mask == 16 and "permlanex16" in low.facts.has:
        # Select bits name, for each lane, the lane of the other row: itself.
        select = (b.constant(0x76543210), b.constant(-0x01234568), b.constant(0, "i1"))
        return b.intrinsic(
            "amdgcn.permlanex16", word.type, (word, word, *select, b.constant(0, "i1"))
        ).result
    if mask < 32 and "ds-swizzle" in low.facts.has:
        pattern = b.constant(mask << 10 | 0x1F)
        return b.intrinsic("amdgcn.ds.swizzle", word.type, (word, pattern)).result
    return permute(low, word, b.binary("llvm.xor", low.lane(), b.constant(mask)))


def permute(low: Lowering, word: Value, lane: Value) -> Value:
    """Return the i32 that lane number `lane` (i32) holds."""
    b = low.b
    address = b.binary("llvm.shl", lane, b.constant(2))
    return b.intrinsic("amdgcn.ds.bpermute", word.type, (address, word)).result


def split_words(low: Lowering, value: Value, op: Any) -> tuple[list[Value], int]:
    """Return a value's bits as i32 words, and its width in bits.

    Raises:
        TargetError: The type has no fixed width of at most 128 bits.
    """
    b = low.b
    text = str(value.type)
    bits = bit_width(text)
    if not 0 < bits <= 128:
        raise refuse(op, f"values of type {text} cannot be shuffled", code="FLY-T632",
                     allowed="numbers and vectors of up to 128 bits")  # fmt: skip
    integer = b.bitcast(value, b.type(f"i{bits}"))
    word = b.type("i32")
    if bits == 32:
        return [integer], bits
    if bits < 32:
        return [b.value("llvm.zext", word, (integer,))], bits
    if bits % 32:
        integer = b.value("llvm.zext", b.type(f"i{(bits + 31) // 32 * 32}"), (integer,))
    words = []
    for at in range(0, bits, 32):
        part = integer
        if at:
            kind = str(integer.type)
            part = b.binary("llvm.lshr", integer, b.constant(at, kind))
        words.append(b.value("llvm.trunc", word, (part,)))
    return words, bits


def join_words(low: Lowering, words: list[Value], bits: int, result: Any) -> Value:
    """Put words from `split_words` together again."""
    b = low.b
    if bits <= 32:
        integer = words[0]
    else:
        total = b.type(f"i{len(words) * 32}")
        integer = b.value("llvm.zext", total, (words[0],))
        for number, word in enumerate(words[1:], start=1):
            wide = b.value("llvm.zext", total, (word,))
            moved = b.binary("llvm.shl", wide, b.constant(32 * number, str(total)))
            integer = b.binary("llvm.or", integer, moved)
    if bits % 32:
        integer = b.value("llvm.trunc", b.type(f"i{bits}"), (integer,))
    return b.bitcast(integer, result)


def _source(low: Lowering, mode: str, offset: Value, width: Value) -> tuple[Value, Value]:
    """Return (source lane, whether it is within this lane's group of `width`)."""
    b = low.b
    lane = low.lane()
    minus_width = b.binary("llvm.sub", b.constant(0), width)
    base = b.binary("llvm.and", lane, minus_width)
    end = b.binary("llvm.add", base, width)
    if mode == "idx":
        inside = b.binary("llvm.and", offset, b.binary("llvm.sub", width, b.constant(1)))
        return b.binary("llvm.or", base, inside), b.constant(1, "i1")
    if mode == "up":
        wanted = b.binary("llvm.sub", lane, offset)
        valid = b.compare(_SGE, wanted, base)
    else:
        name = "llvm.xor" if mode == "xor" else "llvm.add"
        wanted = b.binary(name, lane, offset)
        valid = b.compare(_SLT, wanted, end)
    return b.select(valid, wanted, lane), valid


@rule("gpu.shuffle")
def shuffle(low: Lowering, op: Any) -> list[Value]:
    """Exchange values between lanes of groups of `width` lanes."""
    b = low.b
    value, offset, width = op.operands
    mode = str(op.attributes["mode"]).removesuffix(">").split()[-1]
    size, distance = constant_of(width), constant_of(offset)
    wave = low.facts.wave_size
    if size is not None and (size > wave or size < 1 or size & (size - 1)):
        raise refuse(op, f"a shuffle over {size} lanes does not fit a wave", code="FLY-T632",
                     allowed=f"powers of two up to {wave} on {low.target.arch}")  # fmt: skip
    words, bits = split_words(low, value, op)
    if mode == "xor" and distance is not None and size is not None and 0 <= distance < size:
        moved = [exchange(low, word, distance) for word in words]
        valid = b.constant(1, "i1")
    else:
        lane, valid = _source(low, mode, offset, width)
        moved = [permute(low, word, lane) for word in words]
    return [join_words(low, moved, bits, value.type), valid]
