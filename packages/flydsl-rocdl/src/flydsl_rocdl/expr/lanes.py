"""Operations between the lanes of a wave."""

from __future__ import annotations

from flydsl.errors import TargetError
from flydsl.expr.ambient import require
from flydsl.expr.emit import constant, emit
from flydsl.expr.numeric import Boolean, Int32, Int64, Numeric, as_numeric
from flydsl_rocdl.expr.access import amd_facts, immediate, intrinsic, ir_i32, word

__all__ = [
    "ballot_lanes",
    "ds_bpermute_word",
    "ds_swizzle_word",
    "lane_id",
    "read_first_lane",
    "read_lane",
    "update_dpp_word",
]


def _like(bits: object, kind: type[Numeric]) -> Numeric:
    if kind.is_float:
        return kind.wrap(emit("arith.bitcast", kind.ir_type, (bits,)))
    return kind.wrap(bits)


def lane_id() -> Int32:
    """Return this lane's number within its wave."""
    facts = amd_facts("lane_id")
    session = require("lane_id")
    i32 = Int32.ir_type
    ones, zero = constant(session, "i32", -1), constant(session, "i32", 0)
    low = intrinsic("amdgcn.mbcnt.lo", i32, (ones, zero))
    if facts.wave_size == 32:
        return Int32.wrap(low)
    return Int32.wrap(intrinsic("amdgcn.mbcnt.hi", i32, (ones, low)))


def read_first_lane(value: object) -> Numeric:
    """Return the value of the first active lane, which is uniform over the wave."""
    amd_facts("read_first_lane")
    bits, kind = word("read_first_lane", value)
    return _like(emit("rocdl.readfirstlane", Int32.ir_type, (bits,)), kind)


def read_lane(value: object, lane: object) -> Numeric:
    """Return the value of lane `lane`, which must be uniform over the wave."""
    amd_facts("read_lane")
    bits, kind = word("read_lane", value)
    return _like(emit("rocdl.readlane", Int32.ir_type, (bits, ir_i32("the lane", lane))), kind)


def ds_bpermute_word(lane_address: object, value: object) -> Numeric:
    """Return the value of the lane whose number is `lane_address` / 4."""
    amd_facts("ds_bpermute")
    bits, kind = word("ds_bpermute", value)
    address = ir_i32("the lane address", lane_address)
    return _like(intrinsic("amdgcn.ds.bpermute", Int32.ir_type, (address, bits)), kind)


def ds_swizzle_word(value: object, pattern: int) -> Numeric:
    """Exchange lanes within groups of 32 by the instruction's 16-bit `pattern`."""
    amd_facts("ds_swizzle")
    bits, kind = word("ds_swizzle", value)
    number = immediate("the pattern of ds_swizzle", pattern, 0, 0xFFFF)
    operand = constant(require("ds_swizzle"), "i32", number)
    return _like(intrinsic("amdgcn.ds.swizzle", Int32.ir_type, (bits, operand)), kind)


def update_dpp_word(
    old: object,
    value: object,
    control: int,
    row_mask: int = 0xF,
    bank_mask: int = 0xF,
    bound_control: bool = False,
) -> Numeric:
    """Move `value` between lanes by a DPP control; lanes that get nothing keep `old`.

    Args:
        old: 32-bit number for lanes without a source; with `bound_control` they get 0.
        value: 32-bit number to move.
        control: 9-bit DPP control.
        row_mask: Rows of 16 lanes that are written.
        bank_mask: Banks of 4 lanes in each row that are written.
        bound_control: Whether sources outside give 0.
    """
    amd_facts("update_dpp")
    bits, kind = word("update_dpp", value)
    kept, _ = word("update_dpp", old)
    attribute = require("update_dpp").ir.Attribute.parse
    moved = emit(
        "rocdl.update.dpp",
        Int32.ir_type,
        (kept, bits),
        {
            "dppCtrl": attribute(f"{immediate('the DPP control', control, 0, 0x1FF)} : i32"),
            "rowMask": attribute(f"{immediate('row_mask', row_mask, 0, 15)} : i32"),
            "bankMask": attribute(f"{immediate('bank_mask', bank_mask, 0, 15)} : i32"),
            "boundCtrl": attribute("true" if bound_control else "false"),
        },
    )
    return _like(moved, kind)


def ballot_lanes(condition: object) -> Numeric:
    """Return a mask with one bit per active lane where `condition` holds, as wide as the wave."""
    facts = amd_facts("ballot")
    number = as_numeric(condition)
    if number is None or type(number) is not Boolean:
        raise TargetError("ballot takes a Boolean", code="FLY-T642", value=condition)
    kind: type[Numeric] = Int64 if facts.wave_size == 64 else Int32
    return kind.wrap(emit("rocdl.ballot", kind.ir_type, (number.ir_value(),)))
