"""`Numeric`: a number of a fixed type, known while tracing (static) or only at run time (dynamic).

The concrete classes are in `classes`; arithmetic is in `operators`, conversion in `convert`. All
classes share one slot, so that an operator costs little more than the operation it creates.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeGuard, TypeVar

from flydsl.errors import UserTypeError
from flydsl.expr.ambient import IRType, IRValue, note, require
from flydsl.expr.emit import constant, emit
from flydsl.expr.numeric.formats import FloatFormat

__all__ = [
    "RUN_TIME",
    "Numeric",
    "NumericMeta",
    "dynamic_use",
    "is_numeric_class",
    "laned",
    "like",
    "literal",
    "named",
]

N = TypeVar("N", bound="Numeric")

_CLASSES: dict[str, type[Numeric]] = {}


class NumericMeta(type):
    """Gives numeric classes readable names and class properties."""

    def __repr__(cls) -> str:
        return f"fx.{cls.__name__}"

    @property
    def ir_type(cls) -> IRType:
        """The IR type in the current trace.

        Raises:
            UserRuntimeError: Nothing is being traced.
        """
        return require(f"{cls!r}.ir_type").type(cls.ir_text)  # type: ignore[attr-defined]

    @property
    def zero(cls) -> int | float:
        """The Python number zero of this class's kind."""
        return 0.0 if cls.is_float else 0  # type: ignore[attr-defined]

    @property
    def numpy_dtype(cls) -> Any:
        """The NumPy data type with the same bits, or None if NumPy has none; imports NumPy."""
        import importlib

        name = cls.numpy_name  # type: ignore[attr-defined]
        return importlib.import_module("numpy").dtype(name) if name else None


RUN_TIME = "<run-time value>"
"""Stands for the value of a run-time number in text."""


class Numeric(metaclass=NumericMeta):
    """A static or dynamic number.

    Class attributes:
        width: Bits.
        signed: Whether comparisons, division and widening treat it as signed (floats: True).
        is_integer, is_float: The kind; exactly one is true.
        ir_text: MLIR spelling of the type. Integers are signless; signedness lives in the class.
        numpy_name: NumPy's name of the type, or empty.
        storable: Whether it occupies whole bytes in memory on its own.
        format: Rounding rules of a float class.
        is_index: Whether the IR type is ``index``.
        lanes: Lanes of the vector form of a class (`laned`); 0 for scalars.
    """

    __slots__ = ("value",)

    width: ClassVar[int] = 0
    signed: ClassVar[bool] = True
    is_integer: ClassVar[bool] = False
    is_float: ClassVar[bool] = False
    ir_text: ClassVar[str] = ""
    numpy_name: ClassVar[str] = ""
    storable: ClassVar[bool] = True
    format: ClassVar[FloatFormat | None] = None
    is_index: ClassVar[bool] = False
    lanes: ClassVar[int] = 0

    value: Any

    if TYPE_CHECKING:  # what `flydsl.expr.numeric.operators.Arithmetic` adds to every class

        def __init__(self, value: object) -> None: ...
        def to(self, dtype: type[N], rounding_mode: object = None) -> N: ...  # noqa: D102
        def bitcast(self, dtype: type[N]) -> N: ...  # noqa: D102
        def __add__(self, other: object) -> Any: ...
        def __radd__(self, other: object) -> Any: ...
        def __sub__(self, other: object) -> Any: ...
        def __mul__(self, other: object) -> Any: ...
        def __rmul__(self, other: object) -> Any: ...
        def __and__(self, other: object) -> Any: ...
        def __or__(self, other: object) -> Any: ...

    def __init_subclass__(cls) -> None:
        if not cls.lanes:
            _CLASSES[cls.__name__] = cls

    @classmethod
    def wrap(cls, value: IRValue) -> Self:
        """Return the dynamic number that an IR value of exactly this class's IR type holds."""
        self = object.__new__(cls)
        self.value = value
        note(self)
        return self

    @classmethod
    def static(cls, value: int | float | bool) -> Self:
        """Return a static number; `value` must be in range and rounded already."""
        self = object.__new__(cls)
        self.value = value
        return self

    @classmethod
    def rounded(cls, value: float) -> Self:
        """Return a static number of a float class, rounded to it."""
        assert cls.format is not None
        return cls.static(cls.format.round(value))

    @property
    def dtype(self) -> type[Self]:
        """The class."""
        return type(self)

    def is_static(self) -> bool:
        """Return whether the value is known while tracing."""
        return isinstance(self.value, (int, float))

    def ir_value(self) -> IRValue:
        """Return the IR value; a static number becomes a constant at the insertion point.

        Raises:
            UserRuntimeError: Static, and nothing is being traced.
        """
        value = self.value
        return literal(type(self), value) if isinstance(value, (int, float)) else value

    def __fly_values__(self) -> list[IRValue]:
        return [self.ir_value()]

    def __fly_rebuild__(self, values: list[IRValue]) -> Self:
        return self.wrap(values[0])

    def __hash__(self) -> int:
        if self.is_static():
            return hash(self.value)
        raise dynamic_use(self, "a dictionary key or a member of a set")

    def __repr__(self) -> str:
        if self.is_static():
            return f"{type(self).__name__}({self.value!r})"
        return f"{type(self).__name__}({RUN_TIME})"

    def __bool__(self) -> bool:
        if self.is_static():
            return bool(self.value)
        raise dynamic_use(self, "a Python bool")

    def __index__(self) -> int:
        if self.is_static() and self.is_integer:
            return int(self.value)
        raise dynamic_use(self, "a Python int")

    def __int__(self) -> int:
        if self.is_static():
            return int(self.value)
        raise dynamic_use(self, "a Python int")

    def __float__(self) -> float:
        if self.is_static():
            return float(self.value)
        raise dynamic_use(self, "a Python float")


def named(name: str) -> type[Numeric]:
    """Return the concrete class of this name; lets lower modules refer to classes of `classes`."""
    return _CLASSES[name]


@cache
def laned(kind: type[Numeric], lanes: int) -> type[Numeric]:
    """Return the form of a class that holds `lanes` values in one IR vector.

    It is internal to arithmetic: operators emit the same operations for it with vector types.
    """
    space = {"__slots__": (), "lanes": lanes, "ir_text": f"vector<{lanes}x{kind.ir_text}>"}
    made: type[Numeric] = NumericMeta(f"{kind.__name__}x{lanes}", (kind,), space)  # type: ignore[assignment]
    return made


def is_numeric_class(value: object) -> TypeGuard[type[Numeric]]:
    """Return whether `value` is a concrete numeric class."""
    return isinstance(value, type) and issubclass(value, Numeric) and bool(value.ir_text)


def like(kind: type[Numeric], text: str) -> str:
    """Return the scalar IR type `text`, as a vector where `kind` has lanes."""
    return f"vector<{kind.lanes}x{text}>" if kind.lanes else text


def literal(kind: type[Numeric], value: int | float) -> IRValue:
    """Emit a constant of a class (in every lane); floats must be exact in it.

    LLVM has no floats of less than 16 bits, so those are constants of their bits.
    """
    session = require("a constant")
    if kind.format is None or kind.width >= 16:
        return constant(session, kind.ir_text, value)
    bits = constant(session, like(kind, f"i{kind.width}"), kind.format.encode(value))
    return emit("arith.bitcast", session.type(kind.ir_text), (bits,))


_HINTS = {
    "a Python bool": "use it in an `if`, `while`, `and`, `or` or `not` of a traced function, or "
    "`cond.select(a, b)`; `const_expr(...)` and `assert` need compile-time values "
    "(`fx.device_assert` takes others)",
    "a Python int": "`range(...)` directly in a `for` takes run-time bounds; `range_constexpr`, "
    "list indices, shapes of register tensors and other Python uses need compile-time values "
    "(pass them as fx.Constexpr)",
    "a Python float": "keep computing with the value itself",
    "a dictionary key or a member of a set": "compare with the keys one by one, or select a value",
}


def dynamic_use(value: Numeric, wanted: str) -> UserTypeError:
    """Return the error for using a run-time number where Python needs a number now."""
    kind = type(value).__name__
    if value.is_static():
        return UserTypeError(
            f"{kind} is not an integer", code="FLY-U203", value=value.value, allowed="an integer"
        )
    return UserTypeError(
        f"a run-time {kind} has no value while tracing, so it cannot be {wanted}",
        code="FLY-U203",
        hint=_HINTS[wanted],
    )
