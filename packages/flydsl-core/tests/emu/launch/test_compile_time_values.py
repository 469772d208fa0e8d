"""Compile-time arguments: another value never runs the code made for an equal one."""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple, Optional

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import UserTypeError, UserValueError


@pytest.fixture(autouse=True)
def target(monkeypatch):
    monkeypatch.setenv("FLYDSL_TARGET", "gfx942")


@dataclasses.dataclass(frozen=True)
class Frozen:
    x: object


class Named(NamedTuple):
    x: object


class Plain:
    def __init__(self, x):
        self.x = x


class Counting:
    """Changes while it is traced."""

    def __init__(self):
        self.traces = []

    def take(self):
        self.traces.append(None)
        return len(self.traces)


@flyc.kernel
def write_kernel(out: fx.Tensor, c: fx.Constexpr):
    if fx.thread_idx.x == 0:
        if isinstance(c.x, float):
            out[0] = fx.Float32(c.x * 2)
        elif isinstance(c.x, bool):
            out[0] = fx.Float32(-1.0)
        else:
            out[0] = fx.Float32(c.x * 2 + 100)


@flyc.jit
def write(out: fx.Tensor, c: fx.Constexpr):
    write_kernel(out, c).launch(grid=1, block=64)


def expected(x):
    if isinstance(x, float):
        return x * 2
    return -1.0 if isinstance(x, bool) else x * 2 + 100


@pytest.mark.parametrize("kind", [Frozen, Named, Plain])
def test_values_that_are_equal_but_not_the_same(kind):
    out = np.zeros(1, np.float32)
    changing = Plain(None)
    for x in (1, 1.0, True, 1, 1.0, True, 0.0, -0.0, 0, 0.0):
        changing.x = x
        value = changing if kind is Plain else kind(x)
        out[0] = 7
        write(out, value)
        assert (out[0], math.copysign(1, out[0])) == (expected(x), math.copysign(1, expected(x)))


def test_a_compiled_function_takes_the_value_that_it_was_compiled_for():
    out = np.zeros(1, np.float32)
    compiled = flyc.compile(write, out, Frozen(1))
    compiled(out, Frozen(1))
    assert out[0] == 102
    for other in (Frozen(1.0), Frozen(True), Frozen(2)):
        with pytest.raises(UserValueError, match="FLY-U424"):
            compiled(out, other)


@flyc.kernel
def add_kernel(out: fx.Tensor, k: fx.Constexpr):
    out[fx.thread_idx.x] = out[fx.thread_idx.x] + k


@flyc.jit
def add_int(out: fx.Tensor, k: fx.Constexpr[int]):
    add_kernel(out, k).launch(grid=1, block=64)


@flyc.jit
def add_any(out: fx.Tensor, k: fx.Constexpr):
    add_kernel(out, k).launch(grid=1, block=64)


@pytest.mark.parametrize("launcher", [add_int, add_any])
@pytest.mark.parametrize("known", [1, 3])
def test_compiled_and_loaded_functions_refuse_what_is_no_value_of_the_parameter(
    launcher, known, tmp_path
):
    out = np.zeros(64, np.float32)
    compiled = flyc.compile(launcher, out, known)
    compiled.save(tmp_path / "add.fly")
    loaded = flyc.load(tmp_path / "add.fly")
    others = (known + 0.5, float(known), str(known), True, [known], (known,), known + 1)
    for function in (compiled, loaded):
        # Before there are closures, and through them.
        for _ in range(2):
            for other in (*others, np.int64(known + 1), np.float64(known)):
                with pytest.raises(UserValueError, match=r"another 'k'.*FLY-U424"):
                    function(out, other)
            assert not out.any()
            function(out, known)
            assert (out == known).all()
            if launcher is add_int:
                function(out, np.int64(known))
                function(out, None)
                assert (out == 3 * known).all()
            out[:] = 0


class Sized:
    """Its text is that of a number."""

    def __init__(self, size):
        self.size = size

    def __repr__(self):
        return str(self.size)

    def __radd__(self, other):
        return other + self.size


def test_an_object_whose_text_is_that_of_a_number_can_be_loaded_for(tmp_path):
    out, value = np.zeros(64, np.float32), Sized(5)
    flyc.compile(add_any, out, value).save(tmp_path / "add.fly")
    loaded = flyc.load(tmp_path / "add.fly")
    loaded(out, value)
    loaded(out, Sized(5))
    assert (out == 10).all()
    for other in (Sized(6), 5.0, "5"):
        with pytest.raises(UserValueError, match="FLY-U424"):
            loaded(out, other)


@flyc.kernel
def count_kernel(out: fx.Tensor, c: fx.Constexpr):
    taken = c.take()
    if fx.thread_idx.x == 0:
        out[0] = fx.Float32(taken)


@flyc.jit
def count(out: fx.Tensor, c: fx.Constexpr):
    count_kernel(out, c).launch(grid=1, block=64)


def test_an_object_that_tracing_changes_is_traced_each_time():
    out, counting = np.zeros(1, np.float32), Counting()
    for calls in (1, 2, 3):
        count(out, counting)
        assert out[0] == len(counting.traces) == calls


@flyc.kernel
def apply_kernel(out: fx.Tensor, c: fx.Constexpr):
    if fx.thread_idx.x == 0:
        function = c.x if isinstance(c, Frozen) else c[0] if isinstance(c, tuple) else c
        out[0] = fx.Float32(function(3.0))


@flyc.jit
def apply(out: fx.Tensor, c: fx.Constexpr):
    apply_kernel(out, c).launch(grid=1, block=64)


@pytest.mark.parametrize("wrapped", [lambda f: f, Frozen, lambda f: (f,)])
def test_variables_of_functions_in_arguments(wrapped):
    factor = 2.0

    def times(x):
        return x * factor

    out, value = np.zeros(1, np.float32), wrapped(times)
    for factor in (2.0, 7.0, 7.0, 1.0):
        apply(out, value)
        assert out[0] == 3.0 * factor


@flyc.kernel
def pick_kernel(out: fx.Tensor, x: fx.Tensor | None, n: Optional[fx.Int32], p: fx.Pointer):  # noqa: UP045
    i = fx.thread_idx.x
    if i < 4:
        total = fx.Float32(0.0)
        if x is not None:
            total = total + x[i]
        if n is not None:
            total = total + n.to(fx.Float32)
        if p is not None:
            total = total + 1000.0
        out[i] = total


@flyc.jit
def pick(
    out: fx.Tensor,
    x: fx.Tensor | None,
    n: fx.Int32 | None = None,
    p: fx.Pointer = None,
):
    pick_kernel(out, x, n, p).launch(grid=1, block=64)


def test_none_for_optional_parameters(tmp_path):
    out = np.zeros(4, np.float32)
    x = np.arange(1, 5, dtype=np.float32)
    strided = np.repeat(x, 2)[::2]
    null = flyc.from_c_void_p(fx.Float32, None)
    for tensor in (x, None, strided, None, x):
        for number in (None, 10, None):
            for pointer in (None, null):
                pick(out, tensor, number, pointer)
                want = (0 if tensor is None else x) + (number or 0) + 1000 * (pointer is not None)
                np.testing.assert_array_equal(out, np.zeros(4) + want)
    compiled = flyc.compile(pick, out, None, 5)
    compiled.save(tmp_path / "pick.fly")
    for function in (compiled, flyc.load(tmp_path / "pick.fly")):
        out[:] = 0
        function(out, None, 7, None)
        np.testing.assert_array_equal(out, [7] * 4)
        with pytest.raises((UserTypeError, UserValueError), match="FLY-U42"):
            function(out, x, 7, None)
    with pytest.raises(UserTypeError, match=r"'out'.*FLY-U404"):
        pick(None, x)
