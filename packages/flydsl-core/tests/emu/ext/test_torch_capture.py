"""Launchers called in functions that PyTorch captures: the graph ends before them."""

from __future__ import annotations

import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx

torch = pytest.importorskip("torch")


@flyc.kernel
def double(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x
    if i < n:
        Y[i] = X[i] * 2.0


def fresh_launcher():
    @flyc.jit
    def launch(X: fx.Tensor, Y: fx.Tensor, n: fx.Int32):
        double(X, Y, n).launch(grid=1, block=64)

    return launch


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("compiled_before", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_the_graph_ends_before_a_launch(compiled_before, backend):
    torch._dynamo.reset()
    launch = fresh_launcher()
    if compiled_before:
        launch(torch.ones(4), torch.zeros(4), 4)

    def function(a):
        b = torch.zeros_like(a)
        launch(a + 1.0, b, a.shape[0])
        return b + 1.0

    captured = torch.compile(function, backend=backend)
    for size in (4, 5, 6):  # the last are captured again, with a symbolic size
        a = torch.arange(float(size))
        torch.testing.assert_close(captured(a), (a + 1.0) * 2.0 + 1.0)


def test_a_compiled_launcher_ends_the_graph_too():
    torch._dynamo.reset()
    compiled = flyc.compile(fresh_launcher(), torch.ones(4), torch.zeros(4), 4)

    @torch.compile(backend="eager")
    def function(a):
        b = torch.zeros_like(a)
        compiled(a, b, 4)
        return b + 1.0

    torch.testing.assert_close(function(torch.ones(4)), torch.full((4,), 3.0))


def test_a_full_graph_says_how_to_have_the_launch_in_it():
    torch._dynamo.reset()
    launch = fresh_launcher()

    @torch.compile(backend="eager", fullgraph=True)
    def function(a):
        b = torch.zeros_like(a)
        launch(a, b, 4)
        return b

    with pytest.raises(torch._dynamo.exc.Unsupported, match="launcher_op"):
        function(torch.ones(4))
