"""Results that lie where something is read from, and results that cannot be written."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from flydsl.config import scope
from flydsl.errors import TargetError, UserValueError
from flydsl_kernels.norm import fused_add_rmsnorm, rmsnorm, softmax


@pytest.fixture(autouse=True)
def _gfx942():
    with scope(FLYDSL_TARGET="gfx942"):
        yield


def _memory():
    return np.random.default_rng().standard_normal((2001, 40)).astype(np.float32)


@pytest.mark.parametrize("operation", [rmsnorm, softmax])
@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_a_result_one_row_further_on(operation, library):
    """A workgroup would read rows that others have overwritten."""
    memory = _memory()
    expected = operation(memory[:-1].copy())
    given = torch.from_numpy(memory) if library == "torch" else memory
    operation(given[:-1], out=given[1:])
    assert np.array_equal(memory[1:], expected)


def test_sums_over_a_shifted_residual_and_a_result_over_the_weight():
    memory, x = _memory(), _memory()[:-1]
    w = memory[0].copy()
    y, total = fused_add_rmsnorm(x, memory[:-1].copy(), w)
    got = np.zeros_like(x)
    fused_add_rmsnorm(x, memory[:-1], memory[0], residual_out=memory[1:], out=got)
    assert np.array_equal(memory[1:], total)
    assert np.array_equal(got, y)
    memory = _memory()
    w = memory[7].copy()
    rmsnorm(x, memory[7], out=memory[:-1])
    assert np.array_equal(memory[:-1], rmsnorm(x, w))


@pytest.mark.parametrize("out", [
    np.lib.stride_tricks.as_strided(np.zeros(8, np.float32), (3, 8), (0, 4)),
    torch.zeros(1, 8).expand(3, 8), np.frombuffer(bytes(96), np.float32).reshape(3, 8),
])  # fmt: skip
def test_results_without_memory_of_their_own_are_refused(out):
    x = np.ones((3, 8), np.float32)
    given = torch.from_numpy(x) if isinstance(out, torch.Tensor) else x
    with pytest.raises(UserValueError, match=r"read-only|same memory"):
        rmsnorm(given, out=out)


@pytest.mark.parametrize("eps", ["1e-6", None, float("nan"), -1])
def test_an_epsilon_is_a_number(eps):
    with pytest.raises(UserValueError, match="finite number"):
        rmsnorm(np.ones((3, 8), np.float32), eps=eps)


def test_errors_of_launches_are_at_the_line_of_the_caller():
    with scope(FLYDSL_TARGET="nonsense"), pytest.raises(TargetError) as caught:
        rmsnorm(np.ones((3, 8), np.float32))
    assert caught.value.location.file == __file__


@pytest.mark.parametrize("operation", [rmsnorm, softmax])
def test_settings_that_change_between_calls_take_effect(operation):
    x = torch.ones(3, 8)
    expected = operation(x)
    with scope(FLYDSL_TARGET="nonsense"), pytest.raises(TargetError):
        operation(x)
    with scope(FLYDSL_TARGET="gfx1201"):
        assert torch.allclose(operation(x), expected)
    with scope(COMPILE_ONLY=True):
        untouched = torch.full_like(x, 7)
        operation(x, out=untouched)
        assert (untouched == 7).all()
    assert torch.equal(operation(x), expected)


def test_an_epsilon_counts_by_its_value_and_not_by_what_it_equals():
    x = torch.full((2, 8), 3.0)
    expected = torch.full((2, 8), 3.0 / 10.0**0.5)
    for eps in (1.0, 1, np.float32(1), np.int64(1)):
        assert torch.allclose(rmsnorm(x, eps=eps), expected)
        for wrong in (True, np.True_, torch.ones(()), [1.0], np.ones(()), float("inf")):
            with pytest.raises(UserValueError, match="finite number"):
                rmsnorm(x, eps=wrong)
