"""Enumerations of the expression language."""

from __future__ import annotations

from enum import Enum, IntEnum, StrEnum

from flydsl.errors import UserTypeError

__all__ = [
    "AddressSpace",
    "AtomicOp",
    "AtomicOrdering",
    "CachePolicy",
    "GemmTraversalOrder",
    "MmaOperand",
    "ReductionOp",
    "RoundingMode",
    "SyncScope",
    "space_name",
]


class AddressSpace(IntEnum):
    """Address spaces that every target has."""

    Generic = 0
    Global = 1
    Shared = 2
    Register = 3

    @classmethod
    def named(cls, text: str) -> AddressSpace | str:
        """Return the space called `text`; a target's own space stays text."""
        return cls.__members__.get(text.capitalize(), text)


def space_name(space: AddressSpace | str | int) -> str:
    """Return the name of an address space in types.

    Raises:
        UserTypeError: It is no address space.
    """
    if isinstance(space, str):
        return space
    try:
        return AddressSpace(space).name.lower()
    except ValueError:
        raise UserTypeError(
            "this is not an address space",
            code="FLY-U242",
            value=space,
            allowed=", ".join(f"AddressSpace.{item.name}" for item in AddressSpace),
        ) from None


class CachePolicy(IntEnum):
    """How a memory access uses the caches."""

    CacheGlobal = 0
    CacheAlways = 1


class MmaOperand(IntEnum):
    """Operands of a matrix multiply-add."""

    A = 0
    B = 1
    C = 2
    D = 3


class ReductionOp(Enum):
    """Reductions of a vector."""

    ADD = "add"
    MUL = "mul"
    MAX = "max"
    MIN = "min"


class RoundingMode(Enum):
    """Rounding of a conversion to a narrower float."""

    TO_NEAREST_EVEN = "to_nearest_even"
    DOWNWARD = "downward"
    UPWARD = "upward"
    TOWARD_ZERO = "toward_zero"
    TO_NEAREST_AWAY = "to_nearest_away"


class AtomicOp(IntEnum):
    """Read-modify-write operations of atomic copies (`UniversalAtomic`)."""

    Add = 0
    Max = 1
    Min = 2
    And = 3
    Or = 4
    Inc = 5
    Dec = 6


class AtomicOrdering(Enum):
    """How an atomic access or a fence orders other memory accesses (LLVM's memory model)."""

    NotAtomic = "not_atomic"
    Unordered = "unordered"
    Monotonic = "monotonic"
    Acquire = "acquire"
    Release = "release"
    AcqRel = "acq_rel"
    SeqCst = "seq_cst"


class SyncScope(StrEnum):
    """Scopes that every target has; a target's namespace lists its own.

    Without a scope an atomic operation or fence is seen by the whole device.
    """

    System = ""
    SingleThread = "singlethread"


class GemmTraversalOrder(IntEnum):
    """Order of the tiles of `gemm`: letters from innermost to outermost loop.

    Serpentine orders turn inner loops around on odd outer iterations.
    """

    KMN = 0
    KNM = 1
    MKN = 2
    MNK = 3
    NKM = 4
    NMK = 5
    KMN_Serpentine = 6
    KNM_Serpentine = 7
    MKN_Serpentine = 8
    MNK_Serpentine = 9
    NKM_Serpentine = 10
    NMK_Serpentine = 11
