"""Gradients against float64, through PyTorch."""

# mypy: disable-error-code="name-defined,has-type"
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="gradients are taken by PyTorch")

import torch.nn.functional as F  # noqa: E402

from flydsl_kernels.norm import (  # noqa: E402
    QuantFormat,
    fused_add_layernorm,
    fused_add_rmsnorm,
    fused_add_rmsnorm_quantised,
    layernorm,
    layernorm_quantised,
    log_softmax,
    rmsnorm,
    softmax,
)
from flydsl_kernels.norm.ops.gradients import norm_gradients, softmax_gradient  # noqa: E402
from flydsl_kernels.norm.ops.normalise import Norm  # noqa: E402

U = 2.0**-24
DEPTH = 45
UNIT = {torch.float32: U, torch.float16: 2.0**-11, torch.bfloat16: 2.0**-8}
# In part of a wave, in a wave, in a workgroup, looped over, split among workgroups.
SHAPES = [(5, 7), (21, 65), (3, 1000), (17, 4104), (2, 33003), (3, 65603)]


def reference(name, x, other, w, b):
    """Return the results of an operation, by PyTorch in float64."""
    size = (x.shape[-1],)
    if name == "softmax":
        return (torch.softmax(x, -1),)
    if name == "log_softmax":
        return (torch.log_softmax(x, -1),)
    if name == "rmsnorm":
        return (F.rms_norm(x, size, w, 1e-5),)
    if name == "layernorm":
        return (F.layer_norm(x, size, w, b, 1e-5),)
    total = x + other
    if name == "fused_add_rmsnorm":
        return F.rms_norm(total, size, w, 1e-5), total
    return F.layer_norm(total, size, w, b, 1e-5), total


def ours(name, x, other, w, b):
    """Return the results of an operation of ours."""
    calls = {
        "softmax": lambda: (softmax(x),),
        "log_softmax": lambda: (log_softmax(x),),
        "rmsnorm": lambda: (rmsnorm(x, w, 1e-5),),
        "layernorm": lambda: (layernorm(x, w, b, 1e-5),),
        "fused_add_rmsnorm": lambda: fused_add_rmsnorm(x, other, w, 1e-5),
        "fused_add_layernorm": lambda: fused_add_layernorm(x, other, w, b, 1e-5),
    }
    return calls[name]()


NAMES = [
    "softmax", "log_softmax", "rmsnorm", "layernorm", "fused_add_rmsnorm", "fused_add_layernorm",
]  # fmt: skip


def compare(name, shape, dtype):
    """Compare all gradients of an operation with PyTorch's in float64.

    Bound: relative to the largest gradient of the row (of the column, for weights), since a
    gradient is a difference of terms of that size: 4 DEPTH u for the sums and products in f32, and
    for what passes through the element type (the result, the sum with a residual, the gradient)
    four times its unit roundoff.
    """
    # Values of bf16 on a grid whose sums are exact, so that both sides normalise the same sums.
    draw = lambda *s: (torch.randn(*s) * 8).round().clamp(-32, 32) / 16  # noqa: E731
    arrays = [draw(*shape).to(dtype) for _ in range(2)]
    arrays += [torch.randn(shape[1]) for _ in range(2)]
    narrow = [a.clone().requires_grad_() for a in arrays]
    wide = [a.double().requires_grad_() for a in arrays]
    results, expected = ours(name, *narrow), reference(name, *wide)
    incoming = [torch.randn(shape).to(dtype) for _ in results]
    torch.autograd.backward(results, incoming)
    torch.autograd.backward(expected, [g.double() for g in incoming])
    compared = 0
    for got, right in zip(narrow, wide, strict=True):
        if right.grad is None:
            assert got.grad is None
            continue
        assert got.grad.dtype == got.dtype
        unit = UNIT[dtype]
        scale = right.grad.abs().amax(-1, keepdim=True) + incoming[0].double().abs().max()
        bound = (4 * DEPTH * U + 4 * unit) * scale
        if got.dim() == 1 and dtype is torch.float32:
            bound = bound * shape[0]  # a sum over the rows of terms that large
        error = (got.grad.double() - right.grad).abs()
        assert bool((error <= bound).all()), float((error / bound).max())
        compared += 1
    assert compared == {"softmax": 1, "log_softmax": 1, "rmsnorm": 2, "layernorm": 3}.get(
        name, 3 + (name == "fused_add_layernorm")
    )


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_gradients(name, shape, gfx942):
    compare(name, shape, torch.float32 if shape[0] % 2 else torch.bfloat16)


@pytest.mark.nightly
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("dtype", UNIT, ids=str)
def test_gradients_of_many_shapes(dtype, target):
    for name in NAMES:
        for shape in [*SHAPES, (64, 256), (64, 2000), (16, 512), (9, 8192), (37, 3001), (2, 65536)]:
            compare(name, shape, dtype)


def test_gradients_of_a_constant_row_with_a_large_offset(gfx942):
    x = torch.full((2, 5000), 1e4, requires_grad=True)
    layernorm(x).backward(torch.randn(2, 5000))
    assert x.grad is not None
    assert bool(torch.isfinite(x.grad).all())


def test_gradcheck_by_differences(gfx942):
    """The directional derivative of the result agrees with the gradient.

    Central differences of a step h have an error of h² times the third derivative (about 1) and of
    u / h for the rounding of the results; h = 2^-7 makes both below 1e-4 for 40 elements.
    """
    torch.manual_seed(3)
    w, step = torch.randn(40), 2.0**-7
    for call in (softmax, log_softmax, lambda x: rmsnorm(x, w), lambda x: layernorm(x, w, w)):
        x = torch.randn(2, 40, requires_grad=True)
        way, cotangent = torch.randn(2, 40), torch.randn(2, 40)
        call(x).backward(cotangent)
        with torch.no_grad():
            ahead, behind = call(x + step * way), call(x - step * way)
        slope = ((ahead - behind).double() * cotangent).sum() / (2 * step)
        assert x.grad is not None
        assert abs(float(slope - (x.grad.double() * way).sum())) < 5e-3


def test_gradients_are_the_same_in_every_run(gfx942):
    x, w, g = torch.randn(40, 1000), torch.randn(1000), torch.randn(40, 1000)
    found = []
    for _ in range(2):
        a, b = x.clone().requires_grad_(), w.clone().requires_grad_()
        layernorm(a, b).backward(g)
        found.append((a.grad, b.grad))
    assert all(torch.equal(p, q) for p, q in zip(*found, strict=True))


def test_a_gradient_without_strides(gfx942):
    x = torch.randn(4, 100, requires_grad=True)
    rmsnorm(x).sum().backward()
    other = x.detach().double().requires_grad_()
    F.rms_norm(other, (100,), eps=1e-6).sum().backward()
    assert torch.allclose(x.grad.double(), other.grad, atol=1e-5)


def test_no_rows(gfx942):
    x, w = torch.zeros(0, 8, requires_grad=True), torch.ones(8, requires_grad=True)
    layernorm(x, w).sum().backward()
    assert torch.equal(w.grad, torch.zeros(8))


def test_operators_and_compiled_graphs(gfx942):
    x, w = torch.randn(3, 64, requires_grad=True), torch.randn(64)

    @torch.compile(fullgraph=True, backend="aot_eager")
    def program(x, w):
        y, total = fused_add_rmsnorm(x, x, w)
        return softmax(layernorm(y) + total).sum(), rmsnorm(x, w)

    _, y = program(x, w)
    assert torch.equal(y, rmsnorm(x, w))
    names = {"rmsnorm", "layernorm", "softmax", "add_norm", "norm_quantised", "add_norm_quantised"}
    assert names <= set(dir(torch.ops.flydsl_norm))
    operators = torch.ops.flydsl_norm
    for operator, arguments in (
        (operators.rmsnorm, (x, w, 1e-6)),
        (operators.layernorm, (x, w, None, 1e-6)),
        (operators.softmax, (x, True)),
        (operators.add_norm, (x, x.detach(), w, None, 1e-6, False)),
        (operators.norm_gradients, (x.detach(), w, w, x.detach(), 1e-6, True)),
        (operators.softmax_gradient, (x.detach(), x.detach(), False)),
        (operators.norm_quantised, (x, w, w, None, 1e-6, True, "int8/0/float32")),
    ):
        torch.library.opcheck(operator.default, arguments)
    # The fourth check adds up results, which PyTorch cannot for integers next to floats.
    checks = ("test_schema", "test_autograd_registration", "test_faketensor")
    arguments = (x, x.detach(), w, None, w, 1e-6, False, "int8/128/float32")
    torch.library.opcheck(operators.add_norm_quantised.default, arguments, test_utils=checks)


def test_quantised_operators_in_compiled_graphs(gfx942):
    """The same results as outside of a graph; gradients pass through the sum alone."""
    x, other, w = torch.randn(3, 200), torch.randn(3, 200, requires_grad=True), torch.randn(200)
    form = QuantFormat("float8_e4m3", 128, "float8_e8m0fnu")

    @torch.compile(fullgraph=True, backend="aot_eager")
    def program(x, other, w):
        small, scales, total = fused_add_rmsnorm_quantised(x, other, w, dtype=form, smooth=w)
        return (*layernorm_quantised(x, w, w), small, scales, total * 2)

    found = program(x, other, w)
    plain = other.detach()
    expected = [*layernorm_quantised(x, w, w)]
    expected += fused_add_rmsnorm_quantised(x, plain, w, dtype=form, smooth=w)
    for got, want in zip(found[:4], expected, strict=False):
        assert got.dtype == want.dtype
        assert torch.equal(got.view(torch.uint8), want.view(torch.uint8))
        assert not got.requires_grad
    found[4].sum().backward()
    assert torch.equal(other.grad, torch.full_like(plain, 2.0))


def test_outputs_and_tensors_that_need_no_gradient(gfx942):
    x = torch.randn(3, 64)
    out = torch.empty_like(x)
    assert rmsnorm(x, out=out) is out
    assert not rmsnorm(x).requires_grad
    assert torch.allclose(out, F.rms_norm(x, (64,), eps=1e-6), atol=1e-6)


def test_rows_beyond_two_gigabytes_of_stride(gfx942):
    """Offsets of rows are 64-bit: the last row starts beyond 2^32 bytes, without touching them."""
    columns, rows, stride = 256, 3, (1 << 30) + 8
    base = torch.empty(stride * (rows - 1) + columns, dtype=torch.bfloat16)
    x = base.as_strided((rows, columns), (stride, 1))
    x.copy_(torch.randn(rows, columns))
    near, wide = x.contiguous(), x.double()
    for call in (rmsnorm, layernorm, softmax, log_softmax):
        assert torch.equal(call(x), call(near))
    y = rmsnorm(x)
    wanted = F.rms_norm(wide, (columns,), eps=1e-6)
    assert bool(((y.double() - wanted).abs() <= 2.0**-7 * wanted.abs() + 1e-6).all())
    for kind in ("int8", QuantFormat("int8", 128)):
        found, plain = (layernorm_quantised(a, dtype=kind) for a in (x, near))
        assert torch.equal(found[0], plain[0])
        assert torch.equal(found[1], plain[1])
    gradients = (norm_gradients(a, None, None, a, Norm(True, 1e-5))[0] for a in (x, near))
    assert torch.equal(*gradients)
    assert torch.equal(softmax_gradient(x, x, True), softmax_gradient(near, near, True))
    # Written to, too.
    assert torch.equal(fused_add_rmsnorm(near, x, residual_out=x)[1], x)
    assert torch.equal(x, near + near)
