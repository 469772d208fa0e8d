"""Every public function in PyTorch's graphs: compiled as a whole, and exported."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch", reason="these are graphs of PyTorch")

from flydsl import config
from flydsl.errors import UserError
from flydsl.testing.graphs import check_graphs
from flydsl_kernels import moe

pytestmark = pytest.mark.usefixtures("gfx942")
RNG = np.random.default_rng(31)


def numbers(*shape, dtype=np.float16):
    return RNG.standard_normal(shape).astype(dtype)


X, HIDDEN = numbers(4, 64), numbers(8, 32)
IDS = RNG.integers(0, 4, (4, 2)).astype(np.int32)
ROUTES = np.abs(numbers(4, 2, dtype=np.float32))


@pytest.fixture(scope="module")
def parts():
    with config.scope(FLYDSL_TARGET="gfx942"):
        first = moe.prepare_experts(numbers(4, 64, 64), format="f16", gated=True)
        second = moe.prepare_experts(numbers(4, 64, 32), format="f16")
        return first, second, moe.moe_sort(IDS, ROUTES, 4, unit=16)


@pytest.mark.parametrize("atomic", [False, True])
def test_layers_in_graphs(parts, atomic):
    first, second, _ = parts
    out = {} if atomic else {"out": X.copy()}
    check_graphs(
        moe.fused_moe, x=X, w1=first, w2=second, topk_weights=ROUTES, topk_ids=IDS, unit=16,
        activation=moe.Activation("silu", 2.0), atomic=atomic, **out,
    )  # fmt: skip


def test_products_of_experts_in_graphs(parts):
    first, second, order = parts
    given = {"x": X, "weights": first, "sorting": order, "weighted": True}
    check_graphs(moe.moe_gemm1, **given, out=np.zeros((4, 2, 32), np.float32))
    given = {"h": HIDDEN, "weights": second, "sorting": order}
    check_graphs(moe.moe_gemm2, **given, out=X.copy())
    check_graphs(moe.moe_gemm2, **given, atomic=True, out=np.zeros((4, 64), np.float32))
    check_graphs(moe.moe_gemm2, **given, reduce=False, dtype="bfloat16")


def test_routing_in_graphs(parts):
    *_, order = parts
    logits = numbers(4, 8, dtype=np.float32)
    check_graphs(moe.topk_gating, logits=logits, k=2, scale=1.5, out=(ROUTES.copy(), IDS.copy()))
    count = np.array([3], np.int32)
    check_graphs(moe.moe_sort, ids=IDS, weights=ROUTES, experts=4, unit=16, num_tokens=count)
    entries = numbers(int(order.ids.shape[0]), 64)
    check_graphs(moe.moe_permute, x=X, sorting=order, out=entries.copy())
    check_graphs(moe.moe_unpermute, rows=entries, sorting=order, weights=ROUTES, out=X.copy())
    check_graphs(moe.moe_reduce, rows=numbers(4, 2, 64), weights=ROUTES, out=X.copy())


@pytest.mark.parametrize("form", ["int8", "fp8_block"])
def test_quantising_in_graphs(form):
    check_graphs(moe.moe_quantise, x=numbers(4, 64), format=form, dtype="float8_e4m3fnuz")


def test_weights_are_prepared_in_graphs():
    check_graphs(moe.prepare_experts, w=numbers(2, 64, 64), format="f16")


def test_what_is_wrong_with_an_output_in_a_graph():
    import torch

    rows = torch.from_numpy(numbers(4, 2, 64))
    # The tracer stops at the error, and the call itself raises it.
    with pytest.raises(UserError, match=r"^out has another shape.*FLY-U542") as caught:
        torch.compile(moe.moe_reduce, backend="eager")(rows, out=torch.empty(4, 32))
    assert caught.value.location.file == __file__
    # What the graph cannot write, a call outside of it does.
    out, wanted = torch.empty(4, 64), torch.empty(4, 64)
    torch.compile(moe.moe_reduce, backend="eager")(rows, out=out)
    assert torch.equal(out, moe.moe_reduce(rows, out=wanted))
