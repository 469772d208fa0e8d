"""Turning LLVM IR into relocatable objects for the linker tests."""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from flydsl import codegen
from flydsl.errors import FlyDSLError

Compile = Callable[..., bytes]


@functools.cache
def _object(llvm_ir: str, cpu: str, opt_level: int) -> bytes:
    request = codegen.CodegenRequest(
        llvm_ir=llvm_ir, triple="amdgcn-amd-amdhsa", cpu=cpu, opt_level=opt_level
    )
    return codegen.shared_worker().compile(request).object


@pytest.fixture
def compile_object() -> Compile:
    """Compile LLVM IR text to a relocatable AMDGPU object."""

    def compile_(llvm_ir: str, cpu: str = "gfx942", opt_level: int = 3) -> bytes:
        try:
            return _object(llvm_ir, cpu, opt_level)
        except FlyDSLError as error:  # show LLVM's words, not a traceback through the worker
            pytest.fail(str(error))

    return compile_


def _tool(name: str) -> str:
    for candidate in (f"{name}-22", name):
        path = shutil.which(candidate)
        if path:
            return path
    pytest.skip(f"{name} is not installed")


@pytest.fixture
def readelf() -> Callable[..., str]:
    """Run ``llvm-readelf``."""
    program = _tool("llvm-readelf")

    def run(path: Path, *options: str) -> str:
        done = subprocess.run(
            [program, *options, str(path)], capture_output=True, text=True, check=True
        )
        assert "warning" not in done.stderr, done.stderr
        return done.stdout

    return run


@pytest.fixture
def objdump() -> Callable[..., str]:
    """Run ``llvm-objdump``."""
    program = _tool("llvm-objdump")

    def run(path: Path, *options: str) -> str:
        return subprocess.run(
            [program, *options, str(path)], capture_output=True, text=True, check=True
        ).stdout

    return run


@pytest.fixture
def lld() -> str:
    """Path of an ``ld.lld``."""
    return _tool("ld.lld")


@pytest.fixture
def llvm_mc() -> str:
    """Path of an ``llvm-mc``."""
    return _tool("llvm-mc")
