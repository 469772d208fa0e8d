"""Element types by the names that NumPy, ml_dtypes and torch give them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from flydsl.errors import UserTypeError

__all__ = ["ELEMENTS", "Element", "element_by_code", "element_of"]


@dataclass(frozen=True, slots=True)
class Element:
    """One element type.

    Attributes:
        ir_text: Type text as the frontend reads it; unsigned integers as ``ui8``.
        size: Bytes in memory, a power of two.
    """

    ir_text: str
    size: int


ELEMENTS: Mapping[str, Element] = {
    "bool": Element("i1", 1),
    "int8": Element("i8", 1),
    "int16": Element("i16", 2),
    "int32": Element("i32", 4),
    "int64": Element("i64", 8),
    "uint8": Element("ui8", 1),
    "uint16": Element("ui16", 2),
    "uint32": Element("ui32", 4),
    "uint64": Element("ui64", 8),
    "float16": Element("f16", 2),
    "bfloat16": Element("bf16", 2),
    "float32": Element("f32", 4),
    "float64": Element("f64", 8),
    "float8_e5m2": Element("f8E5M2", 1),
    "float8_e5m2fnuz": Element("f8E5M2FNUZ", 1),
    "float8_e4m3": Element("f8E4M3", 1),
    "float8_e4m3fn": Element("f8E4M3FN", 1),
    "float8_e4m3fnuz": Element("f8E4M3FNUZ", 1),
    "float8_e4m3b11fnuz": Element("f8E4M3B11FNUZ", 1),
    "float8_e8m0fnu": Element("f8E8M0FNU", 1),
}
"""By data-type name; torch's are the same after ``torch.``."""

# DLPack's DLDataTypeCode: 0 int, 1 uint, 2 float, 4 bfloat, 6 bool, 7.. the 8-bit floats.
_DLPACK_KINDS: Mapping[int, str] = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}
_DLPACK_NAMES: Mapping[int, str] = {
    6: "bool",
    8: "float8_e4m3",
    9: "float8_e4m3b11fnuz",
    10: "float8_e4m3fn",
    11: "float8_e4m3fnuz",
    12: "float8_e5m2",
    13: "float8_e5m2fnuz",
    14: "float8_e8m0fnu",
}


def element_of(name: str) -> Element:
    """Return the element type that a library calls `name`.

    Raises:
        UserTypeError: Kernels cannot take that data type.
    """
    found = ELEMENTS.get(name)
    if found is None:
        raise UserTypeError(
            f"tensors of data type {name} cannot be passed to a kernel",
            code="FLY-U401",
            value=name,
            allowed=", ".join(ELEMENTS),
            hint="convert the tensor, or view it as an integer type of the same size",
        )
    return found


def element_by_code(code: int, bits: int, lanes: int) -> str:
    """Return the name of a DLPack data type; one that has none yields text that says what it is."""
    if lanes == 1:
        if code in _DLPACK_KINDS:
            return f"{_DLPACK_KINDS[code]}{bits}"
        if code in _DLPACK_NAMES and bits == 8:
            return _DLPACK_NAMES[code]
    return f"DLPack(code={code}, bits={bits}, lanes={lanes})"
