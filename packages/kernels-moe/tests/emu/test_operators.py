"""The operations as operators of PyTorch, and PyTorch tensors as arguments."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("flydsl_emu")

from flydsl import config  # noqa: E402
from flydsl_kernels.moe import moe_reduce, moe_sort, topk_gating  # noqa: E402
from flydsl_kernels.moe.ops import operators  # noqa: E402


@pytest.fixture(autouse=True)
def target():
    with config.scope(FLYDSL_TARGET="gfx942"):
        yield


def test_operators_match_their_fakes():
    logits = torch.randn(5, 16)
    ids = torch.randint(0, 16, (5, 3), dtype=torch.int32)
    weights = torch.rand(5, 3)
    checks = "test_schema", "test_faketensor"
    options = logits, None, 3, "softmax", True, [1, 1], 1.0
    torch.library.opcheck(operators.gating_operator, options, test_utils=checks)
    given = ids, weights, 16, 8, torch.ones(16, dtype=torch.int32)
    torch.library.opcheck(operators.sort_operator, given, test_utils=checks)
    rows = torch.randn(5, 3, 40)
    torch.library.opcheck(operators.reduce_operator, (rows, None, weights), test_utils=checks)


def test_tensors_give_what_arrays_give():
    logits = torch.randn(9, 32, dtype=torch.bfloat16)
    weights, ids = topk_gating(logits, 4)
    plain = topk_gating(logits.float().numpy(), 4)
    assert torch.equal(weights, torch.from_numpy(plain[0]))
    assert torch.equal(ids, torch.from_numpy(plain[1]))
    order, other = moe_sort(ids, weights, 32, unit=8), moe_sort(plain[1], plain[0], 32, unit=8)
    for name in ("ids", "weights", "experts", "valid", "places"):
        assert torch.equal(getattr(order, name), torch.from_numpy(getattr(other, name)))
    rows = torch.randn(9, 4, 24, dtype=torch.bfloat16)
    expected = rows.double().sum(1)
    assert (moe_reduce(rows).double() - expected).abs().max() < 2**-7 * expected.abs().max()
