"""How rows are divided among threads."""

from __future__ import annotations

import pytest

from flydsl.errors import ConfigError
from flydsl_kernels.norm.problem import ELEMENT_BYTES, MAX_COLUMNS, RowProblem
from flydsl_kernels.norm.selection import (
    FEW_CHUNKS,
    MAX_CHUNKS,
    SOFTMAX_CHUNKS,
    select_columns,
    select_rows,
)

SIZES = [*range(1, 300), 511, 512, 513, 1000, 2047, 4104, 8192, 20000, 32768, 65536, 65537, 131072]


@pytest.mark.parametrize("dtype", ELEMENT_BYTES)
@pytest.mark.parametrize("operands", [1, 2])
@pytest.mark.parametrize("few", [FEW_CHUNKS, SOFTMAX_CHUNKS])
@pytest.mark.parametrize("rows", [5, 64])
def test_every_element_belongs_to_exactly_one_thread(dtype, operands, few, rows):
    for columns in SIZES:
        plan = select_rows(RowProblem(rows, columns, dtype, operands), few)
        full, rest = divmod(columns, plan.vector)
        assert plan.vector * ELEMENT_BYTES[dtype] == 16
        assert plan.block % plan.lanes == 0
        assert plan.block <= 1024
        assert plan.lanes % plan.span == 0
        assert plan.span & (plan.span - 1) == 0, "groups of lanes exchange by shuffles"
        assert plan.tail == (rest > 0)
        assert rest <= plan.lanes, "every element of the tail has a lane"
        if not plan.looped:
            # The places of `device.rows.own_share` and `Share.index`.
            found = sorted(
                lane // plan.span * plan.span * plan.chunks + lane % plan.span + chunk * plan.span
                for lane in range(plan.lanes)
                for chunk in range(plan.chunks)
            )
            assert found == list(range(plan.lanes * plan.chunks)), "each place once"
            assert len(found) >= full
            assert not plan.whole or len(found) == full, "unmasked loads stay within the row"
            assert plan.chunks <= (MAX_CHUNKS if operands == 1 else FEW_CHUNKS)
        assert not (plan.whole and rows % plan.rows), "rows past the last are masked"


def test_few_plans_serve_all_sizes():
    """The number of columns is no part of a plan, so that few kernels are compiled."""
    plans = {select_rows(RowProblem(64, n, "bfloat16")) for n in range(1, MAX_COLUMNS + 1, 7)}
    assert len(plans) < 160


def test_all_rows_that_are_looped_over_have_the_same_code():
    """Compiling takes as long for the longest rows as for the shortest of them."""
    sizes = range(57344 + 8, MAX_COLUMNS + 1, 8)
    assert len({select_rows(RowProblem(64, n, "bfloat16")) for n in sizes}) == 1


def test_rows_beyond_the_registers_are_looped_over():
    assert not select_rows(RowProblem(64, 57344, "bfloat16")).looped
    assert select_rows(RowProblem(64, 57344 + 8, "bfloat16")).looped
    assert not select_rows(RowProblem(64, 28672, "float32")).looped
    assert select_rows(RowProblem(64, 28672 + 4, "float32")).looped


def test_few_long_rows_are_split_among_workgroups():
    assert select_rows(RowProblem(1, 65536 - 8, "bfloat16")).splits == 1
    assert select_rows(RowProblem(17, MAX_COLUMNS, "float32")).splits == 1
    for columns, dtype, splits in (
        (65536, "bfloat16", 4),
        (MAX_COLUMNS, "float16", 8),
        (MAX_COLUMNS - 1, "float32", 8),
        (MAX_COLUMNS, "float32", 16),
    ):
        plan = select_rows(RowProblem(16, columns, dtype))
        assert plan.splits == splits
        assert plan.looped
        # The parts of `device.rows`: the last one still has a vector for every thread.
        full = columns // plan.vector
        size = -(-full // (splits * 32)) * 32
        assert 0 <= full - size * (splits - 1) <= size
        assert full - size * (splits - 1) >= plan.lanes


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
