"""Arrays of two libraries through one set of functions."""

from __future__ import annotations

import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

from flydsl.errors import UserTypeError, UserValueError
from flydsl.ext import arrays


def _both() -> list:
    torch = pytest.importorskip("torch", reason="compares with PyTorch tensors")
    return [np.arange(12, dtype=np.float32).reshape(3, 4), torch.arange(12.0).reshape(3, 4)]


def test_libraries_are_told_apart():
    array, tensor = _both()
    assert not arrays.is_torch(array)
    assert arrays.is_torch(tensor)
    with pytest.raises(UserTypeError, match="neither") as caught:
        arrays.is_torch([1.0])
    assert (caught.value.code, caught.value.value) == ("FLY-U540", "list")


@pytest.mark.parametrize("which", [0, 1])
def test_facts_of_an_array(which):
    array = _both()[which]
    assert arrays.dtype_name(array) == "float32"
    assert arrays.strides(array) == (4, 1)
    assert arrays.strides(array.T) == (1, 4)
    assert arrays.shares_memory(array, array.T)
    copy = arrays.contiguous(array.T)
    assert arrays.strides(copy) == (3, 1)
    assert not arrays.shares_memory(array, copy)
    assert (np.asarray(copy) == np.asarray(array.T)).all()
    assert arrays.shares_memory(array, arrays.contiguous(array))


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("name", ["float32", "bfloat16", "float8_e4m3fn", "int8", "uint8"])
def test_new_arrays(which, name):
    like = _both()[which]
    fresh = arrays.empty((2, 0, 5), name, like)
    assert (tuple(fresh.shape), arrays.dtype_name(fresh)) == ((2, 0, 5), name)
    assert arrays.is_torch(fresh) == bool(which)
    zero = arrays.zeros((3,), name, like)
    assert arrays.dtype_name(zero) == name
    assert all(float(x) == 0 for x in zero)


def test_bytes_view_shares_and_refuses_wide_elements():
    array, tensor = _both()
    small = np.array([1.0, -2.0], ml_dtypes.float8_e4m3fn)
    view = arrays.as_bytes(small)
    assert view.tolist() == [0x38, 0xC0]
    view[0] = 0
    assert float(small[0]) == 0
    import torch

    assert arrays.as_bytes(tensor.to(torch.float8_e4m3fn))[0, 1] == 0x38
    for wide in (array, tensor):
        with pytest.raises(UserValueError, match="one byte"):
            arrays.as_bytes(wide)


def test_checks_say_what_is_allowed():
    array, tensor = _both()
    arrays.check_shape(array, [3, 4], "x")
    arrays.check_dtype(tensor, ("float32",), "x")
    arrays.check_same_library(array, array.T, "x")
    with pytest.raises(UserValueError, match=r"w has another shape") as caught:
        arrays.check_shape(array, (4, 3), "w")
    assert (caught.value.value, caught.value.allowed) == ((3, 4), "(4, 3)")
    with pytest.raises(UserValueError, match=r"w has an element type") as caught:
        arrays.check_dtype(array, ("int8", "float16"), "w")
    assert (caught.value.value, caught.value.allowed) == ("float32", "int8, float16")
    with pytest.raises(UserTypeError, match="another array library"):
        arrays.check_same_library(array, tensor, "w")


def test_calls_that_pytorch_has_to_see():
    array, tensor = _both()
    import torch

    wanted = torch.ones(2, requires_grad=True)
    assert not arrays.differentiable(array, wanted)
    assert not arrays.differentiable(tensor, None)
    assert arrays.differentiable(tensor, None, wanted)
    with torch.no_grad():
        assert not arrays.differentiable(tensor, wanted)


@pytest.mark.parametrize("torch_too", [False, True])
def test_what_a_result_would_overwrite_is_copied(torch_too):
    array, tensor = _both()
    x = tensor if torch_too else array
    other = x.clone() if torch_too else x.copy()
    assert arrays.apart(x, other) is x
    assert arrays.apart(x, x, in_place=True) is x
    assert arrays.apart(x[:0], x) is not None
    for source, out in ((x, x), (x[:2], x[1:]), (x[:, :2], x[:, 1:3]), (x.T, x)):
        kept = arrays.apart(source, out)
        assert not arrays.shares_memory(kept, source)
        assert (kept == source).all()
    shifted = x[:2]
    assert arrays.apart(shifted, x[1:], in_place=True) is not shifted
    assert arrays.apart(x[:1], x[1:]) is not None
    assert arrays.shares_memory(arrays.apart(x[:1], x[1:]), x)


def test_results_may_be_written():
    import numpy as np
    import torch

    array, tensor = _both()
    for good in (array, tensor, array.T, array[::-1, ::2], tensor[:, ::2], array[:0], tensor[:1]):
        arrays.check_writable(good, "out")
    with pytest.raises(UserValueError, match="out is read-only") as caught:
        arrays.check_writable(np.broadcast_to(array, (2, 3, 4)), "out")
    assert caught.value.code == "FLY-U545"
    window = np.lib.stride_tricks.as_strided(np.zeros(12, np.float32), (3, 4), (8, 4))
    for bad in (window, tensor[:1].expand(3, 4), torch.zeros(1).expand(2)):
        with pytest.raises(UserValueError, match="same memory") as caught:
            arrays.check_writable(bad, "out")
        assert caught.value.code == "FLY-U546"


def _random_view(random, memory):
    """Return a window of some memory with any extents and strides, of some type."""
    kind = np.dtype(random.choice([np.uint8, np.int16, np.int32]))
    while True:
        shape = [int(random.integers(0, 6)) for _ in range(random.integers(1, 4))]
        steps = [kind.itemsize * int(random.integers(-12, 13)) for _ in shape]
        reach = [step * (extent - 1) for step, extent in zip(steps, shape, strict=True) if extent]
        low, high = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach) + kind.itemsize
        if high - low <= memory.nbytes:
            break
    offset = int(random.integers(0, memory.nbytes - (high - low) + 1)) - low
    return np.ndarray(shape, kind, memory, offset, steps)


def test_arrays_have_a_byte_in_common_where_numpy_says_so():
    random, memory = np.random.default_rng(), np.zeros(400, np.uint8)
    found = set()
    for _ in range(3000):
        first, second = _random_view(random, memory), _random_view(random, memory)
        common = np.shares_memory(first, second)
        assert arrays.overlap(first, second) == common, (first.strides, second.strides)
        found.add(common)
    assert found == {False, True}


@pytest.mark.parametrize("which", [0, 1])
def test_interleaved_arrays_have_nothing_in_common(which):
    array = _both()[which]
    for first, second, common in (
        (array[:, :2], array[:, 2:], False), (array[::2], array[1::2], False),
        (array[:, ::2], array[:, 1::2], False), (array[:, :3], array[:, 2:], True),
        (array[1:1], array, False), (array.T, array[2:], True),
    ):  # fmt: skip
        assert arrays.overlap(first, second) == common
        assert arrays.overlap(second, first) == common
    assert arrays.shares_memory(arrays.apart(array[:, :2], array[:, 2:]), array)


def test_a_search_without_end_counts_as_common():
    # 997 x + 1009 y + 1013 z + 1019 u reaches most sums in very many ways, and some in none.
    memory = np.zeros(1, np.uint8)
    steps = (997, 1009, 1013, 1019)
    first = np.lib.stride_tricks.as_strided(memory, (1000,) * 4, steps)
    second = np.lib.stride_tricks.as_strided(memory, (1000,) * 4, tuple(2 * s for s in steps))
    assert arrays.overlap(first, second)


def test_small_floats_of_numpy_name_the_package_that_has_them():
    code = """
import sys
sys.modules["ml_dtypes"] = None
import numpy as np
from flydsl.errors import UserValueError
from flydsl.ext import arrays

assert arrays.zeros((2,), "float16", np.zeros(1)).dtype == np.float16
try:
    arrays.zeros((2,), "bfloat16", np.zeros(1))
except UserValueError as error:
    print(error.code, error.hint)
"""
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert out.split()[0] == "FLY-U543"
    assert "pip install ml-dtypes" in out
