"""Counts that a launcher computes at run time and that no launch can have."""

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import FlyDSLError, UserValueError


@flyc.kernel
def count(out: fx.Tensor):
    fx.atomic_add(out.iter, fx.Int32(1))


@flyc.jit
def wide(out: fx.Tensor, g: fx.Int64, b: fx.Int64):
    count(out).launch(grid=g, block=b)


@flyc.jit
def plane(out: fx.Tensor, x: fx.Int32, y: fx.Int32, z: fx.Uint64):
    count(out).launch(grid=(x, y, z), block=(1, 2, 1))


@flyc.jit
def rounded_up(out: fx.Tensor, n: fx.Int32):
    count(out).launch(grid=((n + 63) // 64,), block=64)


@flyc.jit
def with_bytes(out: fx.Tensor, size: fx.Int64):
    count(out).launch(grid=1, block=1, smem=size)


def ran(launcher, *args):
    out = np.zeros(1, "i4")
    launcher(out, *args)
    return int(out[0])


@pytest.mark.parametrize(
    ("grid", "block", "what", "value"),
    [
        (2**32 + 1, 1, "grid.x", 2**32 + 1),
        (2**32, 64, "grid.x", 2**32),
        (2**62, 64, "grid.x", 2**62),
        (-1, 1, "grid.x", -1),
        (-(2**63), 1, "grid.x", -(2**63)),
        (1, 2**32 + 1, "block.x", 2**32 + 1),
        (3, -64, "block.x", -64),
    ],
)
def test_a_count_beyond_32_bits_is_refused_with_its_value(grid, block, what, value):
    assert ran(wide, 3, 2) == 6  # compiled: what follows is the warm path
    out = np.zeros(1, "i4")
    with pytest.raises(UserValueError) as caught:
        wide(out, grid, block)
    assert caught.value.code == "FLY-U423"
    assert what in str(caught.value)
    assert caught.value.value in (value, str(value))
    assert "test_geometry.py" in str(caught.value)
    assert out[0] == 0
    assert ran(wide, 3, 2) == 6  # a refusal leaves nothing behind


def test_each_axis_is_checked_and_the_first_wrong_one_is_named():
    assert ran(plane, 2, 3, 2) == 24
    for args, what in (((1, -7, 2), "grid.y"), ((1, 1, 2**64 - 5), "grid.z")):
        with pytest.raises(UserValueError, match=what):
            ran(plane, *args)
    with pytest.raises(UserValueError, match=r"grid\.x"):
        ran(plane, -1, -1, 2**64 - 1)


def test_threads_along_an_axis_are_counted_in_32_bits():
    for args in ((2**31, 2), (2**31 - 1, 64)):
        with pytest.raises(FlyDSLError, match="too many threads along one axis"):
            ran(wide, *args)


def test_a_grid_of_zero_launches_nothing():
    assert ran(wide, 0, 64) == 0
    assert ran(plane, 4, 0, 1) == 0
    assert ran(rounded_up, 0) == 0


def test_an_overflow_in_the_users_computation_is_seen():
    assert ran(rounded_up, 65) == 128
    with pytest.raises(UserValueError, match=r"grid\.x"):
        ran(rounded_up, 2**31 - 1)


@pytest.mark.parametrize("block", [0, 1025, 2**32 - 1])
def test_a_block_that_no_device_has_is_refused(block):
    with pytest.raises(FlyDSLError, match="workgroup size"):
        ran(wide, 1, block)


@pytest.mark.parametrize("size", [-1, -(2**31) - 5, -(2**32)])
def test_negative_shared_memory_is_refused(size):
    assert ran(with_bytes, 64) == 1
    with pytest.raises(UserValueError, match="smem"):
        ran(with_bytes, size)


@pytest.mark.parametrize("size", [2**31, 2**32 + 64])
def test_too_much_shared_memory_is_not_cut_to_32_bits(size):
    with pytest.raises(FlyDSLError, match="LDS"):
        ran(with_bytes, size)


def test_a_compile_time_count_beyond_32_bits_is_refused():
    @flyc.jit
    def launcher(out: fx.Tensor):
        count(out).launch(grid=2**32, block=1)

    with pytest.raises(UserValueError, match="FLY-U230"):
        ran(launcher)
