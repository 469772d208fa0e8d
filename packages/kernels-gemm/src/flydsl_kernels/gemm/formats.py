"""Element types of the operands and results of matrix products."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

__all__ = ["FORMATS", "OUTPUTS", "PACKED", "SHARED", "Format", "Packed", "Shared", "Unpacking"]


@dataclass(frozen=True, slots=True)
class Format:
    """One element type of operands.

    Attributes:
        bytes: Bytes of an element.
        instruction: Its name in instructions (`flydsl_rocdl.arch`).
        flavour: ``"fnuz"`` or ``"ocp"`` for floats of 8 bits, which only some architectures have.
    """

    bytes: int
    instruction: str
    flavour: str = ""


FORMATS: Mapping[str, Format] = MappingProxyType(
    {
        "bfloat16": Format(2, "bf16"),
        "float16": Format(2, "f16"),
        "int8": Format(1, "i8"),
        "float8_e4m3fn": Format(1, "fp8", "ocp"),
        "float8_e4m3fnuz": Format(1, "fp8", "fnuz"),
        "float8_e5m2": Format(1, "bf8", "ocp"),
        "float8_e5m2fnuz": Format(1, "bf8", "fnuz"),
    }
)
"""Element types of A and B, by the name that NumPy (with ``ml_dtypes``) and PyTorch give them."""


@dataclass(frozen=True, slots=True)
class Unpacking:
    """How packed elements become numbers of another type.

    Attributes:
        name: What `flydsl_rocdl.kernels.unpacking` calls it.
        operations: Vector instructions for eight elements; from compiled kernels.
    """

    name: str
    operations: int


@dataclass(frozen=True, slots=True)
class Packed:
    """One element type of weights that are unpacked in registers to numbers of A's type.

    Attributes:
        bits: Bits of an element in memory.
        order: The order that they have, of `flydsl_rocdl.kernels.preshuffle.LAYOUTS`.
        becoming: By element type of A, how.
    """

    bits: int
    order: str
    becoming: Mapping[str, Unpacking]


PACKED: Mapping[str, Packed] = MappingProxyType(
    {
        "int4": Packed(
            4, "int4_packed",
            MappingProxyType(
                {
                    "bfloat16": Unpacking("bf16_int4", 20),
                    "float16": Unpacking("fp16_int4", 12),
                    "int8": Unpacking("int4", 7),
                    "float8_e4m3fn": Unpacking("e4m3fn_int4", 19),
                    "float8_e4m3fnuz": Unpacking("e4m3fnuz_int4", 19),
                    "float8_e5m2": Unpacking("e5m2_int4", 19),
                    "float8_e5m2fnuz": Unpacking("e5m2fnuz_int4", 19),
                }
            ),
        )
    }
)  # fmt: skip
"""Element types of B that A does not have."""


@dataclass(frozen=True, slots=True)
class Shared:
    """One element type of operands of which 32 neighbouring k share an E8M0 scale.

    Attributes:
        kind: Its name in instructions.
        bits: Bits of an element.
        order: The order of weights where they are rearranged, of
            `flydsl_rocdl.kernels.preshuffle.LAYOUTS`; empty: there is none.
    """

    kind: str
    bits: int
    order: str = ""


SHARED: Mapping[str, Shared] = MappingProxyType(
    {
        "float8_e4m3fn": Shared("fp8", 8, "16x16"),
        "float8_e5m2": Shared("bf8", 8),
        "float6_e2m3fn": Shared("fp6", 6),
        "float6_e3m2fn": Shared("bf6", 6),
        "float4_e2m1fn": Shared("fp4", 4, "fp4_16lane"),
    }
)
"""Element types of the MX formats."""

OUTPUTS: Mapping[str, int] = MappingProxyType(
    {
        "float32": 4,
        "bfloat16": 2,
        "float16": 2,
        "int32": 4,
        **{name: kind.bytes for name, kind in FORMATS.items() if kind.bytes == 1},
    }
)
"""Element types of results, with their bytes."""
