"""`QuantFormat`: how results are quantised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from flydsl.errors import ConfigError
from flydsl.ext.arguments import as_integer, element_type
from flydsl.ext.arrays import target_of

__all__ = ["LIMITS", "QuantFormat"]

LIMITS: Mapping[str, float] = MappingProxyType(
    {"int8": 127.0, "float8_e4m3fn": 448.0, "float8_e4m3fnuz": 240.0}
)
"""Element types of quantised results, with the largest number that is used."""
OF_TARGET = "float8_e4m3"
POWER = "float8_e8m0fnu"
GROUPS = (0, 128)


@dataclass(frozen=True, slots=True)
class QuantFormat:
    """How results are quantised.

    Attributes:
        dtype: By name, or as NumPy or PyTorch have it: ``int8``, ``float8_e4m3fn``,
            ``float8_e4m3fnuz``, or ``float8_e4m3``: the one of the two that the target converts to
            with an instruction (FNUZ on gfx942), FN where it has none.
        group: Elements of a row that share a scale: 0 for all of them, or 128 (the last group of a
            row may be shorter).
        scale_dtype: ``float32``, or ``float8_e8m0fnu`` for powers of two in one byte.

    Raises:
        ConfigError: One of these is something else.
        UserTypeError: One is of another kind.
    """

    dtype: str = "int8"
    group: int = 0
    scale_dtype: str = "float32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", element_type(self.dtype, "dtype"))
        object.__setattr__(self, "scale_dtype", element_type(self.scale_dtype, "scale_dtype"))
        object.__setattr__(self, "group", as_integer(self.group, "group"))
        if self.dtype not in (*LIMITS, OF_TARGET):
            raise ConfigError(
                "rows are not quantised to this element type",
                code="FLY-C903",
                value=self.dtype,
                allowed=", ".join((*LIMITS, OF_TARGET)),
            )
        for name, value, allowed in (
            ("group", self.group, GROUPS),
            ("scale_dtype", self.scale_dtype, ("float32", POWER)),
        ):
            if value not in allowed:
                raise ConfigError(
                    f"scales do not come with this {name}",
                    code="FLY-C904",
                    value=value,
                    allowed=", ".join(map(str, allowed)),
                )

    @property
    def limit(self) -> float:
        """Largest number of the 8-bit type that results use."""
        return LIMITS[self.dtype]

    @property
    def power(self) -> bool:
        """Whether scales are powers of two."""
        return self.scale_dtype == POWER

    def scales_of(self, columns: int) -> int:
        """Return the number of scales of a row."""
        return -(-columns // self.group) if self.group else 1

    def resolved(self, array: Any) -> QuantFormat:
        """Return the format with the 8-bit float that the target of a launch with `array` has."""
        if self.dtype != OF_TARGET:
            return self
        flavour = getattr(getattr(target_of(array), "facts", None), "fp8", "")
        return replace(self, dtype="float8_e4m3fnuz" if flavour == "fnuz" else "float8_e4m3fn")
