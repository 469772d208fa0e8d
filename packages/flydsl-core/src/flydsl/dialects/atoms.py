"""Copy and MMA operations: what one instruction moves or multiplies, over which threads and values.

An operation is a frozen dataclass with a text form ``prefix<parameters>`` that `parse_copy` and
`parse_mma` read back, and thread-value layouts: (thread, value) -> linear (colexicographic)
coordinate in the tile of the operation. Targets subclass `CopyOp` and `MmaOp` and list their
classes in `Target.atoms()`; `register` makes their text readable.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import ClassVar, Final, TypeVar

from flydsl.dialects.elements import element_bits, is_float
from flydsl.errors import CompilerBug, UserValueError
from flydsl.layout import Layout

__all__ = [
    "ATOMIC_OPERATIONS",
    "AtomOp",
    "CopyOp",
    "MmaOp",
    "UniversalAtomic",
    "UniversalCopy",
    "UniversalFMA",
    "parse_copy",
    "parse_mma",
    "register",
]

ATOMIC_OPERATIONS: Final = ("add", "max", "min", "and", "or", "inc", "dec")
_TEXT = re.compile(r"([A-Za-z_][\w.]*)(?:<(.*)>)?")
_NO_STATE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class AtomOp:
    """Base of copy and MMA operations; the dataclass fields are the parameters of the text form.

    Class attributes:
        prefix: Name in the text form, unique over all plugins.
        state: Name -> MLIR type text of the values that ``atom.set_value`` can attach.
    """

    prefix: ClassVar[str] = ""
    state: ClassVar[Mapping[str, str]] = _NO_STATE

    def __str__(self) -> str:
        values = [str(getattr(self, field.name)) for field in fields(self)]
        return f"{self.prefix}<{','.join(values)}>" if values else self.prefix

    @classmethod
    def from_parameters(cls, parameters: tuple[str, ...]) -> AtomOp:
        """Return the operation of the parameters' texts: ints where the field is an int, else text.

        Raises:
            UserError: The number of parameters or one of them is wrong.
        """
        declared = fields(cls)
        if len(parameters) != len(declared):
            raise UserValueError(
                f"{cls.prefix} has {len(declared)} parameters",
                code="FLY-U315",
                value=",".join(parameters),
            )
        values: list[object] = []
        for field, text in zip(declared, parameters, strict=True):
            if field.type in ("int", int):
                try:
                    values.append(int(text))
                except ValueError as error:
                    raise UserValueError(
                        f"{field.name} of {cls.prefix} is not an integer",
                        code="FLY-U315",
                        value=text,
                    ) from error
            elif field.type in ("bool", bool):
                values.append(text == "True")
            else:
                values.append(text)
        return cls(*values)


@dataclass(frozen=True, slots=True)
class CopyOp(AtomOp):
    """A copy instruction.

    Class attributes:
        whole_tile: One instruction moves the whole tile (a copy engine): it is never unrolled.
        issued_by: Dotted name, as ``module:function``, of what issues such a copy while tracing:
            a function of the atom, the source, the destination and the predicate. Empty: the copy
            is lowered by the target's passes.
    """

    whole_tile: ClassVar[bool] = False
    issued_by: ClassVar[str] = ""

    @property
    def copy_bits(self) -> int:
        """Bits that one thread moves."""
        raise NotImplementedError

    def check_bits(self, val_bits: int) -> None:
        """Raise UserError unless values of `val_bits` bits fill the instruction exactly."""
        if self.copy_bits % val_bits:
            raise UserValueError(
                f"{self} does not move a whole number of {val_bits}-bit values",
                code="FLY-U313",
                value=val_bits,
                allowed=f"a width that divides {self.copy_bits} bits",
            )

    def values(self, val_bits: int) -> int:
        """Return how many values of `val_bits` bits one thread moves."""
        return self.copy_bits // val_bits

    def thr_layout(self) -> Layout:
        """Return the layout of the threads that take part in one instruction."""
        return Layout(1, 1)

    def ref_tv(self, val_bits: int) -> Layout:
        """Return the (thread, value) layout that source and destination are compared through."""
        return Layout((1, self.values(val_bits)), (0, 1))

    def src_tv(self, val_bits: int) -> Layout:
        """Return the (thread, value) layout of the source."""
        return self.ref_tv(val_bits)

    def dst_tv(self, val_bits: int) -> Layout:
        """Return the (thread, value) layout of the destination."""
        return self.ref_tv(val_bits)


@dataclass(frozen=True, slots=True)
class UniversalCopy(CopyOp):
    """A plain load, store, or memory-to-memory move of `bits` bits per thread.

    Raises:
        UserError: `bits` is not a multiple of 8 from 8 to 2048.
    """

    prefix: ClassVar[str] = "universal_copy"
    bits: int

    def __post_init__(self) -> None:
        bits: object = self.bits
        is_int = isinstance(bits, int) and not isinstance(bits, bool)
        if not is_int or not 8 <= self.bits <= 2048 or self.bits % 8:
            raise UserValueError(
                "a universal copy moves an unsupported number of bits",
                code="FLY-U313",
                value=bits,
                allowed="a multiple of 8 from 8 to 2048",
            )

    @property
    def copy_bits(self) -> int:
        """Bits that one thread moves."""
        return self.bits


@dataclass(frozen=True, slots=True)
class UniversalAtomic(CopyOp):
    """An atomic read-modify-write of one element, from registers to memory, old value dropped.

    Attributes:
        operation: One of `ATOMIC_OPERATIONS`; ``inc`` and ``dec`` wrap at the register value.
        element: Element type text; ``ui32`` and the like choose the unsigned forms of max and min.
        scope: LLVM synchronisation scope; empty for the default, which is the device.

    Raises:
        UserError: The operation does not exist, or not for the element type.
    """

    prefix: ClassVar[str] = "universal_atomic"
    operation: str
    element: str
    scope: str = ""

    def __post_init__(self) -> None:
        if self.operation not in ATOMIC_OPERATIONS:
            raise UserValueError(
                "no such atomic operation",
                code="FLY-U316",
                value=self.operation,
                allowed=", ".join(ATOMIC_OPERATIONS),
            )
        element_bits(self.element)
        if is_float(self.element) and self.operation in ("and", "or", "inc", "dec"):
            raise UserValueError(
                f"atomic {self.operation} needs integers", code="FLY-U316", value=self.element
            )

    @property
    def copy_bits(self) -> int:
        """Bits that one thread moves."""
        return element_bits(self.element)


@dataclass(frozen=True, slots=True)
class MmaOp(AtomOp):
    """A matrix multiply-add D = A·B + C over the threads of `thr_layout`.

    `elements` are the element types of A, B, C and D. The (thread, value) layouts map to linear
    coordinates of tiles (M, K), (N, K) and (M, N), first mode fastest.
    """

    @property
    def shape_mnk(self) -> tuple[int, int, int]:
        """Extents M, N, K of one instruction."""
        raise NotImplementedError

    @property
    def elements(self) -> tuple[str, str, str, str]:
        """Element types of A, B, C and D as MLIR text."""
        raise NotImplementedError

    def columns_per_place(self, operand: str) -> int:  # noqa: ARG002  (subclasses look at it)
        """Return how many columns of K one place of an operand's second mode stands for.

        1 except for a sparse operand, whose tile has only the columns that are kept: a tile of A is
        then (M, K / that number).
        """
        return 1

    def thr_layout(self) -> Layout:
        """Return the layout of the threads that take part in one instruction."""
        return Layout(1, 0)

    def layout_a_tv(self) -> Layout:
        """Return (thread, value) -> linear coordinate in the (M, K) tile."""
        raise NotImplementedError

    def layout_b_tv(self) -> Layout:
        """Return (thread, value) -> linear coordinate in the (N, K) tile."""
        raise NotImplementedError

    def layout_c_tv(self) -> Layout:
        """Return (thread, value) -> linear coordinate in the (M, N) tile."""
        raise NotImplementedError

    def layout_tv(self, operand: str) -> Layout:
        """Return the layout of operand ``"A"``, ``"B"``, ``"C"`` or ``"D"``."""
        chosen = {"A": self.layout_a_tv, "B": self.layout_b_tv}.get(operand, self.layout_c_tv)
        return chosen()

    def element(self, operand: str) -> str:
        """Return the element type of operand ``"A"``, ``"B"``, ``"C"`` or ``"D"``."""
        return self.elements["ABCD".index(operand)]


@dataclass(frozen=True, slots=True)
class UniversalFMA(MmaOp):
    """One multiplication and one addition per thread: D = A * B + C on 1 x 1 x 1."""

    prefix: ClassVar[str] = "universal_fma"
    type: str

    def __post_init__(self) -> None:
        element_bits(self.type)

    @property
    def shape_mnk(self) -> tuple[int, int, int]:
        """Extents M, N, K of one instruction."""
        return (1, 1, 1)

    @property
    def elements(self) -> tuple[str, str, str, str]:
        """Element types of A, B, C and D as MLIR text."""
        return (self.type,) * 4

    def layout_a_tv(self) -> Layout:
        """See `MmaOp.layout_a_tv`."""
        return Layout((1, 1), (0, 0))

    def layout_b_tv(self) -> Layout:
        """See `MmaOp.layout_b_tv`."""
        return Layout((1, 1), (0, 0))

    def layout_c_tv(self) -> Layout:
        """See `MmaOp.layout_c_tv`."""
        return Layout((1, 1), (0, 0))


_REGISTERED: Final[dict[str, type[AtomOp]]] = {}
_Op = TypeVar("_Op", bound=AtomOp)


def register(classes: Iterable[type]) -> None:
    """Make the text form of operations readable; called where a target's atoms are defined.

    Raises:
        CompilerBug: Another class has the same prefix, or one is no operation.
    """
    for cls in classes:
        if not issubclass(cls, AtomOp) or not cls.prefix:
            raise CompilerBug(f"{cls.__name__} is no copy or MMA operation", code="FLY-B311")
        if _REGISTERED.setdefault(cls.prefix, cls) is not cls:
            raise CompilerBug(f"two operations are called {cls.prefix!r}", code="FLY-B311")


register((UniversalCopy, UniversalAtomic, UniversalFMA))


def _parse(text: str, kind: type[_Op]) -> _Op:
    match = _TEXT.fullmatch(text.strip())
    cls = _REGISTERED.get(match[1]) if match else None
    if match is None or cls is None or not issubclass(cls, kind):
        known = sorted(name for name, c in _REGISTERED.items() if issubclass(c, kind))
        raise UserValueError(
            "no such atom operation", code="FLY-U315", value=text, allowed=", ".join(known)
        )
    parameters = tuple(part.strip() for part in match[2].split(",")) if match[2] else ()
    made = cls.from_parameters(parameters)
    assert isinstance(made, kind)
    return made


def parse_copy(text: str) -> CopyOp:
    """Return the copy operation of its text form.

    Raises:
        UserError: No class is registered under that name, or a parameter is wrong.
    """
    return _parse(text, CopyOp)


def parse_mma(text: str) -> MmaOp:
    """Return the MMA operation of its text form.

    Raises:
        UserError: No class is registered under that name, or a parameter is wrong.
    """
    return _parse(text, MmaOp)
