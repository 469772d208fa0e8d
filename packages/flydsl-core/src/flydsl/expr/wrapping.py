"""IR values of Fly types as DSL values, and DSL values as operands of Fly builders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flydsl.errors import UserTypeError
from flydsl.expr.ambient import IRValue, current, note
from flydsl.expr.numeric import Numeric
from flydsl.expr.numeric.promote import scalar_from_ir

__all__ = ["FlyValue", "as_operand", "is_plain", "plain", "register_wrapper", "wrap"]

_WRAPPERS: dict[str, Callable[[IRValue, Any, type[Numeric] | None], Any]] = {}


def register_wrapper(
    mnemonic: str, make: Callable[[IRValue, Any, type[Numeric] | None], Any]
) -> None:
    """Say what wraps values of the Fly type called `mnemonic`.

    Args:
        mnemonic: Name of the type (``"memref"``).
        make: Called with the IR value, the type's wrapper (`dialects.fly_types`) and the numeric
            class of the elements where it is known to differ from the signed default.
    """
    _WRAPPERS[mnemonic] = make


def wrap(value: IRValue, element: type[Numeric] | None = None) -> Any:
    """Return the DSL value of an IR value.

    Static tuples and layouts become plain objects of `flydsl.layout`; integers become numerics.

    Raises:
        UserTypeError: No DSL value has this type.
    """
    from flydsl.dialects import fly_types

    kind = fly_types.of(value.type)
    make = None if kind is None else _WRAPPERS.get(kind.mnemonic)
    if make is not None:
        return make(value, kind, element)
    number = scalar_from_ir(value)
    if number is None:
        raise UserTypeError("this IR value has no DSL form", code="FLY-U235", value=str(value.type))
    return number


class FlyValue:
    """Base of the DSL values that hold one IR value of a Fly type.

    Attributes:
        value: The IR value.
        kind: The wrapper of its type (`flydsl.dialects.fly_types`).
    """

    __slots__ = ("kind", "value")

    def __init__(self, value: IRValue, kind: Any = None) -> None:
        if kind is None:
            from flydsl.dialects import fly_types

            kind = fly_types.of(value.type)
        self.value = value
        self.kind = kind
        note(self)

    @property
    def type(self) -> Any:
        """The wrapper of the IR type."""
        return self.kind

    def ir_value(self) -> IRValue:
        """Return the IR value."""
        return self.value

    def __fly_values__(self) -> list[IRValue]:
        return [self.value]

    def __fly_rebuild__(self, values: list[IRValue]) -> Any:
        return type(self)(values[0])

    def __fly_key__(self) -> object:
        return (type(self).__name__, str(self.kind))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.kind})"


def is_plain(value: object) -> bool:
    """Return whether a value is known while tracing: ints, tuples of them, layout objects."""
    if value is None or isinstance(value, int):
        return True
    if isinstance(value, (tuple, list)):
        return all(is_plain(item) for item in value)
    if isinstance(value, Numeric):
        return value.is_static()
    return not hasattr(type(value), "__fly_values__") and not _is_ir(value)


def _is_ir(value: object) -> bool:
    session = current()
    return session is not None and isinstance(value, session.value_class)


def plain(value: Any) -> Any:
    """Return a plain value with static numerics as Python numbers."""
    if isinstance(value, (tuple, list)):
        return tuple(plain(item) for item in value)
    return value.value if isinstance(value, Numeric) else value


def as_operand(value: Any) -> Any:
    """Return what a builder of `flydsl.dialects.fly` takes for a DSL value.

    Numbers become 32- or 64-bit integers.

    Raises:
        UserTypeError: A number that is no integer.
    """
    if isinstance(value, (tuple, list)):
        return tuple(as_operand(item) for item in value)
    if isinstance(value, FlyValue):
        return value.value
    if isinstance(value, Numeric):
        return _integer_operand(value)
    return value


def _integer_operand(value: Numeric) -> Any:
    if not value.is_integer or value.width == 1:
        raise UserTypeError(
            "layouts and coordinates are made of integers",
            code="FLY-U236",
            value=value,
            hint="convert it with .to(fx.Int32)",
        )
    if value.is_static():
        return value.value
    if value.width < 32 or (value.width == 32 and value.ir_text != "i32"):
        from flydsl.expr.numeric import Int32

        return value.to(Int32).ir_value()
    return value.ir_value()
