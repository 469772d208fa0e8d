"""Kernels on the public API, compiled by us and by another package, run in the emulator."""

from __future__ import annotations

import ctypes
import importlib
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl_emu
from flydsl.config import scope
from flydsl.plugins.payloads import CodeObject, TargetSpec
from flydsl.runtime.abi import ABI_VERSION, EXTENT_WRITABLE, LAUNCH_FUNCTION, FlyExtent, FlyLaunch
from flydsl_emu.codeobject import Kernel, read_code_object
from flydsl_emu.decode import decode
from flydsl_emu.runtime import create

KERNELS = Path(__file__).with_name("kernels")
NAMES = ("vector_add", "softmax", "rmsnorm", "tiled_gemm", "wave_gemm")
RUNS = [(name, arch) for arch in ("gfx942", "gfx950") for name in NAMES[:4]]
RUNS += [(name, arch) for arch in ("gfx1100", "gfx1201") for name in (*NAMES[:3], NAMES[4])]


@pytest.fixture(scope="module")
def cases() -> Iterator[dict[str, Any]]:
    sys.path.insert(0, str(KERNELS))
    yield {case.name: case for case in importlib.import_module("kernel_cases").CASES}
    sys.path.remove(str(KERNELS))


def test_every_case_is_listed(cases: dict[str, Any]) -> None:
    assert tuple(cases) == NAMES


@pytest.mark.parametrize(("name", "arch"), RUNS)
def test_compiled_by_us(cases: dict[str, Any], name: str, arch: str) -> None:
    case = cases[name]
    arrays = case.arrays(np.random.default_rng(7))
    with scope(FLYDSL_TARGET=arch), flydsl_emu.collect() as reports:
        case.launch()(*arrays, *case.scalars)
    case.check(arrays)
    (report,) = reports
    assert (report.grid, report.block) == (case.grid, case.block)
    assert (report.instructions["mfma"] > 0) == name.endswith("gemm")


@pytest.mark.parametrize(("name", "arch"), RUNS)
def test_instructions_have_source_lines(cases: dict[str, Any], name: str, arch: str) -> None:
    case = cases[name]
    arrays = case.arrays(np.random.default_rng(7))
    with scope(FLYDSL_TARGET=arch, FLYDSL_DEBUG_INFO=True):
        compiled = flyc.compile(case.launch(), *arrays, *case.scalars)
    code = read_code_object(compiled.code.data)
    table = code.line_table()
    (kernel,) = code.kernels.values()
    found = [table.find(i.pc) for i in decode(arch, kernel.code, kernel.address)]
    known = [line for line in found if line is not None and line.exact]
    assert len(known) >= 0.99 * len(found)
    assert {line.file for line in known} == {str(KERNELS / f"{case.module}.py")}


# The other package's code -------------------------------------------------------------------------
@pytest.fixture(scope="module")
def peer_code(
    peer_python: str, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], bytes]:
    """Compile a case with the other package: ``peer_code(name, arch)``."""
    linker = shutil.which("ld.lld-22") or shutil.which("ld.lld")
    if linker is None:
        pytest.skip("the other package needs LLVM's linker, and ld.lld is not installed")
    rocm = tmp_path_factory.mktemp("rocm")
    (rocm / "llvm" / "bin").mkdir(parents=True)
    (rocm / "llvm" / "bin" / "ld.lld").symlink_to(linker)
    outputs: dict[str, Path] = {}

    def compiled(name: str, arch: str) -> bytes:
        if arch not in outputs:
            output = outputs[arch] = tmp_path_factory.mktemp(f"peer-{arch}")
            environment = {
                **os.environ,
                "PYTHONPATH": "",
                "COMPILE_ONLY": "1",
                "ARCH": arch,
                "FLYDSL_GPU_ARCH": arch,
                "FLYDSL_RUNTIME_ENABLE_CACHE": "0",
                "FLYDSL_DUMP_IR": "1",
                "FLYDSL_DUMP_DIR": str(output / "dump"),
                "ROCM_PATH": str(rocm),
            }
            script = str(Path(__file__).with_name("peer_compile.py"))
            done = subprocess.run(
                [peer_python, script, str(output)],
                env=environment,
                capture_output=True,
                text=True,
                check=False,
            )
            assert done.returncode == 0, done.stderr[-3000:]
        return (outputs[arch] / f"{name}.hsaco").read_bytes()

    return compiled


def packed_layout(array: Any, size: int) -> bytes:
    """Return what the other package passes beside a tensor's pointer, `size` bytes of it.

    Extents as 32-bit numbers, then the strides but the first that is 1 as 64-bit ones, unpadded.
    """
    strides = [s // array.itemsize for s in array.strides]
    strides.remove(1)
    data = struct.pack(f"<{array.ndim}i{len(strides)}q", *array.shape, *strides)
    assert len(data) == size
    return data


def kernel_arguments(kernel: Kernel, arrays: list[Any], scalars: Any) -> bytes:
    """Pack a kernel's arguments at the places that its metadata tells."""
    data = bytearray(kernel.descriptor.kernarg_size)
    places = iter([a for a in kernel.arguments if not a.hidden])
    for array in arrays:
        pointer = next(places)
        assert pointer.kind == "global_buffer"
        struct.pack_into("<Q", data, pointer.offset, array.ctypes.data)
        layout = next(places)
        packed = packed_layout(array, layout.size)
        data[layout.offset : layout.offset + layout.size] = packed
    for form, value in scalars:
        place = next(places)
        assert place.size == struct.calcsize(form)
        struct.pack_into(f"<{form}", data, place.offset, value)
    assert next(places, None) is None
    return bytes(data)


def run(code: bytes, arch: str, case: Any, arrays: list[Any]) -> None:
    """Launch the only kernel of a code object on host arrays."""
    (kernel,) = read_code_object(code).kernels.values()
    runtime = create()
    module = runtime.load(CodeObject("hsaco", TargetSpec("rocdl", arch), code, ()), 0)
    kernarg = kernel_arguments(kernel, arrays, case.kernel_scalars)
    buffer = ctypes.create_string_buffer(kernarg, len(kernarg))
    extents = (FlyExtent * len(arrays))(
        *(FlyExtent(i, EXTENT_WRITABLE, a.ctypes.data, 0, a.nbytes) for i, a in enumerate(arrays))
    )
    record = FlyLaunch(
        abi_version=ABI_VERSION,
        function=module.function(kernel.name),
        grid=case.grid,
        block=case.block,
        cluster=(1, 1, 1),
        kernarg=ctypes.addressof(buffer),
        kernarg_size=len(kernarg),
        extents=ctypes.addressof(extents),
        extent_count=len(arrays),
    )
    status = LAUNCH_FUNCTION(runtime.launch_address())(ctypes.byref(record))
    if status:
        raise runtime.take_error(status) or AssertionError(status)


@pytest.mark.peer
@pytest.mark.parametrize(("name", "arch"), RUNS)
def test_compiled_by_the_other_package(
    cases: dict[str, Any], peer_code: Callable[[str, str], bytes], name: str, arch: str
) -> None:
    case = cases[name]
    code = peer_code(name, arch)
    for seed in (7, 8):
        arrays = case.arrays(np.random.default_rng(seed))
        # A kernel that gives the right result has no findings either.
        with flydsl_emu.sanitize() if seed == 8 else nullcontext():
            run(code, arch, case, arrays)
        case.check(arrays)
