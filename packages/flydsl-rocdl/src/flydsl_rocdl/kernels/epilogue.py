"""What happens to a tile of a product between the accumulators and memory.

An `Epilogue` names the steps, in this order: scales per row and per column, bias, activation,
residual, quantisation. `Epilogue.apply` runs them on a vector of neighbouring columns of one row,
in f32.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import flydsl.expr as fx
from flydsl.errors import ConfigError
from flydsl.ext.arguments import check_fields

__all__ = ["ACTIVATIONS", "Epilogue", "activated", "gelu", "quantised", "relu", "silu"]

_LOG2_E = 1 / math.log(2)
_GELU_LINEAR, _GELU_CUBIC = math.sqrt(2 / math.pi), 0.044715
_LARGEST: Mapping[str, float] = MappingProxyType(
    {
        "Int8": 127.0,
        "Float8E4M3FN": 448.0,
        "Float8E4M3FNUZ": 240.0,
        "Float8E5M2": 57344.0,
        "Float8E5M2FNUZ": 57344.0,
    }
)


def _of(x: Any, function: Callable[[Any], Any]) -> Any:
    """Return a function of numbers for a number or each element of a vector."""
    if isinstance(x, fx.Vector):
        return fx.Vector.from_elements([function(item) for item in x])
    return function(x)


def relu(x: Any) -> Any:
    """Return the larger of x and zero, element by element; NaN stays NaN."""
    return _of(x, lambda v: fx.max(v, fx.Float32(0.0)))


def _logistic(x: Any) -> Any:
    """Return 1 / (1 + e^-x) in f32; exactly 0 or 1 at the ends."""
    return fx.Float32(1.0) / (fx.Float32(1.0) + fx.math.exp2(x * fx.Float32(-_LOG2_E)))


def silu(x: Any) -> Any:
    """Return x / (1 + e^-x) in f32, element by element."""
    return _of(x, lambda v: v * _logistic(v))


def gelu(x: Any) -> Any:
    """Return the tanh form of GELU in f32, element by element.

    ``0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))``, which is x times the logistic function
    of twice the tanh's argument.
    """

    def one(v: Any) -> Any:
        inner = v * (fx.Float32(_GELU_LINEAR) + fx.Float32(_GELU_LINEAR * _GELU_CUBIC) * v * v)
        return v * _logistic(fx.Float32(2.0) * inner)

    return _of(x, one)


ACTIVATIONS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"none": lambda x: x, "relu": relu, "silu": silu, "gelu": gelu}
)
"""Activations by name; each maps f32 numbers or vectors."""


def activated(x: Any, name: str) -> Any:
    """Return an activation of an f32 number or vector.

    Raises:
        ConfigError: There is none of this name.
    """
    if name not in ACTIVATIONS:
        raise ConfigError("there is no such activation", code="FLY-C608", value=name,
                          allowed=", ".join(ACTIVATIONS))  # fmt: skip
    return ACTIVATIONS[name](x)


def quantised(x: Any, kind: Any) -> Any:
    """Return an f32 vector as integers or floats of 8 bits, saturated and rounded to even.

    Args:
        x: f32 vector, already divided by its scale.
        kind: ``fx.Int8`` or one of the 8-bit floats.

    Raises:
        ConfigError: Another class.
    """
    largest = _LARGEST.get(kind.__name__)
    if largest is None:
        raise ConfigError("results are not quantised to this type", code="FLY-C608",
                          value=kind.__name__, allowed=", ".join(_LARGEST))  # fmt: skip
    low, high = fx.Float32(-largest), fx.Float32(largest)
    limited = _of(x, lambda v: fx.max(fx.min(v, high), low))
    if kind is fx.Int8:
        limited = _of(limited, fx.math.roundeven)
    return limited.to(kind)


@dataclass(frozen=True, slots=True)
class Epilogue:
    """The steps between the accumulators and the stored result.

    Attributes:
        scaled: Multiply by a scale per row and one per column.
        bias: Add a bias per column.
        activation: One of `ACTIVATIONS`.
        residual: Add an element of another matrix.
        quantised: Divide by a scale per row and store 8-bit numbers.

    Raises:
        ConfigError: There is no such activation.
    """

    scaled: bool = False
    bias: bool = False
    activation: str = "none"
    residual: bool = False
    quantised: bool = False

    def __post_init__(self) -> None:
        check_fields(self)
        if self.activation not in ACTIVATIONS:
            raise ConfigError("there is no such activation", code="FLY-C608",
                              value=self.activation,
                              allowed=", ".join(ACTIVATIONS))  # fmt: skip

    @classmethod
    def named(cls, name: str, *, scaled: bool = False) -> Epilogue:
        """Return the epilogue of a name: ``none``, ``bias``, or ``bias_`` and an activation.

        Raises:
            ConfigError: There is none of this name.
        """
        if name == "none":
            return cls(scaled)
        first, _, activation = name.partition("_")
        if first != "bias" or (activation or "none") not in ACTIVATIONS:
            known = ["none", "bias", *(f"bias_{a}" for a in ACTIVATIONS if a != "none")]
            raise ConfigError("there is no such epilogue", code="FLY-C608", value=name,
                              allowed=", ".join(known))  # fmt: skip
        return cls(scaled, True, activation or "none")

    def apply(
        self,
        x: Any,
        kind: Any,
        *,
        row_scale: Any = None,
        column_scales: Any = None,
        bias: Any = None,
        residual: Any = None,
        inverse_scale: Any = None,
    ) -> Any:
        """Return the result for neighbouring columns of one row.

        Args:
            x: Accumulators: a vector of f32 or i32.
            kind: Numeric class of the result.
            row_scale: f32 scale of the row.
            column_scales: f32 vector of the columns' scales.
            bias: Vector of biases of any float class.
            residual: Vector of the other matrix' elements of any float class.
            inverse_scale: f32 number that the result is multiplied by before it is quantised.
        """
        value = x.to(fx.Float32)
        if self.scaled:
            value = value * row_scale * column_scales
        if self.bias:
            value = value + bias.to(fx.Float32)
        value = activated(value, self.activation)
        if self.residual:
            value = value + residual.to(fx.Float32)
        if self.quantised:
            return quantised(value if inverse_scale is None else value * inverse_scale, kind)
        return value.to(kind)
