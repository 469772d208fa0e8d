"""What kernels print, on a stub of HIP whose device memory is host memory."""

from __future__ import annotations

import ctypes
import struct

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl.runtime
from flydsl.errors import DeviceAssertionError
from flydsl.runtime import output


@flyc.kernel
def loud(A: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x
    fx.printf("{} of {}\n", i, n)
    fx.device_assert(A[i] > 0.0, "A[{}] is {}", i, A[i])


@flyc.jit
def launch(A: fx.Tensor, n: fx.Int32):
    loud(A, n).launch(grid=(1,), block=(64,))


def word(address: int) -> ctypes.c_uint64:
    return ctypes.c_uint64.from_address(address)


def write(buffer: int, site: output.OutputSite, *values: int) -> None:
    """Do what a kernel does for one record (thread 5 of block 3)."""
    count = output.RECORD_WORDS + len(values)
    at = word(buffer + 8 * output.HEAD).value
    word(buffer + 8 * output.HEAD).value = at + count
    head = output.COMPLETE | 5 << 16 | count
    for k, x in enumerate((head, site.key, 3, 0, *values)):
        word(buffer + 8 * (output.HEADER_WORDS + at + k)).value = x


def test_output_appears_when_the_stream_is_synchronised(hip_for_host, stub, capsys):
    a = np.ones(64, np.float32)
    compiled = flyc.compile(launch, a, 64)
    launch(a, 64)
    last = stub.last
    pointer, extent, n, buffer = struct.unpack("QiiQ", bytes(last.kernarg[: last.size]))
    assert (pointer, extent, n) == (a.ctypes.data, 64, 64)
    assert word(buffer + 8 * output.HEAD).value == 0
    sites = {site.kind: site for site in compiled.artifact.sites}
    write(buffer, sites["printf"], 5, 64)
    launch(a, 64)
    assert capsys.readouterr().out == ""
    flydsl.runtime.synchronize()
    assert capsys.readouterr().out == "5 of 64\n"
    half = struct.unpack("<I", struct.pack("<f", -0.5))[0]
    write(buffer, sites["assert"], 5, half)
    with pytest.raises(DeviceAssertionError, match=r"A\[5\] is -0.5") as error:
        flydsl.runtime.synchronize()
    assert "block (3, 0, 0), thread (5, 0, 0)" in str(error.value)
    flydsl.runtime.synchronize()
