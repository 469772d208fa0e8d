"""Basis strides: integers tagged with the coordinate that they move along.

`E(0)` is one step along mode 0, `E(1, 0)` one along sub-mode 0 of mode 1; a layout with such
strides evaluates to a coordinate instead of an index.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from flydsl.errors import UserTypeError, UserValueError
from flydsl.layout import leaf
from flydsl.layout.leaf import DynamicLeaf, Leaf

__all__ = ["Basis", "E", "Stride", "scale"]


@dataclass(frozen=True, slots=True)
class Basis:
    """The stride `value` along the coordinate at path `modes`.

    Attributes:
        value: An int or run-time integer.
        modes: Path into the coordinate, outermost mode first; at least one non-negative int.

    Raises:
        UserError: `modes` is empty or holds something else, or `value` is not an integer.
    """

    value: Leaf
    modes: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_modes(self.modes)
        if not self.modes:
            raise UserValueError(
                "a basis stride needs a mode",
                code="FLY-U112",
                hint="a plain int is the stride of a layout whose result is one number",
            )
        if isinstance(self.value, bool) or not isinstance(self.value, int | DynamicLeaf):
            raise UserTypeError(
                "the value of a basis stride is not an integer", code="FLY-U101", value=self.value
            )

    def __str__(self) -> str:
        return f"{self.value}" + "".join(f"E{mode}" for mode in self.modes)


Stride: TypeAlias = Leaf | Basis


def _check_modes(modes: object) -> None:
    if not isinstance(modes, tuple):
        raise UserTypeError("basis modes are not a tuple", code="FLY-U112", value=modes)
    if len(modes) > 16:
        raise UserValueError(
            "a basis path is too long", code="FLY-U112", value=len(modes), allowed="up to 16 modes"
        )
    for mode in modes:
        if isinstance(mode, bool) or not isinstance(mode, int):
            raise UserTypeError(
                "a basis mode is not an int", code="FLY-U112", value=mode, allowed="0, 1, 2, ..."
            )
        if not 0 <= mode < 256:
            raise UserValueError(
                "a basis mode is out of range", code="FLY-U112", value=mode, allowed="0 to 255"
            )


def E(*modes: int) -> Basis | int:  # noqa: N802
    """Return the unit step along the coordinate at path `modes`; with no modes, the int 1.

    Raises:
        UserError: A mode is a bool, not an int, or negative.
    """
    _check_modes(modes)
    return Basis(1, modes) if modes else 1


def scale(stride: Stride, factor: Leaf) -> Stride:
    """Return stride * factor; a static product of 0 is the int 0, whatever the basis."""
    if isinstance(stride, Basis):
        value = leaf.mul(stride.value, factor)
        return 0 if isinstance(value, int) and value == 0 else Basis(value, stride.modes)
    return leaf.mul(stride, factor)
