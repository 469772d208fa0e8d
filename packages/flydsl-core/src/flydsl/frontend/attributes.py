"""Python values as MLIR attributes: what users attach to kernels and launches."""

from __future__ import annotations

from typing import Any

from flydsl.errors import UserTypeError
from flydsl.expr.ambient import Session

__all__ = ["to_attribute"]


def to_attribute(session: Session, value: Any) -> Any:
    """Return the attribute for a Python value: ``()`` is a unit attribute, None is None.

    bool and int (as i32), str, list or tuple, dict and IR attributes are accepted.

    Raises:
        UserTypeError: Any other type.
    """
    ir = session.ir
    if value is None or isinstance(value, ir.Attribute):
        return value
    if value == () and isinstance(value, tuple):
        return ir.UnitAttr.get()
    if isinstance(value, bool):
        return ir.BoolAttr.get(value)
    if isinstance(value, int):
        return ir.IntegerAttr.get(session.type("i32"), value)
    if isinstance(value, str):
        return ir.StringAttr.get(value)
    if isinstance(value, (list, tuple)):
        return ir.ArrayAttr.get([to_attribute(session, item) for item in value])
    if isinstance(value, dict):
        return ir.DictAttr.get({key: to_attribute(session, item) for key, item in value.items()})
    raise UserTypeError(
        "this value cannot be an attribute",
        code="FLY-U232",
        value=value,
        allowed="bool, int, str, list, tuple, dict, ir.Attribute",
    )
