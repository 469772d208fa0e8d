"""Legacy names of modules that exist: what each stands for, and what to write instead."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from flydsl.compat.notices import legacy

__all__ = ["LEGACY", "legacy_attribute"]

_OPERATIONS = "flydsl.compat.operations"
_VECTORS = "flydsl.compat.vectors"

LEGACY: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "flydsl.expr": {
        "ArithValue": (f"{_OPERATIONS}:ArithValue", "numbers of fx (fx.Int32, fx.Float32, …)"),
        "T": ("flydsl.compat.types:T", "numeric classes (fx.Float32) and fx.Vector[dtype, n]"),
        "constant_vector": (f"{_VECTORS}:constant_vector", "fx.Vector.filled"),
        "index_cast": (f"{_OPERATIONS}:index_cast", "x.to(fx.Int32) or x.to(fx.Index)"),
        "unwrap": (f"{_OPERATIONS}:unwrap", "x.ir_value(), where an IR value is needed at all"),
    },
    "flydsl.expr.arith": {
        "ArithValue": (f"{_OPERATIONS}:ArithValue", "numbers of fx (fx.Int32, fx.Float32, …)"),
        "bitcast": (f"{_OPERATIONS}:bitcast", "x.bitcast(dtype)"),
        "ceildivsi": (f"{_OPERATIONS}:ceildivsi", "fx.ceildiv"),
        "constant": (f"{_OPERATIONS}:constant", "a Python number or fx.Int32(3)"),
        "constant_vector": (f"{_VECTORS}:constant_vector", "fx.Vector.filled"),
        "ext_f": (f"{_OPERATIONS}:ext_f", "x.to(dtype)"),
        "floordivsi": (f"{_OPERATIONS}:floordivsi", "the operator //"),
        "index_cast": (f"{_OPERATIONS}:index_cast", "x.to(fx.Int32) or x.to(fx.Index)"),
        "maxsi": (f"{_OPERATIONS}:maxsi", "fx.max"),
        "maxui": (f"{_OPERATIONS}:maxui", "fx.max of unsigned numbers"),
        "minsi": (f"{_OPERATIONS}:minsi", "fx.min"),
        "minui": (f"{_OPERATIONS}:minui", "fx.min of unsigned numbers"),
        "negf": (f"{_OPERATIONS}:negf", "the operator -"),
        "trunc_f": (f"{_OPERATIONS}:trunc_f", "x.to(dtype)"),
        "unwrap": (f"{_OPERATIONS}:unwrap", "x.ir_value(), where an IR value is needed at all"),
    },
    "flydsl.expr.gpu": {
        "ShuffleOp": (f"{_OPERATIONS}:ShuffleOp", "fx.shuffle_xor, _up, _down or _idx"),
    },
    "flydsl.expr.vector": {
        "bitcast": (f"{_VECTORS}:bitcast", "v.bitcast(dtype)"),
        "broadcast": (f"{_VECTORS}:broadcast", "fx.Vector.filled"),
        "extract": (f"{_VECTORS}:extract", "v[i]"),
        "from_elements": (f"{_VECTORS}:from_elements", "fx.Vector.from_elements"),
        "insert": (f"{_VECTORS}:insert", "fx.Vector.from_elements"),
        "load_op": (f"{_VECTORS}:load_op", "fx.ptr_load or fx.copy"),
        "reduction": (f"{_VECTORS}:reduction", "v.reduce(op)"),
        "shuffle": (f"{_VECTORS}:shuffle", "v.shuffle(other, mask)"),
        "splat": (f"{_VECTORS}:broadcast", "fx.Vector.filled"),
        "store": (f"{_VECTORS}:store", "fx.ptr_store or fx.copy"),
    },
}
"""Module -> name -> where it is implemented, and the replacement."""


def legacy_attribute(module: str, name: str) -> Any:
    """Return what a legacy name stands for, with a warning.

    Args:
        module: Module that was asked for the name.
        name: The name.

    Raises:
        AttributeError: It is no legacy name of that module.
    """
    found = LEGACY.get(module, {}).get(name)
    if found is None:
        raise AttributeError(f"module {module!r} has no attribute {name!r}")
    place, instead = found
    legacy(f"{module}.{name}", instead)
    home, _, attribute = place.partition(":")
    return getattr(importlib.import_module(home), attribute)
