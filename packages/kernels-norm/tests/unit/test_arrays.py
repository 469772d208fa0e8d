"""What is looked up in repeated calls is what a first call computes."""

from __future__ import annotations

import numpy as np
import pytest

from flydsl.errors import FlyDSLError
from flydsl.ext.arrays import apart_from
from flydsl_kernels.norm.arrays import allocate_like, apart_rows, as_vector, problem_of, rows_of
from flydsl_kernels.norm.problem import RowProblem
from flydsl_kernels.norm.selection import (
    SOFTMAX_CHUNKS,
    NormPlan,
    QuantPlan,
    SoftmaxPlan,
    norm_plan,
    quant_plan,
    row_plan,
    select_rows,
    softmax_plan,
)

torch = pytest.importorskip("torch")
EXTENTS = (1, 1, 2, 3, 8)


def _tensors():
    """Yield tensors of the same extents and other strides, places and types, in random order."""
    random = np.random.default_rng()
    for _ in range(400):
        rank = int(random.integers(1, 5))
        shape = [int(n) for n in random.choice(EXTENTS, rank)]
        kind = [torch.float32, torch.float16, torch.bfloat16][int(random.integers(3))]
        steps = [int(n) for n in random.choice((0, 1, 2, 8, 9, 24, 77), rank)]
        if random.random() < 0.5:
            steps, step = [], 1
            for extent in reversed(shape):
                steps.insert(0, step if random.random() < 0.9 else step + 5)
                step *= extent
        memory = torch.arange(6000, dtype=torch.float32).to(kind)
        yield torch.as_strided(memory, shape, steps, int(random.integers(3)))


def _same_tensor(found, expected):
    assert type(found) is torch.Tensor
    assert not found.requires_grad
    assert (found.shape, found.stride(), found.dtype) == (
        expected.shape, expected.stride(), expected.dtype,
    )  # fmt: skip


def test_rows_are_those_of_a_view_or_a_copy():
    for x in _tensors():
        merged = x.reshape(-1, x.shape[-1])
        contiguous = merged.shape[-1] == 1 or merged.stride()[-1] == 1
        for given in (x, x.detach().requires_grad_(), torch.nn.Parameter(x, requires_grad=False)):
            rows = rows_of(given)
            _same_tensor(rows, merged if contiguous else merged.contiguous())
            assert torch.equal(rows, merged)
            if contiguous and merged.data_ptr() == x.data_ptr():
                assert rows.data_ptr() == x.data_ptr()


def test_rows_that_are_written_are_the_arrays_own():
    written = refused = 0
    for x in _tensors():
        try:
            rows = rows_of(x, written=True, like=torch.empty_like(x), what="out")
        except FlyDSLError:
            # Its rows are no matrix, or elements are the same memory: of those no two may be given.
            refused += 1
            continue
        written += 1
        rows[:] = torch.arange(rows.numel()).reshape(rows.shape).to(rows.dtype)
        assert torch.equal(x.reshape(-1), torch.arange(x.numel()).to(x.dtype))
    assert written
    assert refused


def test_results_are_checked_against_what_they_are_like():
    x = torch.ones(4, 8, dtype=torch.float16)
    rows_of(x.clone(), written=True, like=x, what="out")
    rows_of(torch.ones(8, 8), written=True)
    for other in (torch.ones(8, 4).half(), torch.ones(4, 8), torch.ones(2, 2, 8).half(),
                  torch.ones(4, 8, device="meta").half(), np.ones((4, 8), np.float16)):  # fmt: skip
        with pytest.raises(FlyDSLError) as caught:
            rows_of(other, written=True, like=x, what="out")
        assert caught.value.code in ("FLY-U541", "FLY-U542", "FLY-U543")


def test_vectors():
    x = torch.ones(4, 8, dtype=torch.float16)
    for kind in (torch.float16, torch.float32, torch.bfloat16):
        w = torch.arange(16).to(kind)
        _same_tensor(as_vector(w[:8], 8, x, "weight"), w[:8])
        _same_tensor(as_vector(torch.nn.Parameter(w[:8]), 8, x, "weight"), w[:8])
        apart = as_vector(w[::2], 8, x, "weight")
        assert apart.stride() == (1,)
        assert torch.equal(apart, w[::2])
    for other in (torch.ones(9), torch.ones(1, 8), torch.ones(8, dtype=torch.float64),
                  torch.ones(8, device="meta"), np.ones(8, np.float16)):  # fmt: skip
        with pytest.raises(FlyDSLError) as caught:
            as_vector(other, 8, x, "weight")
        assert caught.value.code in ("FLY-U541", "FLY-U542", "FLY-C902")


def test_what_lies_under_a_result_is_copied():
    random, copies = np.random.default_rng(), 0
    memory = torch.arange(200, dtype=torch.float32)
    for _ in range(2000):
        arrays = []
        for _ in range(4):
            rows, step = int(random.integers(1, 4)), int(random.choice((8, 8, 9, 16)))
            array = torch.as_strided(memory, (rows, 8), (step, 1), int(random.integers(0, 120)))
            arrays.append([array, None, array.numpy()][random.choice(3, p=(0.8, 0.1, 0.1))])
        results, sources = arrays[:2], arrays[2:]
        if random.random() < 0.3:
            sources[0] = results[0]
        in_place = bool(random.random() < 0.5)
        expected = apart_from(results, *sources, in_place=in_place)
        found = apart_rows(tuple(results), *sources, in_place=in_place)
        for source, one, other in zip(sources, found, expected, strict=True):
            assert (one is source) == (other is source)
            copies += one is not source
            assert one is None or np.array_equal(np.asarray(one), np.asarray(source))
    assert copies


def test_new_arrays_are_contiguous():
    for x in _tensors():
        _same_tensor(allocate_like(x), torch.empty(x.shape, dtype=x.dtype))
    _same_tensor(allocate_like(torch.ones(0, 8)), torch.empty(0, 8))


def test_problems_are_those_of_shape_and_type():
    for x in _tensors():
        kind = str(x.dtype).removeprefix("torch.")
        rows = x.numel() // x.shape[-1]
        for operands in (1, 2):
            assert problem_of(x, operands) == RowProblem(rows, x.shape[-1], kind, operands)
    with pytest.raises(FlyDSLError, match="an axis"):
        problem_of(torch.ones(()))
    for wrong in (torch.ones(4, 0), torch.ones(4, 8).double(), torch.ones(2, 200_000)):
        for _ in range(2):
            with pytest.raises(FlyDSLError):
                problem_of(wrong)


def test_equal_plans_are_one_object():
    first, second = RowProblem(32, 4096, "float16"), RowProblem(4096, 4096, "float16")
    assert select_rows(first) == select_rows(second)
    assert row_plan(first) is row_plan(second)
    assert norm_plan(first, False, True, False, 1e-6) is norm_plan(second, False, True, False, 1e-6)


@pytest.mark.parametrize("eps", [0.0, -0.0, 1.0, 1e-6])
def test_plans_are_those_of_their_arguments(eps):
    for kind in ("float32", "float16"):
        for rows in (3, 32):
            problem = RowProblem(rows, 8192, kind)
            row = select_rows(problem)
            for flags in ((False, False, False), (True, False, True), (False, True, False)):
                plan = norm_plan(problem, *flags, eps)
                assert plan == NormPlan(row, *flags, eps)
                assert plan.eps.hex() == float(eps).hex(), "minus zero is another constant"
                small = quant_plan(plan, 127.0, 0, False, *flags[1:])
                assert small == QuantPlan(plan, 127.0, 0, False, *flags[1:])
                assert small.norm.eps.hex() == plan.eps.hex()
            few = select_rows(problem, SOFTMAX_CHUNKS)
            assert row_plan(problem, SOFTMAX_CHUNKS) == few
            assert softmax_plan(few, True) == SoftmaxPlan(few, True)
            assert softmax_plan(few, False) == SoftmaxPlan(few, False)
