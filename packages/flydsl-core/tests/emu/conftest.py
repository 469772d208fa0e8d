"""Running a kernel body in the emulator and as plain Python, lane by lane."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Sequence

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config

KINDS = {int: "fx.Int32", float: "fx.Float32"}


@pytest.fixture(autouse=True)
def target():
    """Compile for one architecture; core itself names none."""
    with config.scope(FLYDSL_TARGET="gfx942"):
        yield


def on_device(body: Callable, arrays: Sequence[np.ndarray], numbers: Sequence = (), block=64):
    """Run ``body(thread, *arrays, *numbers)`` in one block; arrays are changed in place.

    Numbers are Python ints and floats (passed as Int32 and Float32) or static numerics.
    """
    tensors = [f"t{i}" for i in range(len(arrays))]
    scalars = [f"s{i}" for i in range(len(numbers))]
    typed = ", ".join(
        [f"{name}: fx.Tensor" for name in tensors]
        + [
            f"{name}: {KINDS.get(type(value), 'fx.' + type(value).__name__)}"
            for name, value in zip(scalars, numbers, strict=True)
        ]
    )
    names = ", ".join(tensors + scalars)
    source = (
        f"def kernel({typed}):\n    body(fx.thread_idx.x, {names})\n"
        f"def launch({typed}):\n    kernel({names}).launch(grid=1, block={block})\n"
    )
    space = {"fx": fx, "body": body, "__name__": "flydsl_kernels.test"}
    # The frontend reads the source of what it traces.
    filename = f"<generated {source}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    exec(compile(source, filename, "exec"), space)
    space["kernel"] = flyc.kernel(space["kernel"])
    flyc.jit(space["launch"])(*arrays, *[getattr(v, "value", v) for v in numbers])


def agree(body: Callable, arrays: Sequence[np.ndarray], numbers: Sequence = (), block=64) -> None:
    """Check that device and Python, run thread by thread, leave the same array contents."""
    device = [array.copy() for array in arrays]
    host = [array.copy() for array in arrays]
    on_device(body, device, numbers, block)
    for thread in range(block):
        body(thread, *host, *numbers)
    for index, (a, b) in enumerate(zip(device, host, strict=True)):
        np.testing.assert_array_equal(a, b, err_msg=f"array {index}")


@pytest.fixture
def both():
    """`agree`."""
    return agree


@pytest.fixture
def device():
    """`on_device`."""
    return on_device
