"""Weights rearranged once so that a lane finds what it multiplies in one piece, typed.

A matrix B (N, K), or a stack of them, is cut into blocks of rows and columns whose values are put
in the order in which a matrix instruction's lanes take them. The order is part of the object: a
kernel asks for the one it reads (`PreshuffledWeight.require`), so weights in another order, of
another type or for another architecture are refused instead of multiplied.

With ``nl = n % 16``, ``n0 = n // 16``, offsets in elements (bytes where elements are packed):

==================  ================================================================================
layout              offset of element (n, k) in one matrix
==================  ================================================================================
16x16               kp = 16 bytes of elements: ``((n0 K/4kp + k/4kp) 4 + k/kp % 4) 16 kp + nl kp +
                    k % kp``; types of one and two bytes, on every architecture
fp4_16lane          the same on bytes of two 4-bit codes, kp = 16 bytes
fp4_16lane_gate_up  rows 0 to N/2 are gates, the rest what they gate: blocks of 16 rows of both take
                    turns
int4_packed         blocks (N/16, K/64, 4, 16, 8 bytes): eight bytes are 16 k, in each word the
                    even nibbles are k to k+3 and the odd ones k+4 to k+7; on every architecture
rdna4_fp8           blocks (N/16, K/16, 2, 16, 8): ``k % 16 // 8`` before n
cdna5_16x16         blocks (N/16, bytes of K / 16, 16, 16 bytes): as ``16x16``, K in 16 bytes
e8m0                scale bytes (row r, block s): ``[r//32][s//8][s%4][r%16][s//4%2][r//16%2]``
e8m0_gate_up        the same with gate and gated row in one pair: ``[r%H//16][s//8][s%4][r%16]
                    [s//4%2][r//H]``, H = N/2
cdna5_32x4          blocks (R/32, S/4, 32, 4) of scale bytes
==================  ================================================================================

The formulas are those of the shuffles that inference frameworks use for these kernels, so that
weights shuffled by them can be taken as they are: ``PreshuffledWeight(…, data=their_array)``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from flydsl.diagnostics import at_user_line
from flydsl.errors import ConfigError
from flydsl.ext.arguments import as_text, check_arrays, check_fields, element_type
from flydsl.ext.arrays import as_bytes, contiguous, dtype_name, is_torch
from flydsl_rocdl.arch import KNOWN, lookup

__all__ = [
    "LAYOUTS",
    "SCALE_LAYOUTS",
    "PreshuffledWeight",
    "ShuffleLayout",
    "pack_fp4",
    "pack_fp6",
    "pack_int4",
    "preshuffle_b",
    "preshuffle_scales",
    "unshuffle",
]

_CDNA = ("cdna3", "cdna4")
_EVERY = (*_CDNA, "cdna5", "rdna3", "rdna4")
_BITS: Mapping[str, int] = MappingProxyType(
    {
        "float16": 16,
        "bfloat16": 16,
        "int8": 8,
        "float8_e4m3fn": 8,
        "float8_e5m2": 8,
        "float8_e4m3fnuz": 8,
        "float8_e5m2fnuz": 8,
        "float4_e2m1fn": 4,
        "int4": 4,
        "float8_e8m0fnu": 8,
    }
)
_HALVES = ("float16", "bfloat16")
_OCP = ("float8_e4m3fn", "float8_e5m2")
_FNUZ = ("float8_e4m3fnuz", "float8_e5m2fnuz")
_SCALES = ("float8_e8m0fnu",)
_CODES = {"float4_e2m1fn_x2": "float4_e2m1fn", "uint8": ""}


@dataclass(frozen=True, slots=True)
class ShuffleLayout:
    """One order of a matrix: how rows and columns are split, and how the parts are permuted.

    Attributes:
        name: Its name.
        dtypes: Element types that it is for.
        families: Families of architectures whose kernels read it.
        rows: Extents that the rows are split into; -1 is what is left.
        columns: The same for the columns as stored; 0 stands for 16 bytes of elements.
        order: The permutation of all parts.
    """

    name: str
    dtypes: tuple[str, ...]
    families: tuple[str, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]
    order: tuple[int, ...]

    def parts(self, rows: int, columns: int, bits: int, packed: int = 1) -> tuple[int, ...]:
        """Return the extents of all parts for a matrix as stored.

        Args:
            rows: Rows.
            columns: Stored columns, in units of `bits` bits.
            bits: Bits of a stored unit.
            packed: Elements in a stored unit, which errors count in.

        Raises:
            ConfigError: The parts do not divide the matrix.
        """
        widths = tuple(c or 128 // bits for c in self.columns)
        return (
            *_split(self, "rows", self.rows, rows),
            *_split(self, "columns", widths, columns, packed),
        )


def _split(
    layout: ShuffleLayout, what: str, parts: tuple[int, ...], size: int, packed: int = 1
) -> tuple[int, ...]:
    unit = 1
    for part in parts:
        unit *= part if part > 0 else 1
    if size <= 0 or size % unit:
        raise ConfigError(
            f"layout {layout.name!r} has its {what} in blocks of {unit * packed}",
            code="FLY-C602",
            value=size * packed,
            allowed=f"positive multiples of {unit * packed}",
        )
    return tuple(size // unit if part < 0 else part for part in parts)


def _table(*layouts: ShuffleLayout) -> Mapping[str, ShuffleLayout]:
    return MappingProxyType({layout.name: layout for layout in layouts})


LAYOUTS: Mapping[str, ShuffleLayout] = _table(
    ShuffleLayout(
        "16x16", (*_HALVES, "int8", *_OCP, *_FNUZ), _EVERY, (-1, 16), (-1, 4, 0), (0, 2, 3, 1, 4)
    ),
    ShuffleLayout(
        "fp4_16lane", ("float4_e2m1fn",), ("cdna4",), (-1, 16), (-1, 4, 16), (0, 2, 3, 1, 4)
    ),
    ShuffleLayout(
        "fp4_16lane_gate_up", ("float4_e2m1fn",), ("cdna4",), (2, -1, 16), (-1, 4, 16),
        (1, 0, 3, 4, 2, 5),
    ),
    ShuffleLayout("int4_packed", ("int4",), _EVERY, (-1, 16), (-1, 4, 8), (0, 2, 3, 1, 4)),
    ShuffleLayout("rdna4_fp8", _OCP, ("rdna4",), (-1, 16), (-1, 2, 8), (0, 2, 3, 1, 4)),
    ShuffleLayout(
        "cdna5_16x16", (*_HALVES, "int8", *_OCP, "float4_e2m1fn"), ("cdna5",), (-1, 16),
        (-1, 0), (0, 2, 1, 3),
    ),
)  # fmt: skip
"""Orders of weights by name."""

SCALE_LAYOUTS: Mapping[str, ShuffleLayout] = _table(
    ShuffleLayout("e8m0", _SCALES, ("cdna4",), (-1, 2, 16), (-1, 2, 4), (0, 3, 5, 2, 4, 1)),
    ShuffleLayout("e8m0_gate_up", _SCALES, ("cdna4",), (2, -1, 16), (-1, 2, 4), (1, 3, 5, 2, 4, 0)),
    ShuffleLayout("cdna5_32x4", _SCALES, ("cdna5",), (-1, 32), (-1, 4), (0, 2, 1, 3)),
)
"""Orders of E8M0 scales by name."""

_SCALES_OF = {
    "16x16": "e8m0",
    "fp4_16lane": "e8m0",
    "fp4_16lane_gate_up": "e8m0_gate_up",
    "cdna5_16x16": "cdna5_32x4",
}


def _layout(name: str, table: Mapping[str, ShuffleLayout] = LAYOUTS) -> ShuffleLayout:
    found = table.get(as_text(name, "layout"))
    if found is None:
        raise ConfigError(
            "there is no such layout", code="FLY-C600", value=name, allowed=", ".join(table)
        )
    return found


def _check_arch(layout: ShuffleLayout, dtype: str, arch: str) -> None:
    """Raise ConfigError unless kernels of `arch` read the layout with this type."""
    facts = lookup(arch)
    flavour = facts.fp8
    wrong_flavour = (dtype in _FNUZ and flavour != "fnuz") or (dtype in _OCP and flavour != "ocp")
    if facts.family not in layout.families or wrong_flavour:
        kinds = f"8-bit floats of the {flavour} kind" if flavour else "no 8-bit floats"
        raise ConfigError(
            f"kernels of {arch} do not read {dtype} in layout {layout.name!r}",
            code="FLY-C603",
            value=arch,
            allowed=", ".join(f.name for f in KNOWN.values() if f.family in layout.families),
            hint=f"{arch} has {kinds}" if wrong_flavour else "",
        )


@dataclass(frozen=True, slots=True, eq=False)
class PreshuffledWeight:
    """Weights B (N, K), or a stack of them, in the order that a kernel reads.

    Attributes:
        layout: Name of the order, of `LAYOUTS`.
        dtype: Element type, such as ``bfloat16``, ``float4_e2m1fn`` or ``int4``.
        n: Rows: output columns of the product.
        k: Columns in elements, also where several share a byte.
        data: The rearranged array; its number of bytes has to fit.
        batch: Matrices in the stack (experts); None for a single matrix.
        scales: What the kernel scales by: E8M0 blocks in the order `scale_layout`, or plain ones
            per row or group; None without.
        scale_layout: Order of E8M0 scales; empty for plain ones.
        arch: The one architecture that it is for; None for all that read the layout.

    Raises:
        ConfigError: Unknown layout; a type, extents, data or architecture that do not fit it.
    """

    layout: str
    dtype: str
    n: int
    k: int
    data: Any
    batch: int | None = None
    scales: Any = None
    scale_layout: str = ""
    arch: str | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        check_arrays({"data": self.data}, scales=self.scales)
        layout = _layout(self.layout)
        if self.dtype not in layout.dtypes:
            raise ConfigError(
                f"layout {layout.name!r} is not for this element type",
                code="FLY-C601",
                value=self.dtype,
                allowed=", ".join(layout.dtypes),
            )
        if self.arch is not None:
            _check_arch(layout, self.dtype, self.arch)
        if self.scale_layout:
            _layout(self.scale_layout, SCALE_LAYOUTS)
        bits = _BITS[self.dtype]
        stored = max(bits, 8)
        layout.parts(self.n, self.k * bits // stored, stored, stored // bits)
        wanted = (self.batch if self.batch is not None else 1) * self.n * self.k * bits // 8
        # Not nbytes, which tensors of unknown extents do not have.
        found = math.prod(self.data.shape) * int(self.data.itemsize)
        if found != wanted:
            raise ConfigError(
                f"{self.n} x {self.k} weights of {self.dtype} have another number of bytes",
                code="FLY-C602",
                value=found,
                allowed=str(wanted),
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the plain matrix, or of the stack, in elements."""
        return (self.n, self.k) if self.batch is None else (self.batch, self.n, self.k)

    def require(
        self,
        *,
        layout: str,
        arch: str,
        dtypes: tuple[str, ...] = (),
        shape: tuple[int, int] | None = None,
        batch: int | None = None,
    ) -> PreshuffledWeight:
        """Return this object if it is what a kernel reads.

        Args:
            layout: The order that the kernel reads.
            arch: The architecture that it runs on.
            dtypes: Element types it takes; empty for any.
            shape: (N, K) it needs; None for any.
            batch: Number of matrices that it needs; None for any.

        Raises:
            ConfigError: It is something else; says what.
        """
        wrong: tuple[str, object, object] | None = None
        if self.layout != layout:
            wrong = "layout", self.layout, layout
        elif dtypes and self.dtype not in dtypes:
            wrong = "element type", self.dtype, ", ".join(dtypes)
        elif shape is not None and (self.n, self.k) != tuple(shape):
            wrong = "shape (N, K)", (self.n, self.k), tuple(shape)
        elif batch is not None and self.batch != batch:
            wrong = "number of matrices", self.batch, batch
        elif self.arch is not None and self.arch != arch:
            wrong = "architecture", self.arch, arch
        if wrong is not None:
            raise ConfigError(
                f"the kernel needs weights of another {wrong[0]}",
                code="FLY-C604",
                value=wrong[1],
                allowed=str(wrong[2]),
                hint="preshuffle_b(b, layout=…) makes them from the plain (N, K) matrix",
            )
        _check_arch(_layout(self.layout), self.dtype, arch)
        return self

    def unshuffled(self) -> Any:
        """Return the matrix, or the stack, in its plain order; packed types stay packed."""
        bits = max(8, _BITS[self.dtype])
        shape: tuple[int, ...] = (self.n, self.k * _BITS[self.dtype] // bits)
        if self.batch is not None:
            shape = (self.batch, *shape)
        return unshuffle(self.data.reshape(shape), self.layout)


def _permute(array: Any, order: tuple[int, ...]) -> Any:
    return array.permute(order) if is_torch(array) else array.transpose(order)


def _bits_of(array: Any) -> int:
    return int(array.itemsize) * 8


def _shuffle(array: Any, layout: ShuffleLayout, packed: int = 1) -> Any:
    lead = tuple(array.shape[:-2])
    parts = layout.parts(int(array.shape[-2]), int(array.shape[-1]), _bits_of(array), packed)
    order = (*range(len(lead)), *(len(lead) + place for place in layout.order))
    moved = _permute(array.reshape((*lead, *parts)), order)
    return contiguous(moved).reshape(tuple(array.shape))


def unshuffle(array: Any, layout: str) -> Any:
    """Undo a shuffle of weights or scales: return the array (…, rows, columns) in plain order.

    Args:
        array: The shuffled array in the shape of the plain one.
        layout: Its order, of `LAYOUTS` or `SCALE_LAYOUTS`.

    Raises:
        ConfigError: Unknown layout, or extents that it does not divide.
    """
    check_arrays({"array": array})
    found = _layout(layout, {**LAYOUTS, **SCALE_LAYOUTS})
    lead = tuple(array.shape[:-2])
    parts = found.parts(int(array.shape[-2]), int(array.shape[-1]), _bits_of(array))
    inverse = [found.order.index(place) for place in range(len(parts))]
    order = (*range(len(lead)), *(len(lead) + place for place in inverse))
    moved = _permute(array.reshape((*lead, *(parts[p] for p in found.order))), order)
    return contiguous(moved).reshape(tuple(array.shape))


@at_user_line()
def preshuffle_b(
    b: Any,
    *,
    layout: str = "16x16",
    dtype: Any = None,
    scales: Any = None,
    arch: str | None = None,
) -> PreshuffledWeight:
    """Rearrange weights for a kernel.

    Args:
        b: NumPy array or PyTorch tensor (N, K), or (batch, N, K). ``float4_e2m1fn`` is either
            ``ml_dtypes``' type with one code per byte or bytes (…, K/2) of two codes, the lower
            nibble first. For ``int4``, int8 numbers of -8 to 7.
        layout: The order to make, of `LAYOUTS`.
        dtype: Element type, by name or as NumPy or PyTorch have it; needed where the array's own
            says less (bytes, or int8 for ``int4``).
        scales: E8M0 scales (…, N, K/32) as bytes or ``float8_e8m0fnu``, which are rearranged too,
            or scales of another type, which are kept as they are.
        arch: Bind the result to one architecture.

    Raises:
        ConfigError: Unknown layout, a type or extents that it is not for, or an architecture
            whose kernels do not read it.
    """
    check_arrays({"b": b}, scales=scales)
    found = _layout(layout)
    own = dtype_name(b)
    dtype = dtype if dtype is None else element_type(dtype, "dtype")
    kind = dtype or _CODES.get(own, own)
    if kind not in found.dtypes:
        raise ConfigError(
            f"layout {layout!r} is not for this element type",
            code="FLY-C601",
            value=kind or own,
            allowed=", ".join(found.dtypes),
            hint="bytes need dtype=" if own == "uint8" else "",
        )
    if b.ndim not in (2, 3):
        raise ConfigError("weights are (N, K) or (batch, N, K)", code="FLY-C602",
                          value=tuple(b.shape))  # fmt: skip
    stored = _stored(b, own, kind)
    bits = _BITS[kind]
    n, k = int(b.shape[-2]), int(stored.shape[-1]) * max(bits, 8) // bits
    order = ""
    if scales is not None and dtype_name(scales) in ("uint8", *_SCALES):
        order = _SCALES_OF.get(layout, "")
        scales = preshuffle_scales(scales, order)
    return PreshuffledWeight(
        layout, kind, n, k, _shuffle(stored, found, max(bits, 8) // bits),
        int(b.shape[0]) if b.ndim == 3 else None, scales, order, arch,
    )  # fmt: skip


def _stored(b: Any, own: str, kind: str) -> Any:
    """Return the array whose units are shuffled."""
    if kind == "int4":
        return pack_int4(b)
    if kind == "float4_e2m1fn":
        return pack_fp4(as_bytes(b)) if own == kind else as_bytes(b)
    if own not in (kind, "uint8"):
        raise ConfigError("the array is of another element type than asked for", code="FLY-C601",
                          value=own, allowed=kind)  # fmt: skip
    return b


def preshuffle_scales(scales: Any, layout: str = "e8m0") -> Any:
    """Rearrange E8M0 scales (…, rows, K/32) of either operand of a product.

    Raises:
        ConfigError: Unknown layout, scales that are no bytes, or extents that it does not divide
            (``e8m0``: rows in 32, blocks in 8, so K in 256).
    """
    check_arrays({"scales": scales})
    if dtype_name(scales) not in ("uint8", *_SCALES):
        raise ConfigError("these are no E8M0 scales", code="FLY-C601", value=dtype_name(scales),
                          allowed=", ".join(("uint8", *_SCALES)))  # fmt: skip
    return _shuffle(scales, _layout(layout, SCALE_LAYOUTS))


def pack_fp4(codes: Any) -> Any:
    """Pack 4-bit codes, one per byte (…, K), into bytes (…, K/2), the lower nibble first.

    Raises:
        ConfigError: K is odd.
    """
    check_arrays({"codes": codes})
    if codes.shape[-1] % 2:
        raise ConfigError("4-bit codes are packed in pairs", code="FLY-C602",
                          value=int(codes.shape[-1]), allowed="an even number")  # fmt: skip
    pairs = as_bytes(codes).reshape((*codes.shape[:-1], codes.shape[-1] // 2, 2))
    return (pairs[..., 0] & 15) | ((pairs[..., 1] & 15) << 4)


def pack_int4(numbers: Any) -> Any:
    """Pack int8 numbers (…, K) of -8 to 7 into bytes (…, K/2), in the order of ``int4_packed``.

    In each word of eight numbers the lower nibbles of its bytes are the first four.

    Raises:
        ConfigError: Another type, a number out of range, or K not a multiple of 8.
    """
    check_arrays({"numbers": numbers})
    if dtype_name(numbers) != "int8" or numbers.shape[-1] % 8:
        raise ConfigError("int4 weights are packed from int8 numbers, eight in a word",
                          code="FLY-C601", value=(dtype_name(numbers), tuple(numbers.shape)),
                          allowed="int8, K a multiple of 8")  # fmt: skip
    if bool(((numbers < -8) | (numbers > 7)).any()):
        raise ConfigError("a weight does not fit 4 bits", code="FLY-C601",
                          value=(int(numbers.min()), int(numbers.max())),
                          allowed="-8 to 7")  # fmt: skip
    lead = tuple(numbers.shape[:-1])
    words = as_bytes(contiguous(numbers)).reshape((*lead, numbers.shape[-1] // 8, 2, 4))
    packed = (words[..., 0, :] & 15) | ((words[..., 1, :] & 15) << 4)
    return packed.reshape((*lead, numbers.shape[-1] // 2))


def pack_fp6(codes: Any) -> Any:
    """Pack 6-bit codes, one per byte (…, K), into rows of K bytes.

    Four codes are three bytes, the lowest bits first; 32 codes are 24 bytes and 8 zero bytes, so
    that a row has as many bytes as codes and every 32 begin at a multiple of 32.

    Raises:
        ConfigError: K is not a multiple of 32.
    """
    check_arrays({"codes": codes})
    if codes.shape[-1] % 32:
        raise ConfigError("6-bit codes are packed in groups of 32", code="FLY-C602",
                          value=int(codes.shape[-1]), allowed="multiples of 32")  # fmt: skip
    lead, groups = tuple(codes.shape[:-1]), codes.shape[-1] // 32
    four = (as_bytes(codes) & 63).reshape((*lead, groups, 8, 4))
    out = as_bytes(codes).reshape((*lead, groups, 32)) & 0
    a, b, c, d = (four[..., place] for place in range(4))
    out[..., 0:24:3] = a | ((b & 3) << 6)
    out[..., 1:24:3] = (b >> 2) | ((c & 15) << 4)
    out[..., 2:24:3] = (c >> 4) | (d << 2)
    return out.reshape((*lead, groups * 32))
