"""Prove an installation: compile a vector add, and run it in the emulator if asked to.

``nox -s wheels`` runs this in environments that hold only built wheels. It uses nothing but the
distributions under test: its arrays come from the standard library.
"""

from __future__ import annotations

import argparse
import array
import importlib.util
import sys
import tempfile
from pathlib import Path

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope

__all__ = ["HostArray", "main"]

COUNT = 1003


class HostArray:
    """A float32 array with the array interface.

    Args:
        values: Its contents.
    """

    def __init__(self, values: list[float]) -> None:
        self.values = array.array("f", values)

    @property
    def __array_interface__(self) -> dict[str, object]:
        address, length = self.values.buffer_info()
        return {"version": 3, "shape": (length,), "typestr": "<f4", "data": (address, False)}


@flyc.kernel
def vector_add(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, n: fx.Int32) -> None:
    """Add one element per thread."""
    i = fx.block_idx.x * 256 + fx.thread_idx.x
    if i < n:
        C[i] = A[i] + B[i]


@flyc.jit
def launch(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, n: fx.Int32) -> None:
    """Cover `n` elements."""
    vector_add(A, B, C, n).launch(grid=((n + 255) // 256,), block=(256,))


def compile_only(target: str, arguments: tuple[object, ...]) -> None:
    """Compile for `target` and check that a code object comes out."""
    with tempfile.TemporaryDirectory() as folder:
        with scope(
            FLYDSL_TARGET=target,
            COMPILE_ONLY=True,
            FLYDSL_DUMP_IR=True,
            FLYDSL_DUMP_DIR=Path(folder),
        ):
            launch(*arguments)
        objects = [path.read_bytes() for path in Path(folder).rglob("*.hsaco")]
    if len(objects) != 1 or objects[0][:4] != b"\x7fELF":
        raise SystemExit(f"{target}: no code object was written")
    print(f"{target}: compiled to {len(objects[0])} bytes")


def emulate(target: str, arguments: tuple[HostArray, HostArray, HostArray, int]) -> None:
    """Run on `target` in the emulator and compare; every value is exact in float32."""
    with scope(FLYDSL_TARGET=target):
        launch(*arguments)
    a, b, c, _ = arguments
    if [x + y for x, y in zip(a.values, b.values, strict=True)] != list(c.values):
        raise SystemExit(f"{target}: the emulator computed something else")
    print(f"{target}: emulated {COUNT} additions")


def main() -> int:
    """Check the installation as the command line asks; return 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", required=True, help="architecture")
    parser.add_argument("--emulate", action="store_true", help="run it, too")
    parser.add_argument(
        "--absent", action="append", default=[], help="module that must not be installed"
    )
    options = parser.parse_args()
    present = [name for name in options.absent if importlib.util.find_spec(name) is not None]
    if present:
        raise SystemExit(f"installed, but should not be: {', '.join(present)}")
    a = HostArray([float(i) for i in range(COUNT)])
    b = HostArray([0.5 * i for i in range(COUNT)])
    arguments = (a, b, HostArray([0.0] * COUNT), COUNT)
    compile_only(options.target, arguments)
    if options.emulate:
        emulate(options.target, arguments)
    return 0


if __name__ == "__main__":
    sys.exit(main())
