"""Mistakes of newcomers: each is named where it is made, instead of a raw or late exception."""

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.autotune import autotune
from flydsl.config import scope
from flydsl.errors import UserError, UserRuntimeError, UserTypeError, UserValueError


def run(body, x=None, grid=1):
    kernel = flyc.kernel(body)

    @flyc.jit
    def launch(X: fx.Tensor, n: fx.Int32):
        kernel(X, n).launch(grid=grid, block=1)

    x = np.ones(8, np.float32) if x is None else x
    launch(x, 2)
    return x


def endless(v):
    return endless(v) + 1.0


def test_helpers_and_launchers_that_call_themselves_without_end():
    def body(X: fx.Tensor, n: fx.Int32):
        X[0] = endless(X[0])

    with pytest.raises(UserRuntimeError, match="nest without end") as caught:
        run(body)
    assert "return endless(v) + 1.0" in str(caught.value)

    @flyc.jit
    def launch(X: fx.Tensor):
        launch(X)

    with pytest.raises(UserRuntimeError, match="nest without end"):
        launch(np.ones(4, np.float32))


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (lambda X: 1.0 * len(X), "no Python length"),
        (lambda X: 1.0 if X else 0.0, "neither true nor false"),
        (lambda X: np.sqrt(X[0]), r"np\.sqrt computes with NumPy's numbers"),
        (lambda X: np.maximum(0.0, X[0]), r"np\.maximum computes with NumPy's numbers"),
    ],
)
def test_what_python_and_numpy_cannot_compute(expression, message):
    def body(X: fx.Tensor, n: fx.Int32):
        X[0] = expression(X)

    with pytest.raises(UserTypeError, match=message):
        run(body)


def test_numpy_functions_of_known_numbers_stay_numpys():
    def body(X: fx.Tensor, n: fx.Int32):
        X[0] = float(np.sqrt(4.0)) * X[0]

    assert run(body)[0] == 2.0


def test_a_tensor_in_a_condition_of_a_launcher():
    @flyc.jit
    def launch(X: fx.Tensor):
        if X:
            pass

    with pytest.raises(UserTypeError, match="neither true nor false") as caught:
        launch(np.ones(4, np.float32))
    assert "if X:" in str(caught.value)


def test_a_kernel_that_returns_shows_the_return():
    def body(X: fx.Tensor, n: fx.Int32):
        X[0] = 1.0
        return n

    with pytest.raises(UserTypeError, match="returns a value") as caught:
        run(body)
    assert "return n" in str(caught.value)


def test_a_kernel_called_outside_a_launcher_shows_the_call():
    @flyc.kernel
    def kernel(X: fx.Tensor):
        X[0] = 1.0

    with pytest.raises(UserRuntimeError, match="outside a launcher") as caught:
        kernel(np.ones(4, np.float32))
    assert "kernel(np.ones(4, np.float32))" in str(caught.value)


@pytest.mark.parametrize("kind", [np.int64, np.uint8])
def test_integers_of_numpy_are_integers(kind):
    def body(X: fx.Tensor, n: fx.Int32):
        X[fx.block_idx.x] = 3.0

    assert run(body, grid=kind(2)).tolist() == [3, 3, 1, 1, 1, 1, 1, 1]

    @flyc.kernel
    def kernel(X: fx.Tensor, width: fx.Constexpr[int]):
        X[fx.thread_idx.x] = float(width)

    @flyc.jit
    def launch(X: fx.Tensor, width: fx.Constexpr[int]):
        kernel(X, kind(width)).launch(grid=1, block=width)

    for width in (kind(2), 3, kind(3)):
        x = np.zeros(4, np.float32)
        launch(x, width)
        assert x.tolist() == [int(width)] * int(width) + [0] * (4 - int(width))
    with pytest.raises(UserTypeError, match=r"Constexpr\[int\]"):
        launch(x, np.float32(2))


def test_masked_arrays_are_refused():
    def body(X: fx.Tensor, n: fx.Int32):
        X[0] = 1.0

    with pytest.raises(UserTypeError, match="mask"):
        run(body, np.ma.masked_array(np.ones(8, np.float32), mask=[True] * 8))


@flyc.kernel
def fill_kernel(X: fx.Tensor, value: fx.Float32):
    X[fx.thread_idx.x] = value


@flyc.jit
def fill(X: fx.Tensor, value: fx.Float32, block: fx.Constexpr[int]):
    fill_kernel(X, value).launch(grid=1, block=block)


def test_compiled_and_loaded_launchers_bind_like_the_launcher(tmp_path):
    x = np.zeros(4, np.float32)
    compiled = flyc.compile(fill, x, 1.0, 4)
    compiled.save(tmp_path / "fill")
    for number, function in enumerate([compiled, flyc.load(tmp_path / "fill")]):
        function(x, block=4, value=number + 2.0)
        assert (x == number + 2.0).all()
        for arguments, keywords, message in [
            ((x,), {}, "is missing 'value', 'block'"),
            ((x, 1.0, 4), {"value": 2.0}, "two values for 'value'"),
            ((x, 1.0, 4), {"size": 2}, "no parameter 'size'"),
            ((x, 1.0, 4, 5), {}, "4 were given"),
        ]:
            with pytest.raises(UserTypeError, match=message):
                function(*arguments, **keywords)


def test_an_unusable_folder_for_dumps(tmp_path):
    (tmp_path / "file").write_text("")

    def body(X: fx.Tensor, n: fx.Int32):
        X[0] = 1.0

    with (
        scope(FLYDSL_DUMP_IR=True, FLYDSL_DUMP_DIR=str(tmp_path / "file")),
        pytest.raises(UserValueError, match="dumps cannot be written"),
    ):
        run(body)


def test_candidates_that_are_no_configurations():
    with pytest.raises(UserError, match="chooses among configurations"):
        autotune([{"block": 64}])


def test_a_missing_module_on_the_command_line(capsys):
    from flydsl.cli import main

    assert main([*"compile --target gfx942 -o x flydsl_no_such_module:launch".split()]) != 0
    assert "no module flydsl_no_such_module" in capsys.readouterr().err


def vector_by_zero(n):
    return (fx.Vector([n, n]) // 0)[0]


@pytest.mark.parametrize(
    ("expression", "code"),
    [
        (lambda n: n // 0, "FLY-U278"),
        (lambda n: n % fx.Int32(0), "FLY-U278"),
        (lambda n: divmod(n, 0)[1], "FLY-U278"),
        (vector_by_zero, "FLY-U278"),
        (lambda n: n << -1, "FLY-U279"),
    ],
)
def test_division_by_a_constant_zero_and_negative_shifts(expression, code):
    def body(X: fx.Tensor, n: fx.Int32):
        X[0] = expression(n).to(fx.Float32)

    with pytest.raises(UserError, match=code) as caught:
        run(body)
    assert caught.value.location.file == __file__
