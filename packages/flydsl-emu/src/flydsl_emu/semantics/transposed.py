"""Transposing loads of gfx12 and gfx1250: what the lanes of a wave read is handed around.

With 16-bit elements each eight lanes transpose the 8 x 8 elements that they read: lane i of eight
gets the elements number i, in the order of the lanes. With 8-bit elements the eight lanes that a
lane gets its elements from are two runs of four: lanes 0 to 7 read from lanes 0 to 3 and 8 to 11,
lanes 8 to 15 from lanes 4 to 7 and 12 to 15, and so on (AMD's description of ``ds_load_tr`` for
Triton). Each lane's address is its own.
"""

from __future__ import annotations

from collections.abc import Callable

from flydsl_emu.decode.instruction import Instruction
from flydsl_emu.semantics.api import Value, VectorApi
from flydsl_emu.semantics.registry import define
from flydsl_emu.semantics.vmem import flat_address

__all__ = ["source_lane"]

_COUNT = 8


def source_lane(bits: int, lane: int, element: int) -> int:
    """Return the lane that reads what element `element` of `lane` becomes.

    The element's number among what that lane reads is ``lane % 8``.
    """
    if bits == 16:
        return lane & ~7 | element
    return lane & 16 | (element & 4) << 1 | (lane & 8) >> 1 | element & 3


def _handed_around(v: VectorApi, bits: int, words: list[Value]) -> list[Value]:
    per_word = 32 // bits
    own = v.bit_and(v.lane_id(), _COUNT - 1)
    word, shift = v.shr(own, per_word.bit_length() - 1), v.mul(v.bit_and(own, per_word - 1), bits)
    out: list[Value] = []
    for element in range(_COUNT):
        source = [source_lane(bits, lane, element) for lane in range(v.lane_count)]
        moved = [v.shuffle(x, source) for x in words]
        chosen = moved[0]
        for k, x in enumerate(moved[1:], 1):
            chosen = v.select(v.eq(word, k), x, chosen)
        field = v.bit_and(v.shr(chosen, shift), (1 << bits) - 1)
        at, place = divmod(element, per_word)
        if place == 0:
            out.append(field)
        else:
            out[at] = v.bit_or(out[at], v.shl(field, place * bits))
    return out


def _from_lds(bits: int) -> Callable[..., object]:
    def call(v: VectorApi, i: Instruction, address: Value) -> object:
        words = v.load("lds", v.add(address, i.mod("offset")), 4, bits // 4)
        return _handed_around(v, bits, words)

    return call


def _from_memory(bits: int) -> Callable[..., object]:
    def call(v: VectorApi, i: Instruction, address: Value, base: Value | None = None) -> object:
        where = flat_address(v, i, address, base, bits)
        return _handed_around(v, bits, v.load("global", where, 4, bits // 4))

    return call


for _bits, _name in ((16, "tr16_b128"), (8, "tr8_b64")):
    define(f"ds_load_{_name}", "regs = inst u32", _from_lds(_bits))
    define(f"global_load_{_name}", "regs = inst auto auto", _from_memory(_bits))
define("global_load_tr_b128", "regs = inst auto auto", _from_memory(16))
