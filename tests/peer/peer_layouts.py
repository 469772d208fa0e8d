"""Evaluates layout expressions with another project's package; run by its own interpreter.

Reads one JSON text per line, an expression in `make_layout` and its fellows, and answers each with
one line ``["text", result]`` or ``["error", message]``. An expression that ends the process gets no
answer: the caller starts a new one.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from flydsl._mlir import ir

import flydsl.expr as fx


def names(arguments: Any) -> dict[str, Any]:
    """Return what expressions may use: the package's functions and three run-time integers."""
    found = {name: getattr(fx, name) for name in dir(fx) if not name.startswith("_")}
    m, n, k = fx.Int32(arguments[0]), fx.Int32(arguments[1]), fx.Int64(arguments[2])

    def swizzle(*numbers: int) -> Any:
        return fx.static(fx.SwizzleType.get(*numbers))

    return found | {"L": fx.make_layout, "S": swizzle, "m": m, "n": n, "k": k}


def text(value: Any) -> str:
    """Return the canonical text of a result."""
    if isinstance(value, (tuple, list)):
        return "(" + ",".join(text(item) for item in value) + ")"
    shown = str(getattr(value, "type", value))
    for prefix in ("!fly.layout<", "!fly.int_tuple<", "!fly.composed_layout<", "!fly.tile<"):
        if shown.startswith(prefix):
            return shown[len(prefix) : -1]
    return shown


def main() -> None:
    """Answer until the input ends."""
    with ir.Context(), ir.Location.unknown():
        module = ir.Module.create()
        i32, i64 = (ir.IntegerType.get_signless(width) for width in (32, 64))
        kind = ir.FunctionType.get([i32, i32, i64], [])
        with ir.InsertionPoint(module.body):
            function = ir.Operation.create(
                "func.func",
                attributes={
                    "sym_name": ir.StringAttr.get("f"),
                    "function_type": ir.TypeAttr.get(kind),
                },
                regions=1,
            )
        block = ir.Block.create_at_start(
            function.regions[0], [i32, i32, i64], [ir.Location.unknown()] * 3
        )
        with ir.InsertionPoint(block):
            space = names(block.arguments)
            for line in sys.stdin:
                try:
                    answer = ["text", text(eval(json.loads(line), space))]
                except Exception as error:  # noqa: BLE001 - whatever it is, it is the answer
                    answer = ["error", f"{type(error).__name__}: {error}"[:200]]
                sys.stdout.write(json.dumps(answer) + "\n")
                sys.stdout.flush()


if __name__ == "__main__":
    main()
