"""Device functions of our own: what the AMD back end has no expansion for.

Each function is written once as LLVM IR through `source.Code`, named ``__fly_<name>`` and inlined
where it is used. To add one, write it in one of the modules and list it in `FUNCTIONS` with the
bound of its error in units in the last place, which a test checks.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from flydsl_rocdl.devlib import (
    double_error,
    double_exponential,
    double_trigonometry,
    exponential,
    powers,
    trigonometry,
)
from flydsl_rocdl.devlib.source import Code, V

__all__ = ["FUNCTIONS", "DeviceFunction", "definition", "link_text"]


@dataclass(frozen=True, slots=True)
class DeviceFunction:
    """One device function.

    Attributes:
        build: Writes the body; None for one that is written as text in `powers`.
        arity: Number of parameters.
        ulp: Bound of the error in units in the last place; 0 when the hardware states it.
        kind: LLVM type of the parameters and the result.
    """

    build: Callable[[Code], V] | None
    arity: int
    ulp: float
    kind: str = "float"


FUNCTIONS: Mapping[str, DeviceFunction] = MappingProxyType(
    {
        "acos": DeviceFunction(trigonometry.acos, 1, 0.52),
        "acosh": DeviceFunction(exponential.acosh, 1, 0.51),
        "asin": DeviceFunction(trigonometry.asin, 1, 0.52),
        "asinh": DeviceFunction(exponential.asinh, 1, 0.51),
        "atan": DeviceFunction(trigonometry.atan, 1, 0.51),
        "atan2": DeviceFunction(trigonometry.atan2, 2, 0.52),
        "atanh": DeviceFunction(exponential.atanh, 1, 0.51),
        "cbrt": DeviceFunction(exponential.cbrt, 1, 0.51),
        "cos": DeviceFunction(trigonometry.cos, 1, 1.6),
        "cosh": DeviceFunction(exponential.cosh, 1, 3.0),
        "erf": DeviceFunction(exponential.erf, 1, 1.6),
        "erfc": DeviceFunction(exponential.erfc, 1, 0.52),
        "expm1": DeviceFunction(exponential.expm1, 1, 2.5),
        "fmod": DeviceFunction(exponential.fmod, 2, 0.5),
        "fmod_f64": DeviceFunction(exponential.fmod, 2, 0.5, "double"),
        "ipow_i32": DeviceFunction(None, 2, 0, "i32"),
        "ipow_i64": DeviceFunction(None, 2, 0, "i64"),
        "log1p": DeviceFunction(exponential.log1p, 1, 0.52),
        "pow": DeviceFunction(exponential.pow_, 2, 0.52),
        "rsqrt": DeviceFunction(exponential.rsqrt, 1, 0),
        "rsqrt_fast": DeviceFunction(exponential.rsqrt_fast, 1, 0),
        "sin": DeviceFunction(trigonometry.sin, 1, 1.6),
        "sinh": DeviceFunction(exponential.sinh, 1, 3.0),
        "tan": DeviceFunction(trigonometry.tan, 1, 3.5),
        "tanh": DeviceFunction(exponential.tanh, 1, 2.0),
        "acos_f64": DeviceFunction(double_trigonometry.acos, 1, 0.62, "double"),
        "acosh_f64": DeviceFunction(double_exponential.acosh, 1, 0.51, "double"),
        "asin_f64": DeviceFunction(double_trigonometry.asin, 1, 0.62, "double"),
        "asinh_f64": DeviceFunction(double_exponential.asinh, 1, 0.51, "double"),
        "atan_f64": DeviceFunction(double_trigonometry.atan, 1, 0.7, "double"),
        "atan2_f64": DeviceFunction(double_trigonometry.atan2, 2, 1.0, "double"),
        "atanh_f64": DeviceFunction(double_exponential.atanh, 1, 0.51, "double"),
        "cbrt_f64": DeviceFunction(double_exponential.cbrt, 1, 0.62, "double"),
        "cos_f64": DeviceFunction(double_trigonometry.cos, 1, 0.82, "double"),
        "cosh_f64": DeviceFunction(double_exponential.cosh, 1, 0.62, "double"),
        "erf_f64": DeviceFunction(double_error.erf, 1, 1.5, "double"),
        "erfc_f64": DeviceFunction(double_error.erfc, 1, 1.5, "double"),
        "exp_f64": DeviceFunction(double_exponential.exp, 1, 0.8, "double"),
        "exp2_f64": DeviceFunction(double_exponential.exp2, 1, 0.8, "double"),
        "expm1_f64": DeviceFunction(double_exponential.expm1, 1, 0.82, "double"),
        "log_f64": DeviceFunction(double_exponential.log, 1, 0.51, "double"),
        "log10_f64": DeviceFunction(double_exponential.log10, 1, 0.51, "double"),
        "log1p_f64": DeviceFunction(double_exponential.log1p, 1, 0.51, "double"),
        "log2_f64": DeviceFunction(double_exponential.log2, 1, 0.51, "double"),
        "pow_f64": DeviceFunction(double_exponential.pow_, 2, 0.8, "double"),
        "rsqrt_f64": DeviceFunction(double_exponential.rsqrt, 1, 0.51, "double"),
        "sin_f64": DeviceFunction(double_trigonometry.sin, 1, 0.75, "double"),
        "sinh_f64": DeviceFunction(double_exponential.sinh, 1, 0.75, "double"),
        "tan_f64": DeviceFunction(double_trigonometry.tan, 1, 0.85, "double"),
        "tanh_f64": DeviceFunction(double_exponential.tanh, 1, 0.75, "double"),
    }
)
"""Every device function by name."""

_PREFIX = "@__fly_"


@functools.cache
def definition(name: str) -> tuple[str, tuple[str, ...]]:
    """Return the LLVM IR definition of a function and the declarations that it needs."""
    function = FUNCTIONS[name]
    if function.build is None:
        return powers.integer_power(name, function.kind), ()
    code = Code(name, (function.kind,) * function.arity, function.kind)
    text = code.finish(function.build(code))
    return text, tuple(code.declarations)


def link_text(llvm_ir: str) -> str:
    """Replace the declarations of device functions in a module's text by their definitions."""
    if _PREFIX not in llvm_ir:
        return llvm_ir
    lines, names = [], []
    present = set()
    for line in llvm_ir.splitlines():
        if line.startswith("declare "):
            symbol = line[line.index("@") : line.index("(", line.index("@"))]
            if symbol.startswith(_PREFIX):
                names.append(symbol.removeprefix(_PREFIX))
                continue
            present.add(symbol)
        lines.append(line)
    extra = []
    for name in names:
        text, declarations = definition(name)
        extra.append(text)
        for declaration in declarations:
            symbol = declaration[declaration.index("@") : declaration.index("(")]
            if symbol not in present:
                present.add(symbol)
                extra.append(declaration)
    return "\n".join([*lines, *extra, ""])
