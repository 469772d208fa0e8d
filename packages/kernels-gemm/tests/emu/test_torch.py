"""PyTorch tensors, gradients and compiled functions."""

from __future__ import annotations

import pytest

from flydsl.errors import UserError, UserTypeError, UserValueError
from flydsl_kernels.gemm import gemm, grouped_gemm, preshuffle_b

torch = pytest.importorskip("torch")

GELU = {"approximate": "tanh"}


def check(got, expected, unit):
    """Compare with float64 relative to the largest element: sums of 40 products in f32."""
    scale = expected.abs().max()
    assert ((got.double() - expected).abs() <= (unit + 64 * 2.0**-24) * scale).all()


@pytest.mark.parametrize(
    "layout",
    [pytest.param("nn", marks=pytest.mark.nightly), "nt", "tn",
     pytest.param("tt", marks=pytest.mark.nightly)],
)  # fmt: skip
def test_gradients(layout, gfx942):
    """Gradients in bfloat16, from a result's gradient that is rounded to it: 2^-8 twice."""
    a = torch.randn(33, 40, dtype=torch.bfloat16)
    b = torch.randn(40, 24, dtype=torch.bfloat16)
    a = a if layout[0] == "n" else a.t().contiguous()
    b = b if layout[1] == "n" else b.t().contiguous()
    given = [t.requires_grad_() for t in (a, b, torch.randn(24), torch.randn(33, 24))]
    wide = [t.detach().double().requires_grad_() for t in given]

    def reference(a, b, bias, residual):
        x = (a if layout[0] == "n" else a.t()) @ (b if layout[1] == "n" else b.t()) + bias
        return torch.nn.functional.gelu(x, **GELU) + residual

    y = gemm(given[0], given[1], bias=given[2], residual=given[3], activation="gelu",
             layout=layout, out_dtype="float32")  # fmt: skip
    expected = reference(*wide)
    check(y, expected, 2.0**-20)
    gradient = torch.randn_like(y)
    found = torch.autograd.grad(y, given, gradient)
    wanted = torch.autograd.grad(expected, wide, gradient.double())
    for got, right in zip(found, wanted, strict=True):
        check(got, right, 2.0**-7)


def test_gradients_of_batches(gfx942):
    x = torch.randn(3, 5, 64, dtype=torch.float16, requires_grad=True)
    w = torch.randn(16, 64, dtype=torch.float16, requires_grad=True)
    y = gemm(x, w)
    y.backward(torch.ones_like(y))
    wide_x, wide_w = x.detach().double(), w.detach().double()
    check(x.grad, wide_w.sum(0).expand(3, 5, 64), 2.0**-10)
    check(w.grad, wide_x.sum((0, 1)).expand(16, 64), 2.0**-10)


def test_compiled_without_a_break(gfx942):
    x, w = torch.randn(5, 64, dtype=torch.float16), torch.randn(16, 64, dtype=torch.float16)
    compiled = torch.compile(
        lambda x, w: gemm(x, w, activation="relu") * 2, fullgraph=True, backend="aot_eager"
    )
    expected = (x.double() @ w.double().t()).relu() * 2
    check(compiled(x, w), expected, 2.0**-10)


def test_eight_bit_tensors(gfx942):
    x = torch.randn(5, 64).to(torch.float8_e4m3fnuz)
    w = torch.randn(16, 64).to(torch.float8_e4m3fnuz)
    scale = torch.full((1,), 0.5)
    y = gemm(x, w, scale_a=scale, scale_b=torch.ones(16), out_dtype="float32")
    check(y, 0.5 * (x.double() @ w.double().t()), 2.0**-20)
    assert gemm(x, w, out_dtype="float8_e4m3fnuz").dtype is torch.float8_e4m3fnuz


def test_tensors_of_several_devices_are_refused(gfx942):
    x, w = torch.randn(5, 64).half(), torch.randn(16, 64).half()
    with pytest.raises(UserTypeError, match="another device"):
        gemm(x, w.to("meta"))
    with pytest.raises(UserTypeError, match="another array library"):
        gemm(x, w.numpy())


def test_gradients_through_scales_are_refused(gfx942):
    x = torch.randn(5, 64, dtype=torch.float16, requires_grad=True)
    with pytest.raises(UserValueError, match="no gradient"):
        gemm(x, torch.randn(16, 64, dtype=torch.float16), scale_a=torch.ones(1))


def test_gradients_that_there_are_not_are_refused(gfx942):
    x = torch.randn(16, 64, dtype=torch.float16, requires_grad=True)
    w, ends = torch.randn(16, 64, dtype=torch.float16), torch.tensor([16], dtype=torch.int32)
    for call in (lambda: gemm(x, preshuffle_b(w)), lambda: grouped_gemm(x, w[None], ends)):
        with pytest.raises(UserValueError, match="no gradient") as caught:
            call()
        assert caught.value.code == "FLY-U914"
        with torch.no_grad():
            assert call().shape == (16, 16)


@pytest.mark.parametrize("name", ["scale_a", "scale_b", "bias", "residual"])
def test_gradients_of_other_arguments_would_be_lost(name, gfx942):
    x, w = (torch.randn(16, 64).to(torch.float8_e4m3fnuz) for _ in range(2))
    ends, weight = torch.tensor([16], dtype=torch.int32), preshuffle_b(w)
    shape = (16, 16) if name == "residual" else (1,) if name.startswith("scale") else (16,)
    wanted = torch.ones(shape, requires_grad=True)
    dense = {name: wanted}
    grouped = {name: wanted[None] if name == "bias" else wanted}
    for call in (
        lambda: gemm(x, weight, **dense), lambda: grouped_gemm(x, w[None], ends, **grouped),
    ):  # fmt: skip
        with pytest.raises(UserValueError, match="no gradient") as caught:
            call()
        assert (caught.value.code, caught.value.value) == ("FLY-U914", name)
        with torch.no_grad():
            assert call().shape == (16, 16)


def test_shapes_are_followed_and_transformations_refused(gfx942):
    x, w = torch.randn(5, 64).half(), torch.randn(16, 64).half()
    meta = gemm(x.to("meta"), w.to("meta"), scale_a=2.0, out_dtype=torch.float32)
    assert (meta.shape, meta.dtype, meta.device.type) == ((5, 16), torch.float32, "meta")
    wide = torch.ones(5, 16, device="meta")
    for call in (
        lambda: torch.vmap(lambda row: gemm(row[None], w))(x), lambda: gemm(x.to_sparse(), w),
        lambda: torch.func.grad(lambda t: gemm(t, w).sum())(x),
        lambda: gemm(x.to("meta"), w.to("meta"), out=wide),
        lambda: gemm(x, w, bias=torch.ones(16).to_sparse()),
    ):  # fmt: skip
        with pytest.raises(UserError, match="FLY-U547"):
            call()


def test_compiled_with_a_number_as_a_scale(gfx942):
    x, w = torch.randn(5, 64).half(), torch.randn(16, 64).half()
    compiled = torch.compile(
        lambda x, w: gemm(x, w, scale_a=2.0, out_dtype=torch.float32), fullgraph=True,
        backend="aot_eager",
    )  # fmt: skip
    assert torch.equal(compiled(x, w), 2 * gemm(x, w, out_dtype="float32"))
