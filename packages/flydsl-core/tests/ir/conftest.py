"""Running passes on MLIR text and checking the result with FileCheck directives."""

from __future__ import annotations

import importlib
import io
from collections.abc import Callable, Iterable
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
