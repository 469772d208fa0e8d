"""Which banks of shared memory an access meets, and how often lanes wait for one another.

The model: memory word i (`bank_bytes` wide) is in bank i % banks. One pass serves the lanes whose
accesses fill all banks once: with 32 banks 32 lanes of 4 bytes, 16 of 8, 8 of 16. In a pass a bank
gives one word to all lanes that want it; lanes that want different words of one bank wait for one
another.
"""

from __future__ import annotations

from dataclasses import dataclass

from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout.composed import ComposedLayout
from flydsl.layout.drawing.model import DrawOptions, check_size
from flydsl.layout.layouts import Layout
from flydsl.layout.queries import crd2idx, size

__all__ = ["BankReport", "LaneAccess", "bank_conflicts", "words_of"]


@dataclass(frozen=True, slots=True)
class LaneAccess:
    """What one lane accesses.

    Attributes:
        lane: Its number.
        turn: The pass that serves it, from 0.
        coordinates: Linear coordinates of the elements.
        words: The words of memory that it touches.
    """

    lane: int
    turn: int
    coordinates: tuple[int, ...]
    words: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class BankReport:
    """The bank conflicts of one access by all lanes.

    Attributes:
        accesses: One per lane, by number.
        ways: Per pass, the most words that one bank has to give; 1 means no conflict.
        served: Per pass, bank -> how many words it has to give.
    """

    accesses: tuple[LaneAccess, ...]
    ways: tuple[int, ...]
    served: tuple[dict[int, int], ...]

    @property
    def clocks(self) -> int:
        """Passes including the repeated ones; equals ``len(ways)`` without conflicts."""
        return sum(self.ways)


def words_of(index: int, element_bits: int, bank_bytes: int) -> tuple[int, ...]:
    """Return the words of memory that element `index` lies in."""
    width = 8 * bank_bytes
    first, last = index * element_bits // width, (index * element_bits + element_bits - 1) // width
    return tuple(range(first, last + 1))


def _default_access(layout: Layout | ComposedLayout, per_lane: int) -> Layout:
    """Return lanes along mode 0, elements of a lane along mode 1 (or along the only mode)."""
    total = check_size(size(layout), str(layout))
    lanes = min(64, max(total // per_lane, 1))
    if layout.rank == 1:
        return Layout((lanes, per_lane), (per_lane, 1))
    rows = size(layout, 0)
    assert isinstance(rows, int)
    columns = total // rows
    if columns % per_lane:
        raise UserValueError(
            "an access does not fit the rows of the layout",
            code="FLY-U119",
            value=f"{per_lane} elements",
            allowed=f"a divisor of {columns}",
            hint="say with `access` which elements each lane accesses",
        )
    if lanes <= rows:
        return Layout((lanes, per_lane), (1, rows))
    if lanes % rows:
        lanes -= lanes % rows
    return Layout(((rows, lanes // rows), per_lane), ((1, rows * per_lane), rows))


def bank_conflicts(layout: Layout | ComposedLayout, options: DrawOptions) -> BankReport:
    """Return which lanes wait for one another when each makes one access.

    Args:
        layout: From coordinates to elements of shared memory, from an aligned base on.
        options: `banks` and `element_bits` are needed, `access_bits` or `access` too.

    Raises:
        UserError: An option is missing, or the access does not fit the layout.
    """
    if not isinstance(layout, Layout | ComposedLayout):
        raise UserTypeError("banks need a layout of indices", code="FLY-U116", value=str(layout))
    if options.banks is None or options.element_bits is None:
        raise UserValueError("bank conflicts need banks and element_bits", code="FLY-U119")
    access = options.access
    if access is None:
        if options.access_bits is None or options.access_bits % options.element_bits:
            raise UserValueError(
                "an access is no whole number of elements",
                code="FLY-U119",
                value=options.access_bits,
                allowed=f"a multiple of {options.element_bits} bits",
            )
        access = _default_access(layout, options.access_bits // options.element_bits)
    check_size(size(access), str(access))
    count, total = size(access, 0) if access.rank == 2 else 0, size(layout)
    if access.rank != 2 or not access.is_static or not isinstance(total, int):
        raise UserValueError(
            "an access is a static layout (lane, element)", code="FLY-U119", value=str(access)
        )
    assert isinstance(count, int)
    lane_bytes = -(-size(access, 1) * options.element_bits // 8)  # type: ignore[operator]
    pass_bytes = options.banks * options.bank_bytes
    group = options.lanes or max(pass_bytes // max(lane_bytes, options.bank_bytes), 1)
    accesses = tuple(_lane(layout, access, lane, group, options) for lane in range(count))
    served = [
        _served([a for a in accesses if a.turn == turn], options.banks)
        for turn in range(-(-count // group))
    ]
    return BankReport(accesses, tuple(max(s.values()) for s in served), tuple(served))


def _lane(
    layout: Layout | ComposedLayout, access: Layout, lane: int, group: int, options: DrawOptions
) -> LaneAccess:
    assert options.element_bits is not None
    each, total = size(access, 1), size(layout)
    assert isinstance(each, int)
    assert isinstance(total, int)
    coordinates: list[int] = []
    words: list[int] = []
    for element in range(each):
        at = crd2idx((lane, element), access)
        if not isinstance(at, int) or not 0 <= at < total:
            raise UserValueError(
                "an access reaches beyond the layout",
                code="FLY-U119",
                value=f"lane {lane}: coordinate {at}",
                allowed=f"0 to {total - 1}",
            )
        index = crd2idx(at, layout)
        if not isinstance(index, int):
            raise UserTypeError(
                "banks need a layout of indices", code="FLY-U116", value=str(layout)
            )
        coordinates.append(at)
        words += words_of(index, options.element_bits, options.bank_bytes)
    return LaneAccess(lane, lane // group, tuple(coordinates), tuple(dict.fromkeys(words)))


def _served(accesses: list[LaneAccess], banks: int) -> dict[int, int]:
    wanted: dict[int, set[int]] = {}
    for access in accesses:
        for word in access.words:
            wanted.setdefault(word % banks, set()).add(word)
    return {bank: len(words) for bank, words in sorted(wanted.items())}
