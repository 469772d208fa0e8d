"""Launchers and functions as operators of PyTorch."""

# mypy: disable-error-code="name-defined,has-type"
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="these are operators of PyTorch")

import flydsl.compiler as flyc  # noqa: E402
import flydsl.expr as fx  # noqa: E402
from flydsl import config  # noqa: E402
from flydsl.errors import UserError  # noqa: E402
from flydsl.ext.torch_ops import launcher_op, register_op  # noqa: E402


@flyc.kernel
def scale_kernel(A: fx.Tensor, C: fx.Tensor, n: fx.Int32, factor: fx.Float32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        C[i] = A[i] * factor


@flyc.jit
def scale(
    A: fx.Tensor,
    C: fx.Tensor,
    n: fx.Int32,
    factor: fx.Float32,
    block: fx.Constexpr[int],
    stream: fx.Stream,
):
    grid = ((n + block - 1) // block,)
    scale_kernel(A, C, n, factor).launch(grid=grid, block=(block,), stream=stream)


scale_op = launcher_op("flydsl_test::scale", scale, mutates=["C"])


def scaled(x: torch.Tensor, factor: float) -> torch.Tensor:
    """Return x * factor."""
    out = torch.empty_like(x)
    scale(x.flatten(), out.view(-1), x.numel(), factor, 64, None)
    return out


def save_factor(ctx, inputs, output):
    ctx.factor = inputs[1]


scaled_op = register_op(
    "flydsl_test::scaled",
    scaled,
    fake=lambda x, _: torch.empty_like(x),
    save=save_factor,
    backward=lambda ctx, gradient: (scaled_op(gradient.contiguous(), ctx.factor), None),
)


@pytest.fixture(autouse=True)
def target():
    with config.scope(FLYDSL_TARGET="gfx942"):
        yield


def compiled(function):
    return torch.compile(function, fullgraph=True, backend="aot_eager")


def test_a_launcher_operator_writes_to_its_argument():
    a, c = torch.arange(100.0), torch.zeros(100)
    assert torch.ops.flydsl_test.scale(a, c, 100, 3.0, 64) is None
    assert torch.equal(c, a * 3)
    schema = str(torch.ops.flydsl_test.scale.default._schema)
    assert schema == (
        "flydsl_test::scale(Tensor A, Tensor(a1!) C, SymInt n, float factor, SymInt block) -> ()"
    )


def test_a_launcher_operator_is_one_call_of_a_compiled_graph():
    def program(a):
        out = torch.zeros_like(a)
        scale_op(a + 1, out, a.shape[0], 2.0, 64)
        return out.sum() + out[0]

    a = torch.arange(70.0)
    assert torch.equal(compiled(program)(a), program(a))
    exported = torch.export.export(_Module(program), (a,))
    calls = [node for node in exported.graph.nodes if "flydsl_test" in str(node.target)]
    assert len(calls) == 1
    assert torch.equal(exported.module()(a), program(a))


class _Module(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *arguments):
        return self.function(*arguments)


def test_sizes_may_be_dynamic():
    def program(a):
        out = torch.zeros_like(a)
        scale_op(a, out, a.shape[0], 2.0, 64)
        return out

    run = torch.compile(program, fullgraph=True, backend="aot_eager", dynamic=True)
    for n in (5, 64, 130):
        a = torch.arange(float(n))
        assert torch.equal(run(a), 2 * a)


@flyc.kernel
def add_kernel(A: fx.Tensor, B: fx.Tensor | None, C: fx.Tensor | None, s: fx.Float32 | None):
    i = fx.thread_idx.x
    total = A[i]
    if B is not None:
        total = total + B[i]
    if s is not None:
        total = total * s
    if C is not None:
        C[i] = total
    else:
        A[i] = total


@flyc.jit
def add(A: fx.Tensor, B: fx.Tensor | None, C: fx.Tensor | None, s: fx.Float32 | None):
    add_kernel(A, B, C, s).launch(grid=1, block=64)


def test_parameters_that_may_be_none():
    operator = launcher_op("flydsl_test::add", add, mutates=["A", "C"])
    assert str(torch.ops.flydsl_test.add.default._schema) == (
        "flydsl_test::add(Tensor(a0!) A, Tensor? B, Tensor(a2!)? C, float? s) -> ()"
    )
    a, b = torch.arange(64.0), torch.ones(64)
    for call in (operator, compiled(operator)):
        c, other = torch.zeros(64), a.clone()
        call(a, b, c, 2.0)
        assert torch.equal(c, 2 * (a + 1))
        call(a, None, c, None)
        assert torch.equal(c, a)
        call(other, b, None, None)
        assert torch.equal(other, a + 1)


def test_operators_keep_what_pytorch_asks_of_them():
    x = torch.randn(20, dtype=torch.float32)
    torch.library.opcheck(scale_op, (x, torch.zeros(20), 20, 1.5, 64))
    torch.library.opcheck(scaled_op, (x.requires_grad_(), 1.5))


def test_gradients():
    x = torch.randn(30, requires_grad=True)
    (scaled_op(x, 3.0) * torch.arange(30.0)).sum().backward()
    assert torch.equal(x.grad, 3 * torch.arange(30.0))
    eager = x.grad.clone()
    x.grad = None
    compiled(lambda x: (scaled_op(x, 3.0) * torch.arange(30.0)).sum())(x).backward()
    assert torch.equal(x.grad, eager)


def written(x: torch.Tensor, out: torch.Tensor) -> None:
    """Write 2 * x to out."""
    scale(x, out, x.numel(), 2.0, 64, None)


written_op = register_op("flydsl_test::written", written, fake=lambda *_: None, mutates=["out"])


def call_scale(a, c):
    scale_op(a, c, 20, 2.0, 64)
    return c * 1


def call_written(a, c):
    written_op(a, c)
    return c * 1


@pytest.mark.parametrize("program", [call_scale, call_written])
@pytest.mark.parametrize("in_graph", [False, True])
@pytest.mark.parametrize("argument", [0, 1])
def test_a_gradient_is_not_lost_silently(program, in_graph, argument):
    torch.compiler.reset()
    call = compiled(program) if in_graph else program
    given = [torch.arange(20.0), torch.zeros(20)]
    given[argument].requires_grad_()
    name = ("A", "C")[argument] if program is call_scale else ("x", "out")[argument]
    refusal = rf"no gradient would reach {name}: detach them, or use torch.no_grad\(\)"
    with pytest.raises(Exception, match=refusal) as caught:
        call(*given)
    if not in_graph:
        assert isinstance(caught.value, UserError)
        assert caught.value.code == "FLY-U550"
        assert "register_op, which takes backward=" in str(caught.value)
    assert not given[1].detach().any()
    with torch.no_grad():
        call(*given)
    assert torch.equal(given[1].detach(), 2 * torch.arange(20.0))
    version = given[1]._version
    call(given[0].detach(), given[1].detach())
    assert given[1]._version > version
    assert torch.equal(given[1].detach(), 2 * torch.arange(20.0))


@pytest.mark.parametrize("mutates", [[], ["A"]])
def test_a_write_that_the_schema_hides_is_refused(mutates):
    name = f"flydsl_test::hidden{len(mutates)}"
    operator = launcher_op(name, scale, mutates=mutates)
    c = torch.zeros(4)
    with pytest.raises(UserError, match="writes to 'C', which mutates= does not name") as caught:
        operator(torch.ones(4), c, 4, 1.0, 64)
    assert "C[i] = A[i] * factor" in str(caught.value)
    assert not c.any()


@pytest.mark.parametrize("name", ["plain", "a::b::c", "::b", "a::", "a b::c", None])
def test_names_are_checked(name):
    with pytest.raises(UserError, match="namespace::name"):
        launcher_op(name, scale, mutates=["C"])


def test_wrong_use_is_explained():
    with pytest.raises(UserError, match="cannot write to 'n'"):
        launcher_op("flydsl_test::a", scale, mutates=["n"])
    with pytest.raises(UserError, match="decorated with"):
        launcher_op("flydsl_test::b", scaled, mutates=[])
    with pytest.raises(UserError, match="backward pass that it does not have"):
        register_op("flydsl_test::c", scaled, fake=scaled, save=lambda *_: None)

    with pytest.raises(UserError, match="differentiates no such operator"):
        register_op(
            "flydsl_test::f", written, fake=written, mutates=["out"], backward=lambda *_: None
        )

    def untyped(x):
        return x

    with pytest.raises(UserError, match="annotate every parameter"):
        register_op("flydsl_test::d", untyped, fake=untyped)

    @flyc.jit
    def unannotated(A: fx.Tensor, n):
        scale_kernel(A, A, n, 1.0).launch(grid=1, block=64)

    with pytest.raises(UserError, match="'n' of flydsl_test::e has no type"):
        launcher_op("flydsl_test::e", unannotated, mutates=["A"])
