"""Whether the native closures keep the interpreter's lock during a launch."""

from __future__ import annotations

import ctypes
import platform
import threading

import pytest

from flydsl.compiler.arguments.scalars import describe_number
from flydsl.compiler.direct import Direct, make_direct
from flydsl.compiler.direct_plan import SHORT_TICKS
from flydsl.expr import Int32

STUB = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


def test_a_runtime_may_hold_the_interpreter():
    held = []
    # A function called with the lock held may use Python without asking for it.
    function = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(
        lambda _context, _block: held.append(ctypes.pythonapi.PyGILState_Check()) or 0
    )
    address = ctypes.cast(function, ctypes.c_void_p).value
    target = Direct(address, 0, RuntimeError, kept=function, holds=True)
    direct = make_direct([describe_number(1, Int32)], target, implicit_stream=False)
    assert direct(1) is None
    assert held == [1]


def ticks_of(direct):
    """The number that says how long launches have taken."""
    return next(item for item in direct.__self__.kept if isinstance(item, ctypes.c_uint64))


measured = pytest.mark.skipif(
    platform.machine() != "x86_64", reason="other processors' time stamps cannot be read"
)


@measured
def test_short_launches_keep_the_lock():
    held = []
    function = ctypes.PYFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(
        lambda _, __: held.append(ctypes.pythonapi.PyGILState_Check()) or sum(range(20_000)) * 0
    )
    address = ctypes.cast(function, ctypes.c_void_p).value
    target = Direct(address, 0, RuntimeError, kept=function)
    direct = make_direct([describe_number(1, Int32)], target, implicit_stream=False)
    ticks_of(direct).value = 0
    assert direct(1) is None
    assert held == [1]
    # It took longer than that.
    assert ticks_of(direct).value >= SHORT_TICKS


@measured
def test_the_time_of_launches_is_measured():
    # A function of C that returns at once, and zero for the context 0.
    address = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p).value
    direct = make_direct(
        [describe_number(1, Int32)], Direct(address, 0, RuntimeError), implicit_stream=False
    )
    assert ticks_of(direct).value == 8 * SHORT_TICKS
    for _ in range(2000):
        direct(1)
    assert ticks_of(direct).value < SHORT_TICKS
    blocks = []
    function = STUB(lambda _, block: blocks.append(block) or sum(range(20_000)) * 0)
    address = ctypes.cast(function, ctypes.c_void_p).value
    target = Direct(address, 0, RuntimeError, kept=function)
    direct = make_direct([describe_number(1, Int32)], target, implicit_stream=False)
    ticks_of(direct).value = 0
    for _ in range(20):
        direct(1)
    assert ticks_of(direct).value >= SHORT_TICKS
    assert len(blocks) == 20


def test_other_threads_run_during_the_launch():
    entered, leave = threading.Event(), threading.Event()

    def stub(context, block):
        entered.set()
        leave.wait(10)
        return 0

    function = STUB(stub)
    address = ctypes.cast(function, ctypes.c_void_p).value
    target = Direct(address, 0, RuntimeError, kept=function)
    direct = make_direct([describe_number(1, Int32)], target, implicit_stream=False)
    thread = threading.Thread(target=direct, args=(1,))
    thread.start()
    assert entered.wait(10)
    leave.set()
    thread.join(10)
    assert not thread.is_alive()
