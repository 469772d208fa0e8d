"""Swizzles: xor patterns on an index (`Swizzle`) or between two coordinates (`CoordSwizzle`)."""

from __future__ import annotations

from dataclasses import dataclass

from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout import leaf
from flydsl.layout.layouts import Drawable
from flydsl.layout.leaf import Leaf
from flydsl.layout.tuples import IntTuple, normalize, single_leaf

__all__ = ["CoordSwizzle", "Swizzle"]

_MAX_BITS = 62


def _check_bits(name: str, value: object, lowest: int = 0) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserTypeError(f"swizzle {name} is not an int", code="FLY-U111", value=value)
    if not lowest <= value <= _MAX_BITS:
        raise UserValueError(
            f"swizzle {name} is out of range",
            code="FLY-U111",
            value=value,
            allowed=f"{lowest} to {_MAX_BITS}",
        )


@dataclass(frozen=True, slots=True)
class Swizzle(Drawable):
    """``S<mask,base,shift>``: x -> x xor ((x & mask bits above base+shift) >> shift).

    `mask` bits starting at bit base+shift are xored into those starting at bit base; with a
    negative shift, the bits at base are xored into those at base-shift.

    Attributes:
        mask: How many bits take part.
        base: Lowest bit that takes part; the low `base` bits never change.
        shift: Distance of the two bit groups.

    Raises:
        UserError: `mask` or `base` is negative, or more than 62 bits are involved.
    """

    mask: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        _check_bits("mask", self.mask)
        _check_bits("base", self.base)
        _check_bits("shift", self.shift, -_MAX_BITS)
        _check_bits("mask + base + |shift|", self.mask + self.base + abs(self.shift))

    def __str__(self) -> str:
        return f"S<{self.mask},{self.base},{self.shift}>"

    @property
    def period(self) -> int:
        """Swizzling an index plus a multiple of this adds just that multiple."""
        return 1 << (self.mask + self.base + abs(self.shift)) if self.mask else 1

    @property
    def block(self) -> int:
        """Aligned runs of this many indices are permuted among themselves."""
        return 1 << (self.mask + self.base + max(-self.shift, 0)) if self.mask else 1

    @property
    def is_involution(self) -> bool:
        """Whether applying it twice changes nothing (the bit groups do not overlap)."""
        return self.mask == 0 or abs(self.shift) >= self.mask

    @property
    def is_bijection(self) -> bool:
        """Whether it is a permutation; only ``shift == 0`` with a mask is not."""
        return self.mask == 0 or self.shift != 0

    @property
    def source(self) -> tuple[int, int]:
        """First bit and number of the bits that are read."""
        return self.base + max(self.shift, 0), self.mask

    def __call__(self, index: Leaf) -> Leaf:
        """Return the swizzled index; a static or provably unaffected one folds.

        Raises:
            UserError: `index` is no single integer.
        """
        index = single_leaf(index, "the index of a swizzle")
        low = self.base + max(self.shift, 0)
        picked = leaf.bitand(index, ((1 << self.mask) - 1) << low)
        if isinstance(picked, int) and picked == 0:
            return index
        if self.shift >= 0:
            return leaf.xor(index, leaf.shr(picked, self.shift))
        return leaf.xor(index, leaf.shl(picked, -self.shift))

    def recast(self, old_bits: int, new_bits: int) -> Swizzle:
        """Return the same swizzle of bytes for elements of another width.

        Raises:
            UserError: A width is no positive int, the ratio is no power of two, or the swizzle
                moves bits inside one element.
        """
        for width in (old_bits, new_bits):
            bits: object = width
            if isinstance(bits, bool) or not isinstance(bits, int) or bits < 1:
                raise UserTypeError(
                    "an element width is not a number of bits", code="FLY-U101", value=bits
                )
        if self.mask == 0:
            return self
        ratio, rest = divmod(max(old_bits, new_bits), min(old_bits, new_bits))
        step = ratio.bit_length() - 1
        if rest or ratio != 1 << step:
            raise UserValueError(
                f"{self} cannot be recast from {old_bits} to {new_bits} bits: the ratio is not a "
                "power of two",
                code="FLY-U105",
            )
        base = self.base + (step if old_bits > new_bits else -step)
        if base < 0:
            raise UserValueError(
                f"{self} cannot be recast from {old_bits} to {new_bits} bits: it moves elements "
                "within one new element",
                code="FLY-U105",
                allowed=f"a base of at least {step}",
            )
        return Swizzle(self.mask, base, self.shift)


@dataclass(frozen=True, slots=True)
class CoordSwizzle:
    """``CS<mask,base_row,[row],base_col,[col]>``: xors bits of one coordinate into another.

    `mask` bits of the coordinate at path `row`, from bit `base_row`, are xored into the coordinate
    at path `col`, from bit `base_col`.

    Raises:
        UserError: A number of bits is out of range, or a path is empty or equal to the other.
    """

    mask: int
    base_row: int
    row: tuple[int, ...]
    base_col: int
    col: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_bits("mask", self.mask)
        _check_bits("row base", self.base_row)
        _check_bits("column base", self.base_col)
        _check_bits("mask + row base", self.mask + self.base_row)
        _check_bits("mask + column base", self.mask + self.base_col)
        for name, path in (("row", self.row), ("column", self.col)):
            entries: object = path
            if not isinstance(entries, tuple | list) or not entries:
                raise UserTypeError(
                    f"swizzle {name} mode is not a path",
                    code="FLY-U111",
                    value=path,
                    allowed="a non-empty tuple of ints",
                )
            for mode in path:
                _check_bits(f"{name} mode", mode)
        object.__setattr__(self, "row", tuple(self.row))
        object.__setattr__(self, "col", tuple(self.col))
        short = min(len(self.row), len(self.col))
        if self.row[:short] == self.col[:short]:
            raise UserValueError(
                "the row and column modes of a swizzle overlap", code="FLY-U111", value=self.row
            )

    def __str__(self) -> str:
        row, col = (",".join(map(str, path)) for path in (self.row, self.col))
        return f"CS<{self.mask},{self.base_row},[{row}],{self.base_col},[{col}]>"

    def __call__(self, coord: IntTuple) -> IntTuple:
        """Return the swizzled coordinate.

        Raises:
            UserError: `coord` has no leaf at one of the two paths.
        """
        coord = normalize(coord, "the coordinate of a swizzle")
        bits = leaf.bitand(self._at(coord, self.row), ((1 << self.mask) - 1) << self.base_row)
        shift = self.base_row - self.base_col
        moved = leaf.shr(bits, shift) if shift >= 0 else leaf.shl(bits, -shift)
        self._at(coord, self.col)
        return self._replace(coord, self.col, moved)

    def _at(self, coord: IntTuple, path: tuple[int, ...]) -> Leaf:
        x = coord
        for mode in path:
            x = x[mode] if isinstance(x, tuple) and mode < len(x) else None
        if x is None or isinstance(x, tuple):
            raise UserValueError(
                f"{self} needs a coordinate with a leaf at mode {list(path)}",
                code="FLY-U103",
                value=coord,
            )
        return x  # type: ignore[no-any-return]

    def _replace(self, coord: IntTuple, path: tuple[int, ...], bits: Leaf) -> IntTuple:
        if not path:
            return leaf.xor(coord, bits)
        return tuple(
            self._replace(c, path[1:], bits) if i == path[0] else c for i, c in enumerate(coord)
        )
