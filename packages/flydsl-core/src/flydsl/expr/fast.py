"""Fast-math flags: ``with fx.fastmath("contract,nnan"):`` applies to float operations inside."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from flydsl.errors import UserTypeError, UserValueError
from flydsl.expr.ambient import require

__all__ = ["FastMathFlags", "fastmath", "flags"]


class FastMathFlags(enum.Flag):
    """Relaxations of IEEE arithmetic, as in LLVM."""

    none = 0
    reassoc = 1
    nnan = 2
    ninf = 4
    nsz = 8
    arcp = 16
    contract = 32
    afn = 64
    fast = 127


def _text(value: Any) -> str:
    """Return MLIR's spelling of flags.

    Raises:
        UserTypeError: Not a string, `FastMathFlags` or collection of them.
        UserValueError: An unknown flag.
    """
    if isinstance(value, FastMathFlags):
        if value in (FastMathFlags.none, FastMathFlags.fast):
            return str(value.name)
        return ",".join(item.name or "" for item in value)
    if isinstance(value, (list, tuple, set, frozenset)):
        return ",".join(_text(item) for item in value) or "none"
    if not isinstance(value, str):
        raise UserTypeError(
            "fast-math flags are text or FastMathFlags", code="FLY-U248", value=value
        )
    for part in value.split(","):
        if part.strip() not in FastMathFlags.__members__:
            raise UserValueError(
                "no such fast-math flag",
                code="FLY-U248",
                value=part,
                allowed=", ".join(FastMathFlags.__members__),
            )
    return value.replace(" ", "")


@contextmanager
def fastmath(value: Any) -> Iterator[None]:
    """Apply fast-math flags to the float operations traced in the block.

    Args:
        value: Names joined by commas, `FastMathFlags`, or a collection of either; None for none.
            An inner block replaces the flags of an outer one.
    """
    session = require("fastmath")
    before = session.fastmath
    attribute = None
    if value is not None:
        attribute = session.ir.Attribute.parse(f"#arith.fastmath<{_text(value)}>")
    session.fastmath = attribute
    try:
        yield
    finally:
        session.fastmath = before


@contextmanager
def flags(value: Any) -> Iterator[None]:
    """Apply flags given as an argument; None leaves the ambient ones in force."""
    if value is None:
        yield
        return
    with fastmath(value):
        yield
