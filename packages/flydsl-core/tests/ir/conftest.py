"""Running passes on MLIR text and checking the result with FileCheck directives."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stderr

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser, pattern_for_opts

from flydsl import mlir
from flydsl.dialects.verify import verify_module
from flydsl.passes import PASSES


def run_passes(text: str, passes: Iterable[str]) -> str:
    """Parse `text`, run the passes with the verifiers after each, and return the printed module."""
    context = mlir.thread_context()
    module = mlir.parse_module(text, context, "the test's module")
    verify_module(module, "parsing")
    for name in passes:
        if name.startswith("builtin.module"):
            mlir.run_pipeline(module, name)
        else:
            where, function = PASSES[name].split(":")
            getattr(importlib.import_module(where), function)(module, None)
        verify_module(module, name)
    return str(module)


def check_text(output: str, checks: str) -> None:
    """Fail unless `output` satisfies the FileCheck directives in `checks`."""
    options = Options(match_filename="checks")
    directives = Parser(options, io.StringIO(checks), *pattern_for_opts(options))
    messages = io.StringIO()
    with redirect_stderr(messages):
        code = Matcher(options, FInput("output", output), directives).run()
    if code:
        pytest.fail(f"{messages.getvalue()}\n--- output ---\n{output}", pytrace=False)


@pytest.fixture
def passes_on() -> Callable[[str, Iterable[str]], str]:
    """`run_passes`."""
    return run_passes


@pytest.fixture
def filecheck() -> Callable[[str, str], None]:
    """`check_text`."""
    return check_text


def lowered_kernel(
    parameters: Iterable[str], build: Callable[..., None], upto: str, *, clean: bool = True
) -> str:
    """Return the text of a kernel that `build` fills, after the neutral passes up to `upto`.

    Args:
        parameters: Type texts of the kernel's parameters, which `build` is called with.
        build: Builds the body at the ambient insertion point.
        upto: Name of the last pass.
        clean: Run upstream's canonicalisation at the end.
    """
    context = mlir.thread_context()
    listed = ", ".join(f"%a{i}: {t}" for i, t in enumerate(parameters))
    text = f"gpu.module @k {{ gpu.func @f({listed}) kernel {{ gpu.return }} }}"
    module = mlir.parse_module(text, context)
    function = module.body.operations[0].regions[0].blocks[0].operations[0]
    block = function.regions[0].blocks[0]
    end = mlir.ir.InsertionPoint(block.operations[0])
    with context, mlir.ir.Location.unknown(), end:
        build(*block.arguments)
    names = list(PASSES)
    verify_module(module, "building")
    for name in names[: names.index(upto) + 1]:
        where, run = PASSES[name].split(":")
        getattr(importlib.import_module(where), run)(module, None)
        verify_module(module, name)
    if clean:
        mlir.run_pipeline(module, "builtin.module(canonicalize,cse)")
    return str(module)


@pytest.fixture
def lower() -> Callable[..., str]:
    """`lowered_kernel`."""
    return lowered_kernel


@pytest.fixture
def building() -> Iterator[list[object]]:
    """An ambient insertion point in a function; yields the list that keeps its module alive."""
    context = mlir.thread_context()
    text = "func.func @f(%i: i32, %j: i64, %x: index, %f: f32) { return }"
    module = mlir.parse_module(text, context)
    block = module.body.operations[0].regions[0].blocks[0]
    where = mlir.ir.InsertionPoint(block.operations[0])
    with context, mlir.ir.Location.unknown(), where:
        yield [module, *block.arguments]
