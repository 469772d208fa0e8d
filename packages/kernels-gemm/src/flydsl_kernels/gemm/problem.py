"""What is to be computed: `GemmProblem`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import gcd
from typing import Any

from flydsl.errors import ConfigError
from flydsl.ext.arguments import check_fields, element_type
from flydsl_kernels.gemm.formats import FORMATS, OUTPUTS, PACKED, SHARED, Unpacking
from flydsl_rocdl.kernels.preshuffle import LAYOUTS as ORDERS

__all__ = [
    "ACTIVATIONS",
    "LAYOUTS",
    "SCALE_BLOCK",
    "SHARED_K",
    "GemmProblem",
    "Operand",
    "Scaling",
    "default_output",
    "operand_of",
    "problem_of",
    "scaling_of",
    "with_result",
]

ACTIVATIONS = ("", "relu", "silu", "gelu", "gelu_erf")
LAYOUTS = ("nn", "nt", "tn", "tt")
SCALE_BLOCK = 128
"""Columns of A, and rows and columns of B, that share a scale of kind ``"block"``."""
SHARED_K = 32
"""Neighbouring k that share a scale of kind ``"shared"``."""
_LARGEST = (1 << 31) - 1
_WIDEST = 16


def _check_type(name: str) -> None:
    if name not in FORMATS:
        raise ConfigError(
            "operands of this element type are not supported", code="FLY-C915",
            value=name, allowed=", ".join(FORMATS),
        )  # fmt: skip


def default_output(dtype: str, plain: bool) -> str:
    """Return the element type of results when none is given.

    Args:
        dtype: Element type of A.
        plain: Whether there are no scales, bias and activation.

    Raises:
        ConfigError: A has no such type.
    """
    _check_type(dtype)
    if FORMATS[dtype].bytes > 1:
        return dtype
    return "int32" if dtype == "int8" and plain else "bfloat16"


@dataclass(frozen=True, slots=True)
class Operand:
    """How an operand or the result lies in memory.

    Attributes:
        k_major: Whether k is contiguous (for the result: whether columns are).
        leading: Elements from one row, or one k, to the next; 0 where they are adjacent.
        alignment: Largest power of two up to 16 that divides its address, in bytes.
        order: How preshuffled weights are arranged, a key of
            `flydsl_rocdl.kernels.preshuffle.LAYOUTS`; empty for a plain matrix.
    """

    k_major: bool = True
    leading: int = 0
    alignment: int = _WIDEST
    order: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.order and self.order not in ORDERS:
            raise ConfigError(
                "weights have no such order",
                code="FLY-C911",
                value=self.order,
                allowed=", ".join(ORDERS),
            )
        if self.alignment not in (1, 2, 4, 8, 16):
            raise ConfigError(
                "an alignment is a power of two up to 16",
                code="FLY-C911",
                value=self.alignment,
                allowed="1, 2, 4, 8, 16",
            )

    def vector(self, contiguous: int, size: int) -> int:
        """Return the bytes of one access: 16, or 4, or those of an element.

        Args:
            contiguous: Elements that are adjacent; a wide access may not end beyond them.
            size: Bytes of an element.
        """
        step = (self.leading or contiguous) * size
        if self.alignment % 4 or step % 4 or contiguous * size % 4:
            return size
        exact = self.k_major and contiguous * size % _WIDEST
        return 4 if exact else _WIDEST


@dataclass(frozen=True, slots=True)
class Scaling:
    """Which scales there are.

    Attributes:
        a: ``""``, ``"tensor"``, ``"row"`` (one per row of A), ``"block"`` (one per row and 128
            columns) or ``"shared"`` (an E8M0 one per row and 32 columns).
        b: ``""``, ``"tensor"``, ``"row"`` (one per column of B), ``"block"`` (one per 128 x 128
            of B) or ``"shared"``; blocks of A and B go together, and so do shared ones.
        out: ``""``, ``"tensor"`` or ``"row"``: what 8-bit results are divided by.
    """

    a: str = ""
    b: str = ""
    out: str = ""

    def __post_init__(self) -> None:
        check_fields(self)
        for what, kind in (("a", self.a), ("b", self.b), ("out", self.out)):
            allowed = ("", "tensor", "row", *(() if what == "out" else ("block", "shared")))
            if kind not in allowed:
                raise ConfigError(
                    f"scale_{what} has an unknown kind", code="FLY-C911", value=kind,
                    allowed=", ".join(map(repr, allowed)),
                )  # fmt: skip
        if any((self.a == kind) != (self.b == kind) for kind in ("block", "shared")):
            raise ConfigError(
                "scales per block are needed for both operands, or for none",
                code="FLY-C913",
                value=f"{self.a or 'none'} for A, {self.b or 'none'} for B",
            )


@dataclass(frozen=True, slots=True)
class GemmProblem:
    """A product C = A B of matrices, or of every pair of a batch, and what becomes of it.

    Attributes:
        m: Rows of A and C; zero is allowed, as for the others.
        n: Columns of B and C.
        k: Columns of A, rows of B.
        dtype: Element type of A, by name or as NumPy or PyTorch have it, as the others.
        b_dtype: Element type of B; default that of A. ``int4`` goes with every type, and has an
            order of its own (``b.order`` is ``int4_packed``, also if not given). With scaling
            ``"shared"`` both are of `flydsl_kernels.gemm.formats.SHARED`, in any mix.
        out_dtype: Element type of C; default `default_output`.
        batch: How many products.
        a: How A lies in memory.
        b: How B lies in memory; ``k_major`` is the usual order of weights.
        c: How C lies in memory.
        scaling: Which scales there are.
        activation: One of `ACTIVATIONS`.
        bias: Whether a vector is added to every row.
        residual: Whether a matrix is added last.

    Raises:
        ConfigError: One of these is out of range, or they do not go together.
        UserTypeError: One of these is of another kind.
    """

    m: int
    n: int
    k: int
    dtype: str = "bfloat16"
    b_dtype: str = ""
    out_dtype: str = ""
    batch: int = 1
    a: Operand = field(default_factory=Operand)
    b: Operand = field(default_factory=Operand)
    c: Operand = field(default_factory=Operand)
    scaling: Scaling = field(default_factory=Scaling)
    activation: str = ""
    bias: bool = False
    residual: bool = False

    def __post_init__(self) -> None:
        for name in ("dtype", "b_dtype", "out_dtype"):
            object.__setattr__(self, name, element_type(getattr(self, name), name))
        check_fields(self)
        object.__setattr__(self, "b_dtype", self.b_dtype or self.dtype)
        if self.b_dtype in PACKED and not self.b.order:
            object.__setattr__(self, "b", replace(self.b, order=PACKED[self.b_dtype].order))
        self._check_types()
        object.__setattr__(self, "out_dtype", self.out_dtype or self.default_output)
        for name in ("m", "n", "k", "batch"):
            value = getattr(self, name)
            if not 0 <= value <= _LARGEST:
                raise ConfigError(
                    f"{name} is out of range", code="FLY-C910", value=value,
                    allowed=f"0 to {_LARGEST}",
                )  # fmt: skip
        if self.activation not in ACTIVATIONS:
            raise ConfigError(
                "no such activation", code="FLY-C912", value=self.activation,
                allowed=", ".join(ACTIVATIONS[1:]),
            )  # fmt: skip
        if self.scaling.a == "block" and self.k % SCALE_BLOCK:
            raise ConfigError(
                "K is no multiple of the block that shares a scale", code="FLY-C914",
                value=self.k, allowed=f"multiples of {SCALE_BLOCK}",
                hint="pad A and B with zeros, or use one scale per row",
            )  # fmt: skip
        if self.shared and self.k % SHARED_K:
            raise ConfigError(
                "K is no multiple of the block that shares a scale", code="FLY-C914",
                value=self.k, allowed=f"multiples of {SHARED_K}", hint="pad A and B with zeros",
            )  # fmt: skip
        self._check_output()
        self._check_order()

    def _check_types(self) -> None:
        if self.shared:
            for name in (self.dtype, self.b_dtype):
                if name not in SHARED:
                    raise ConfigError(
                        "no product with E8M0 scales has operands of this type", code="FLY-C915",
                        value=name, allowed=", ".join(SHARED),
                    )  # fmt: skip
            return
        packed = self.b_dtype in PACKED
        for name in (self.dtype, self.dtype if packed else self.b_dtype):
            _check_type(name)
        if packed:
            becoming = PACKED[self.b_dtype].becoming
            if self.dtype not in becoming:
                raise ConfigError(
                    "the operands' element types do not go together", code="FLY-C915",
                    value=f"{self.dtype} x {self.b_dtype}",
                    allowed=f"{self.b_dtype} with {', '.join(becoming)}",
                )  # fmt: skip
            return
        first, second = FORMATS[self.dtype], FORMATS[self.b_dtype]
        if self.dtype != self.b_dtype and (not first.flavour or first.flavour != second.flavour):
            raise ConfigError(
                "the operands' element types do not go together", code="FLY-C915",
                value=f"{self.dtype} x {self.b_dtype}", allowed="equal types, or two 8-bit floats",
            )  # fmt: skip

    def _check_output(self) -> None:
        if self.out_dtype not in OUTPUTS:
            raise ConfigError(
                "results of this element type are not supported", code="FLY-C916",
                value=self.out_dtype, allowed=", ".join(OUTPUTS),
            )  # fmt: skip
        scaling = self.scaling
        more = self.activation or self.bias or self.residual or scaling.a or scaling.b
        if self.out_dtype == "int32" and (self.dtype != "int8" or more):
            raise ConfigError(
                "only plain products of int8 have int32 results", code="FLY-C916",
                value=self.out_dtype, allowed="float32, bfloat16, float16 and 8-bit types",
            )  # fmt: skip
        if scaling.out and OUTPUTS[self.out_dtype] > 1:
            raise ConfigError(
                "only 8-bit results are divided by a scale", code="FLY-C916", value=self.out_dtype,
                allowed="int8 and the 8-bit floats",
            )  # fmt: skip

    def _check_order(self) -> None:
        if self.a.order:
            raise ConfigError(
                "only B is rearranged", code="FLY-C911", value=self.a.order, allowed="Operand()",
            )  # fmt: skip
        if not self.b.order:
            return
        order = ORDERS[self.b.order]
        if self.b_dtype not in order.dtypes:
            raise ConfigError(
                f"layout {order.name!r} is not for this element type", code="FLY-C915",
                value=self.b_dtype, allowed=", ".join(order.dtypes),
            )  # fmt: skip
        if self.n and self.k:
            stored = max(8, self.b_bits)
            order.parts(self.n, self.k * self.b_bits // stored, stored, stored // self.b_bits)

    @property
    def default_output(self) -> str:
        """Element type of C when none is given: A's, bfloat16 for 8-bit floats, int32 for int8."""
        if self.shared:
            return "bfloat16"
        scaled = self.scaling.a or self.scaling.b
        return default_output(self.dtype, not (scaled or self.activation or self.bias))

    @property
    def a_vector(self) -> int:
        """Bytes of one load of A."""
        size = FORMATS[self.dtype].bytes
        return self.a.vector(self.k if self.a.k_major else self.m, size)

    @property
    def b_vector(self) -> int:
        """Bytes of one load of B; preshuffled weights are loaded as their order wants it."""
        if self.b.order:
            return _WIDEST
        size = FORMATS[self.b_dtype].bytes
        return self.b.vector(self.k if self.b.k_major else self.n, size)

    @property
    def shared(self) -> bool:
        """Whether 32 neighbouring k share an E8M0 scale."""
        return self.scaling.a == "shared"

    @property
    def a_bits(self) -> int:
        """Bits of an element of A in memory; those of 6 bits lie in bytes."""
        if self.shared:
            return 4 if SHARED[self.dtype].bits == 4 else 8
        return FORMATS[self.dtype].bytes * 8

    @property
    def b_bits(self) -> int:
        """Bits of an element of B in memory; those of 6 bits lie in bytes."""
        if self.shared:
            return 4 if SHARED[self.b_dtype].bits == 4 else 8
        packed = PACKED.get(self.b_dtype)
        return packed.bits if packed else FORMATS[self.b_dtype].bytes * 8

    @property
    def unpacking(self) -> Unpacking | None:
        """How elements of B become those of A's type; None where they are not packed."""
        packed = PACKED.get(self.b_dtype)
        return packed.becoming[self.dtype] if packed else None

    @property
    def multiplied(self) -> tuple[str, str]:
        """Element types of A and B that the instruction gets: packed ones have become A's."""
        return self.dtype, self.dtype if self.b_dtype in PACKED else self.b_dtype

    @property
    def c_vector(self) -> int:
        """Columns of C that may be stored at once: all or none of them are in C."""
        size = OUTPUTS[self.out_dtype]
        step = (self.c.leading or self.n) * size
        if self.c.alignment % 4 or step % 4:
            return 1
        return max(1, gcd(self.n, _WIDEST // size))


@lru_cache(maxsize=4096, typed=True)
def problem_of(*values: Any) -> GemmProblem:
    """Return `GemmProblem(*values)`: the same object in repeated calls, checked in the first."""
    return GemmProblem(*values)


@lru_cache(maxsize=4096)
def with_result(problem: GemmProblem, c: Operand) -> GemmProblem:
    """Return the problem with a result that lies as `c`."""
    return replace(problem, c=c)


operand_of = lru_cache(maxsize=4096, typed=True)(Operand)
"""`Operand`, the same object for equal arguments."""
scaling_of = lru_cache(maxsize=64, typed=True)(Scaling)
"""`Scaling`, the same object for equal arguments."""
