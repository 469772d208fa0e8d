"""What is looked up in repeated calls is what a first call computes."""

from __future__ import annotations

import numpy as np
import pytest

from flydsl.errors import FlyDSLError
from flydsl.ext import arrays as adapters
from flydsl_kernels.attention.arrays import as_rows, indices, layout_of, written_in_place
from flydsl_kernels.attention.ops.decode import _unit
from flydsl_kernels.attention.ops.flash_arguments import Extras, Keys, Sequences
from flydsl_kernels.attention.ops.forward import prepared, problem_of, shapes_of
from flydsl_kernels.attention.ops.rotation import planned, token_heads
from flydsl_kernels.attention.rotary import plan_rotation

torch = pytest.importorskip("torch")


def _tensors(rank, kind=torch.float16, count=300):
    """Yield tensors of the same extents and other strides and places, in random order."""
    random = np.random.default_rng()
    memory = torch.arange(20000, dtype=torch.float32).remainder(2048).to(kind)
    for _ in range(count):
        shape = [int(n) for n in random.choice((1, 2, 3), rank - 1)] + [int(random.choice((8, 16)))]
        steps, step = [], 1
        for extent in reversed(shape):
            steps.insert(0, step if random.random() < 0.8 else step + int(random.choice((4, 8))))
            step *= extent
        if random.random() < 0.2:
            steps[int(random.integers(rank - 1))] = 0
        yield torch.as_strided(memory, shape, steps, int(random.choice((0, 1, 4, 8))))


def _readable(x):
    """Whether kernels can read rows where they are, from the words of `as_rows`."""
    step = x.stride()
    return (
        step[-1] == 1
        and all(s % 8 == 0 for s in step[:-1])
        and all(s >= x.shape[-1] for s in step[1:-1])
        and x.data_ptr() % (8 * x.itemsize) == 0
    )


def test_rows_are_copied_where_they_cannot_be_read():
    seen = set()
    for x in _tensors(4):
        for given in (x, torch.nn.Parameter(x, requires_grad=bool(x.shape[0] > 1))):
            rows = as_rows(given)
            assert not rows.requires_grad
            assert torch.equal(rows, x)
            in_place = rows.data_ptr() == x.data_ptr() and rows.stride() == x.stride()
            assert in_place or not _readable(x)
            assert _readable(rows) or rows.is_contiguous()
            seen.add(in_place)
        stored = x.stride()[-1] == 1 and all(s % 4 == 0 for s in x.stride()[:-1])
        assert written_in_place(x) == (stored and x.data_ptr() % (4 * x.itemsize) == 0)
        assert written_in_place(x.numpy()) == written_in_place(x)
    assert seen == {True, False}


def test_layouts_are_of_tensors_that_are_read_as_they_are():
    for x in _tensors(3):
        known = layout_of(x)
        assert known is not None
        assert known.standard == (x.stride() == torch.empty(x.shape).stride())
        assert layout_of(x.detach().requires_grad_()) is None
        assert layout_of(x.numpy()) is None
    assert layout_of(torch.ones(())) is None
    assert not layout_of(torch.ones(0, 8)).standard


def test_indices():
    like = torch.ones(3)
    good = torch.arange(6, dtype=torch.int32)
    assert indices(good, (6,), like, "it") is good
    assert indices(good, (-1,), like, "it") is good
    assert indices(good.reshape(2, 3), (2, -1), like, "it").shape == (2, 3)
    apart = indices(good[::2], (3,), like, "it")
    assert apart.is_contiguous()
    assert apart.tolist() == [0, 2, 4]
    for wrong in (good[:5], good.long(), good[None], good.numpy(), good.to("meta")):
        with pytest.raises(FlyDSLError) as caught:
            indices(wrong, (6,), like, "it")
        assert caught.value.code in ("FLY-U541", "FLY-U542", "FLY-U543")


def test_heads_of_tokens_are_those_of_a_view():
    for rank in (2, 3, 4):
        for x in _tensors(rank, torch.float32):
            merged = x.reshape(-1, *x.shape[-2:])
            heads = token_heads(x, "x")
            expected = merged if merged.stride()[-1] == 1 else merged.contiguous()
            assert (heads.shape, heads.stride()) == (expected.shape, expected.stride())
            assert torch.equal(heads, merged)
            try:
                written = token_heads(x, "out", written=True)
            except FlyDSLError:
                continue
            assert written.data_ptr() == x.data_ptr()


def test_plans_of_rotations_are_those_of_all_distances():
    for x, y in zip(_tensors(3, torch.float32), _tensors(3), strict=True):
        if x.shape[-1] != y.shape[-1]:
            continue
        wide = x.shape[-1]
        tables = torch.ones(4, wide // 2), torch.ones(4, wide // 2), None, wide, False
        distances = []
        for array in (x, y, *tables[:2]):
            distances += [*array.stride()[:-1], array.data_ptr() // array.itemsize]
        for style in ("neox", "gptj"):
            expected = plan_rotation(wide, wide, style, distances=distances, itemsize=4,
                                     whole_table=False, positions=False)  # fmt: skip
            assert planned((x, y), tables, style) == expected
            assert planned((x, y), tables, style) is planned((x, y), tables, style)


@pytest.mark.parametrize("number", [1, 0.1, -0.0, 1e-46, 3.4028234e38, 1e39, -1e39])
def test_units(number):
    like, expected = torch.ones(1), torch.zeros(1) + float(number)
    assert _unit(float(number), like).numpy().tobytes() == expected.numpy().tobytes()
    assert adapters.dtype_name(_unit(float(number), like)) == "float32"


def _call(kind, heads=4, keys=9, **options):
    q = torch.ones(2, 5, heads, 32, dtype=kind)
    k = torch.ones(2, keys, 2, 32, dtype=kind)
    given = Sequences(), Keys(num_splits=options.pop("splits", 1)), Extras(**options)
    shapes = shapes_of((q, k, k), *given[:2])
    return shapes, lambda lse=False: problem_of(q, shapes, *given, lse)


def test_problems_are_told_apart_by_all_that_decides():
    first, made = _call(torch.float16)
    again, other = _call(torch.float16)
    assert first is again
    assert made() is other()
    longer, third = _call(torch.float16, keys=10)
    assert (first.keys, longer.keys) == (9, 10)
    assert third() is made(), "how many keys there are is known when it runs"
    others = [
        _call(torch.bfloat16), _call(torch.float16, heads=2), _call(torch.float16, causal=True),
        _call(torch.float16, window=(3, None)), _call(torch.float16, splits=2),
    ]  # fmt: skip
    assert len({made(), *(problem() for _, problem in others)}) == len(others) + 1
    assert made(True) != made(False)
    for truth in (True, np.True_, True):
        assert type(made(truth).lse) is type(truth), "other types are other compile-time values"


def test_numbers_of_a_call_are_not_those_of_another():
    q, k = torch.ones(1, 5, 2, 32).half(), torch.ones(1, 9, 2, 32).half()
    for scale, window in ((None, (None, None)), (0.5, (2, 1)), (1, (0, 0)), (None, (2, None))):
        extras = Extras(softmax_scale=scale, window=window)
        _, options = prepared((q, k, k), Sequences(), Keys(), extras)
        given = options.given
        assert given["scale"] == pytest.approx((scale or 32**-0.5) / np.log(2))
        assert (given["left"], given["right"]) == tuple(side or 0 for side in window)
