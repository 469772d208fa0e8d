"""Lowering costs work in proportion to the operations: counted in calls, not in seconds."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from typing import Any

import pytest

from flydsl import layout as fl
from flydsl import mlir
from flydsl.dialects import fly
from flydsl.mlir import ir
from flydsl.passes import PASSES

MATRIX = '!fly.memref<f32, "global", "(?,?):(?{i64},1)", 16 : i64>'


def slices(tensor: Any, i: Any, count: int) -> None:
    """Tiles, elements and stores, each depending on the one before through its index."""
    for _ in range(count):
        tile = fly.slice(fly.zipped_divide(tensor, fl.make_tile(8, 4)), ((None, None), (i, 1)))
        value = fly.memref_load(tile, (i, 3))
        fly.memref_store(value, tensor, (i, i))
        i = fly.get_scalar(fly.int_tuple_add(i, 3))


def sums(tensor: Any, i: Any, count: int) -> None:
    """One long sum of scaled digits, then used."""
    total = i
    for n in range(count):
        digit = fly.get_scalar(fly.int_tuple_mod(i, n % 7 + 2))
        total = fly.get_scalar(fly.int_tuple_add(total, digit))
    fly.memref_load(tensor, (total, 0))


def registers(tensor: Any, i: Any, count: int) -> None:
    """A fragment that is stored and loaded again and again."""
    from flydsl.dialects.fly_types import MemRefType

    fragment = fly.memref_alloca(MemRefType("f32", "register", fl.Layout(8, 1), 4))
    for n in range(count):
        fly.memref_store(fly.memref_load(tensor, (i, n)), fragment, n % 8)
        fly.memref_store_vec(fly.memref_load_vec(fragment), fragment)
    fly.memref_store(fly.memref_load(fragment, 3), tensor, (i, i))


def work(build: Callable[[Any, Any, int], None], count: int) -> int:
    """Return the calls of Python functions that all neutral passes make."""
    context = mlir.thread_context()
    module = mlir.parse_module(
        f"gpu.module @k {{ gpu.func @f(%a: {MATRIX}, %i: i32) kernel {{ gpu.return }} }}", context
    )
    function = module.body.operations[0].regions[0].blocks[0].operations[0]
    block = function.regions[0].blocks[0]
    with context, ir.Location.unknown(), ir.InsertionPoint(block.operations[0]):
        tensor, index = block.arguments
        build(tensor, index, count)
    calls = 0

    def count_calls(frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    passes = [name for name in PASSES if name != "fly-host-lowering"]
    functions = []
    for name in passes:
        where, run = PASSES[name].split(":")
        functions.append(getattr(importlib.import_module(where), run))
    before = sys.getprofile()
    for run in functions:
        sys.setprofile(count_calls)
        try:
            run(module, None)
        finally:
            sys.setprofile(before)
    return calls


@pytest.mark.parametrize("build", [slices, sums, registers], ids=lambda f: f.__name__)
def test_twice_the_operations_are_twice_the_work(build: Callable[..., None]) -> None:
    work(build, 10)  # caches of types and attributes
    small, large = work(build, 100), work(build, 400)
    assert large <= 4.4 * small
    assert large >= 3 * small, "the measure does not see the work"
