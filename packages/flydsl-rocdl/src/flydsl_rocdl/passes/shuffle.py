"""Moving values between the lanes of a wave: ``gpu.shuffle``.

A xor by a constant becomes the cheapest exchange that the architecture has: DPP within rows of 16
lanes, a lane swap or a row exchange beyond, ``ds_swizzle`` inside 32 lanes. Constant moves up and
down are DPP within rows, and by one lane over a whole wave where the architecture shifts waves; a
constant lane is read into a scalar register, or shared by DPP in its quad or row. Everything else
is ``ds_bpermute`` with the source lane computed. Lanes that take no part give undefined values, as
on hardware.

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
_ROW_SHL, _ROW_SHR, _ROW_SHARE = 0x100, 0x110, 0x150
_WAVE_SHL_1, _WAVE_SHR_1 = 0x130, 0x138
_ROW = 16
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


def _shift(low: Lowering, word: Value, mode: str, distance: int, size: int) -> Value | None:
    """Return the value `distance` lanes up or down with DPP; where there is none, the own one.

    Within groups smaller than a row the caller replaces what comes from another group.
    """
    up = mode == "up"
    if size <= _ROW and 0 < distance < size:
        return _shifted(low, word, (_ROW_SHR if up else _ROW_SHL) | distance)
    wave = low.facts.wave_size
    if size == wave and distance == 1 and "dpp-wave-shift" in low.facts.has:
        return _shifted(low, word, _WAVE_SHR_1 if up else _WAVE_SHL_1)
    return None


def _shifted(low: Lowering, word: Value, control: int) -> Value:
    """Move by DPP, keeping the own value where the source is outside."""
    return low.b.value(
        "rocdl.update.dpp", word.type, (word, word),
        {"dppCtrl": f"{control} : i32", "rowMask": "15 : i32", "bankMask": "15 : i32",
         "boundCtrl": "false"},
    )  # fmt: skip


def _share(low: Lowering, word: Value, lane: int, size: int) -> Value | None:
    """Return the value of one constant lane of each group; None when it takes another way."""
    if size == low.facts.wave_size:
        return low.b.value("rocdl.readlane", word.type, (word, low.b.constant(lane)))
    if size in (2, 4):
        picks = [lane] * 4 if size == 4 else [lane, lane, 2 + lane, 2 + lane]
        return _dpp(low, word, word, sum(pick << 2 * at for at, pick in enumerate(picks)))
    if size == _ROW and "row-xmask" in low.facts.has:
        return _dpp(low, word, word, _ROW_SHARE | lane)
    return None


def _constant_move(
    low: Lowering, words: list[Value], mode: str, distance: int, size: int
) -> list[Value] | None:
    """Return words moved by a constant distance without ``ds_bpermute``, if that is possible."""
    if mode == "xor" and 0 <= distance < size:
        return [exchange(low, word, distance) for word in words]
    if mode in ("up", "down"):
        moved = [_shift(low, word, mode, distance, size) for word in words]
    elif mode == "idx":
        moved = [_share(low, word, distance % size, size) for word in words]
    else:
        return None
    found = [word for word in moved if word is not None]
    return found if len(found) == len(words) else None


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
    moved = None
    if distance is not None and size is not None:
        moved = _constant_move(low, words, mode, distance, size)
    if moved is not None and mode in ("xor", "idx"):
        valid = b.constant(1, "i1")
    elif moved is not None:
        valid = _source(low, mode, offset, width)[1]
        if size is not None and size < _ROW:
            pairs = zip(moved, words, strict=True)
            moved = [b.select(valid, there, own) for there, own in pairs]
    else:
        lane, valid = _source(low, mode, offset, width)
        moved = [permute(low, word, lane) for word in words]
    return [join_words(low, moved, bits, value.type), valid]
