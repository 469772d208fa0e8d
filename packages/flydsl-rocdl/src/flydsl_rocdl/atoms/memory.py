"""Buffer atomics, loads from memory straight into LDS, and transposing loads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import ClassVar

from flydsl.dialects.atoms import CopyOp
from flydsl.dialects.elements import element_bits
from flydsl.errors import UserValueError
from flydsl.layout import Layout
from flydsl_rocdl.arch.memory import INTEGER_ATOMICS

__all__ = ["BufferAtomic", "BufferCopyLDS", "GlobalCopyLDS", "GlobalLoadTrans", "LDSReadTrans"]

_TRANSPOSES = (
    (4, 64, 16), (6, 96, 16), (8, 64, 16), (16, 64, 16), (16, 128, 8), (8, 64, 8),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class BufferAtomic(CopyOp):
    """An atomic operation of registers with a buffer, the old value dropped.

    State ``soffset`` is added to the address, in elements. Outside the buffer nothing happens.

    Attributes:
        operation: ``add``, ``sub``, ``min``, ``max``, ``and``, ``or``, ``xor``, ``inc``, ``dec``;
            ``inc`` and ``dec`` wrap at the register's value.
        element: Element type text; ``ui32`` and ``ui64`` compare unsigned.
        pair: Two elements of 16 bits at once.

    Raises:
        UserError: No architecture has this operation for this type.
    """

    prefix: ClassVar[str] = "buffer_atomic"
    state: ClassVar[Mapping[str, str]] = MappingProxyType({"soffset": "i32"})
    operation: str
    element: str
    pair: bool = False

    def __post_init__(self) -> None:
        allowed: tuple[str, ...] = ()
        if self.pair:
            allowed = ("add",) if self.element in ("f16", "bf16") else ()
        elif self.element in ("f32", "f64"):
            allowed = ("add", "min", "max")
        elif self.element in ("i32", "ui32", "i64", "ui64"):
            allowed = INTEGER_ATOMICS
        if self.operation not in allowed:
            raise UserValueError(
                f"no buffer atomic does {self.operation} of {self.element}",
                code="FLY-U636",
                value=f"{self.operation}, {self.element}",
                allowed="add, sub, min, max, and, or, xor, inc, dec of i32, ui32, i64, ui64;"
                " add, min, max of f32, f64; packed add of pairs of f16, bf16",
            )

    @property
    def kind(self) -> str:
        """Type text of what one instruction combines."""
        return f"vector<2x{self.element}>" if self.pair else self.element

    @property
    def copy_bits(self) -> int:
        """Bits that one lane combines."""
        return element_bits(self.element) * (2 if self.pair else 1)


@dataclass(frozen=True, slots=True)
class _ToLds(CopyOp):
    """A load that writes LDS: lane i of a wave at the wave's first address plus i times the size.

    State ``imm_offset``, a constant in elements, is added to both addresses. The destination of a
    copy must be what the hardware does (neighbouring lanes, neighbouring places) or the same
    address for all lanes of a wave, the first; anything else is refused when compiling.

    Attributes:
        bits: Bits per lane.
        cache_modifier: Bits as the architecture defines them, 0 for the default.
    """

    widths: ClassVar[tuple[int, ...]] = (32, 96, 128)
    bits: int
    cache_modifier: int = 0

    def __post_init__(self) -> None:
        if self.bits not in self.widths:
            raise UserValueError(
                "no load into LDS moves this many bits", code="FLY-U631", value=self.bits,
                allowed=", ".join(map(str, self.widths)),
            )  # fmt: skip
        if not 0 <= self.cache_modifier < 32:
            raise UserValueError(
                "unknown cache modifier", code="FLY-U632", value=self.cache_modifier,
                allowed="0 to 31",
            )  # fmt: skip

    @property
    def copy_bits(self) -> int:
        """Bits that one lane moves."""
        return self.bits


@dataclass(frozen=True, slots=True)
class BufferCopyLDS(_ToLds):
    """A load from a buffer into LDS; what is outside the buffer becomes zero.

    State ``soffset`` is added to the buffer's address, in elements; for ``imm_offset``, the
    destination and the rest see the base class.
    """

    prefix: ClassVar[str] = "buffer_copy_lds"
    state: ClassVar[Mapping[str, str]] = MappingProxyType({"soffset": "i32", "imm_offset": "i32"})


@dataclass(frozen=True, slots=True)
class GlobalCopyLDS(_ToLds):
    """A load from global memory into LDS.

    On CDNA5 (32, 64 and 128 bits) every lane has an LDS address of its own: destinations may be
    anything. There it is asynchronous: without `wait_asyncmark` or `s_wait_asynccnt` in the kernel
    each load is waited for at once.
    """

    widths: ClassVar[tuple[int, ...]] = (32, 64, 96, 128)

    prefix: ClassVar[str] = "global_copy_lds"
    state: ClassVar[Mapping[str, str]] = MappingProxyType({"imm_offset": "i32"})


@dataclass(frozen=True, slots=True)
class _Transposing(CopyOp):
    """A load after which lanes hold each other's values.

    Each lane gives the address of `bits` / `granularity` values. With groups of 16 lanes, lane i
    gets, of the values of all of them one after the other, those with numbers i, i + 16, i + 32, ….
    With groups of 8 lane i gets those with numbers i, i + 8, …; with values of 8 bits, two groups
    work together: the first gets the values of lanes 0 to 3 and 8 to 11, the second the others'.

    Attributes:
        granularity: Bits of one value.
        bits: Bits per lane.
        group: 16 on CDNA4, 8 on CDNA5 and RDNA4.

    Raises:
        UserError: There is no such instruction.
    """

    granularity: int
    bits: int
    group: int = 16

    def __post_init__(self) -> None:
        if (self.granularity, self.bits, self.group) not in _TRANSPOSES:
            raise UserValueError(
                "no transposing load has these widths", code="FLY-U637",
                value=(self.granularity, self.bits, self.group),
                allowed=", ".join(map(str, _TRANSPOSES)),
            )  # fmt: skip

    @property
    def copy_bits(self) -> int:
        """Bits that one lane moves."""
        return self.bits

    def check_bits(self, val_bits: int) -> None:
        """Raise UserError unless values are as wide as what is transposed."""
        if val_bits != self.granularity:
            raise UserValueError(
                f"{self} moves values of {self.granularity} bits", code="FLY-U637", value=val_bits
            )

    @property
    def _lanes(self) -> int:
        return 8 if (self.granularity, self.group) == (16, 8) else 16

    def thr_layout(self) -> Layout:
        """Return the lanes that hand values around."""
        return Layout(self._lanes, 1)

    def ref_tv(self, val_bits: int) -> Layout:
        """Return where the values land: see the class."""
        return self.dst_tv(val_bits)

    def src_tv(self, val_bits: int) -> Layout:
        """Return which values each lane addresses."""
        count = self.values(val_bits)
        return Layout((self._lanes, count), (count, 1))

    def dst_tv(self, val_bits: int) -> Layout:
        """Return which values each lane gets."""
        lanes, count = self._lanes, self.values(val_bits)
        if (self.granularity, self.group) == (8, 8):
            return Layout(((8, 2), (4, 2)), ((1, 32), (8, 64)))
        return Layout((lanes, (1, count)), (1, (1, lanes)))


@dataclass(frozen=True, slots=True)
class LDSReadTrans(_Transposing):
    """A read from LDS that transposes; see the base class."""

    prefix: ClassVar[str] = "lds_read_trans"


@dataclass(frozen=True, slots=True)
class GlobalLoadTrans(_Transposing):
    """A load from global memory that transposes; see the base class."""

    prefix: ClassVar[str] = "global_load_trans"
    group: int = 8
