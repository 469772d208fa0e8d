"""Operations under their ROCDL names, with the result type first as raw builders have it.

The result type is implied by the operands; it is checked, so that a kernel that asks for another
one learns it here.
"""

from __future__ import annotations

from flydsl.errors import UserTypeError
from flydsl.expr.numeric import Numeric
from flydsl_rocdl.expr.lanes import (
    ballot_lanes,
    ds_bpermute_word,
    read_first_lane,
    read_lane,
)

__all__ = ["ballot", "checked", "ds_bpermute", "readfirstlane", "readlane"]


def checked(name: str, result_type: object, value: Numeric) -> Numeric:
    """Return `value` unless a result of another type was asked for.

    Raises:
        UserTypeError: It was.
    """
    wanted = getattr(result_type, "ir_text", None) or str(result_type)
    if wanted != value.ir_text:
        raise UserTypeError(
            f"{name} gives {value.ir_text} here",
            code="FLY-U617",
            value=wanted,
            allowed=value.ir_text,
        )
    return value


def readfirstlane(res: object, src: object) -> Numeric:
    """Return the value of the first active lane."""
    return checked("readfirstlane", res, read_first_lane(src))


def readlane(res: object, src: object, lane: object) -> Numeric:
    """Return the value of lane `lane`."""
    return checked("readlane", res, read_lane(src, lane))


def ds_bpermute(res: object, index: object, src: object) -> Numeric:
    """Return the value of the lane whose number is `index` / 4."""
    return checked("ds_bpermute", res, ds_bpermute_word(index, src))


def ballot(res: object, pred: object) -> Numeric:
    """Return one bit per active lane where `pred` holds."""
    return checked("ballot", res, ballot_lanes(pred))
