"""How rows are divided among threads."""

from __future__ import annotations

import pytest

from flydsl.errors import ConfigError
from flydsl_kernels.norm.problem import ELEMENT_BYTES, MAX_COLUMNS, RowProblem
from flydsl_kernels.norm.selection import MAX_CHUNKS, select_columns, select_rows

SIZES = [*range(1, 300), 511, 512, 513, 1000, 2047, 4104, 8192, 20000, 32768, 65536, 65537, 131072]


@pytest.mark.parametrize("dtype", ELEMENT_BYTES)
@pytest.mark.parametrize("operands", [1, 2])
def test_every_element_belongs_to_exactly_one_thread(dtype, operands):
    for columns in SIZES:
        plan = select_rows(RowProblem(5, columns, dtype, operands))
        full, rest = divmod(columns, plan.vector)
        assert plan.vector * ELEMENT_BYTES[dtype] == 16
        assert plan.block % plan.lanes == 0
        assert plan.block <= 1024
        assert plan.lanes & (plan.lanes - 1) == 0
        assert plan.tail == (rest > 0)
        assert rest <= plan.lanes, "every element of the tail has a lane"
        if not plan.looped:
            assert (plan.chunks - 1) * plan.lanes < full <= plan.chunks * plan.lanes or full == 0
            assert plan.whole * plan.lanes <= full, "unmasked loads stay within the row"
            assert plan.chunks * operands <= MAX_CHUNKS
        assert not (plan.rows > 1 and plan.whole and 5 % plan.rows), "rows past the last are masked"


def test_few_plans_serve_all_sizes():
    """The number of columns is no part of a plan, so that few kernels are compiled."""
    plans = {select_rows(RowProblem(64, n, "bfloat16")) for n in range(1, MAX_COLUMNS + 1, 7)}
    assert len(plans) < 80


def test_rows_beyond_the_registers_are_looped_over():
    assert not select_rows(RowProblem(1, 65536, "bfloat16")).looped
    assert select_rows(RowProblem(1, 65536 + 8, "bfloat16")).looped
    assert not select_rows(RowProblem(1, 32768, "float32")).looped
    assert select_rows(RowProblem(1, 32768 + 4, "float32")).looped


def test_slabs_of_the_sums_over_rows():
    for rows in (1, 7, 64, 4096, 1 << 20):
        for columns in (1, 1000, 8192, MAX_COLUMNS):
            plan = select_columns(RowProblem(rows, columns, "float16"), True, False)
            assert 1 <= plan.slabs <= max(1, rows // 4)
            assert plan.slabs <= 512


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((1, 0, "float32"), "FLY-C900"),
        ((1, MAX_COLUMNS + 1, "float32"), "FLY-C900"),
        ((1 << 31, 8, "float32"), "FLY-C901"),
        ((1, 8, "float64"), "FLY-C902"),
        ((1, 8, "int8"), "FLY-C902"),
    ],
)
def test_problems_out_of_range_are_refused(arguments, code):
    with pytest.raises(ConfigError) as error:
        RowProblem(*arguments)
    assert error.value.code == code
    assert error.value.allowed
