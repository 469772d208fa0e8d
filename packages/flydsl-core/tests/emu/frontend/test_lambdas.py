"""Lambdas and functions without source as helpers: they do what Python does, or are refused."""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import UserError

VALUES = np.array([-3.0, -0.5, 0.25, 4.0], np.float32)

square = lambda v: v * v  # noqa: E731
TABLE = {"up": lambda v: v + 1.0, "thrice": lambda v: v * 3.0}
relu, other = (lambda v: 0.0 if v < 0.0 else v), (lambda v: v - 2.0)
make = lambda factor: lambda v: v * factor  # noqa: E731
bounded = lambda v: 1.0 if -1.0 < v < 1.0 and v != 0.0 else 0.0  # noqa: E731
through = lambda v, f=square: f(v) + relu(v)  # noqa: E731


def applied(function):
    @flyc.kernel
    def kernel(X: fx.Tensor):
        i = fx.thread_idx.x
        X[i] = function(X[i])

    @flyc.jit
    def launch(X: fx.Tensor):
        kernel(X).launch(grid=1, block=4)

    x = VALUES.copy()
    launch(x)
    return x


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (square, VALUES * VALUES),
        (TABLE["up"], VALUES + 1),
        (TABLE["thrice"], VALUES * 3),
        (relu, np.maximum(VALUES, 0)),
        (other, VALUES - 2),
        (make(5.0), VALUES * 5),
        (bounded, (abs(VALUES) < 1).astype(np.float32)),
        (through, VALUES * VALUES + np.maximum(VALUES, 0)),
        (lambda v: fx.math.sqrt(v * v) if v < 0.0 else v, abs(VALUES)),
    ],
)
def test_a_lambda_decides_on_run_time_values(function, expected):
    np.testing.assert_array_equal(applied(function), expected)


def without_source(text):
    namespace: dict[str, object] = {"__name__": "users_own", "INT": fx.Int32}
    exec(text, namespace)
    return namespace["helper"]


def test_a_helper_without_source_runs_as_written():
    helper = without_source(
        "def helper(v):\n    for _ in range(2):\n        v = v + v\n    return v"
    )
    np.testing.assert_array_equal(applied(helper), VALUES * 4)


@pytest.mark.parametrize(
    "text",
    [
        "def helper(v):\n    if v > 0.0:\n        return v\n    return -v",
        "helper = lambda v: v if v > 0.0 else -v",
        "helper = lambda v: (v > 0.0) and v",
        "helper = lambda v: not v",
        "helper = lambda v: 1.0 if -1.0 < v < 1.0 else 0.0",
        "def helper(v):\n    while v > 0.0:\n        v = v - 1.0\n    return v",
        "def helper(v):\n    for _ in range(v.bitcast(INT)):\n        v = -v\n    return v",
    ],
)
def test_a_helper_without_source_may_not_decide_on_run_time_values(text):
    with pytest.raises(UserError, match=r"run time|run-time"):
        applied(without_source(text))


def test_a_lambda_whose_file_changed_runs_as_loaded(tmp_path):
    path = tmp_path / "changed.py"
    path.write_text("helper = lambda v: v + 1.0\n")
    namespace: dict[str, object] = {"__name__": "changed"}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    path.write_text("helper = lambda v: v - 1.0\n")
    linecache.checkcache(str(path))
    np.testing.assert_array_equal(applied(namespace["helper"]), VALUES + 1)
