"""Control flow on run-time values against the same Python, run thread by thread."""

from __future__ import annotations

import linecache
import types

import numpy as np
import pytest

from flydsl.errors import UserTypeError, UserValueError

X = (np.arange(64, dtype=np.int32) * 7919) % 23 - 7
OUT = np.zeros(64, dtype=np.int32)


def if_chain(i, x, out):
    v = x[i]
    if v < 0:
        r = -v
    elif v == 3:
        r = 100
    else:
        r = v * 2
    out[i] = r


def nested_if(i, x, out):
    v = x[i]
    r = 1
    if v > 0:
        if v > 5:
            r = 10
        else:
            r = r + v
    out[i] = r


def early_return(i, x, out):
    v = x[i]
    if v < 0:
        return
    if v > 10:
        out[i] = 7
        return
    out[i] = v


def loop_sum(i, x, out):
    total = 0
    for k in range(x[i] + 8):
        total = total + k * 2
    out[i] = total


def negative_step(i, x, out):
    total = 0
    for k in range(x[i], -5, -2):
        total = total * 3 + k
        total = total % 1000
    out[i] = total


def dynamic_step(i, x, out):
    total = 0
    step = x[i]
    if step == 0:
        step = 5
    for k in range(10, 10 + 7 * step, step):
        total = total + k
    out[i] = total


def break_continue(i, x, out):
    total = 0
    for k in range(20):
        if k == x[i] + 8:
            break
        if k % 3 == 1:
            continue
        total = total + k
    else:
        total = total + 1000
    out[i] = total


def return_from_loop(i, x, out):
    for k in range(30):
        if k * k > x[i] + 10:
            out[i] = k
            return
    out[i] = -1


def while_loop(i, x, out):
    n = x[i] + 8
    steps = 0
    while n > 1:
        if n % 2 == 0:
            n = n // 2
        else:
            n = 3 * n + 1
        steps = steps + 1
    out[i] = steps


def while_break(i, x, out):
    n = 0
    while True:
        n = n + 1
        if n > x[i]:
            break
        if n == 9:
            break
    out[i] = n


def guarded_load(i, x, out):
    if i < 60 and x[i + 4] > 2:
        out[i] = 1
    if i > 62 or x[i + 1] > 2:
        out[i] = out[i] + 2


def chained(i, x, out):
    if -3 < x[i] <= 5:
        out[i] = 1
    if not (0 <= x[i] < 3):
        out[i] = out[i] + 2


def conditional_expression(i, x, out):
    v = x[i]
    out[i] = (v if v > 0 else -v) + (1 if i < 32 else x[63 - i])


def swapped(i, x, out):
    a = x[i]
    b = i
    for _ in range(3):
        a, b = b, a + b
        if a > b:
            a, b = b, a
    out[i] = a * 1000 + b


def list_items(i, x, out):
    acc = [0, 1, 2]
    for k in range(4):
        if x[i] > k:
            acc[1] = acc[1] + k
            acc = [acc[2], acc[1], acc[0]]
    out[i] = acc[0] + 10 * acc[1] + 100 * acc[2]


def mutating_helper(i, x, out):
    cell = [0]

    def write(c):
        c[0] = 4

    if x[i] > 3:
        write(cell)
    out[i] = cell[0]


def nonlocal_helper(i, x, out):
    count = 0

    def bump():
        nonlocal count
        count = count + 1

    for k in range(5):
        if k < x[i]:
            bump()
    out[i] = count


def helper_with_loop(i, x, out):
    out[i] = gcd(x[i] + 8, 12)


def gcd(a, b):
    while b > 0:
        a, b = b, a % b
    return a


def helper_with_returns(i, x, out):
    out[i] = classify(x[i]) + classify(x[i] + 5)


def classify(v):
    if v < 0:
        return 1
    for k in range(3):
        if v == k:
            return 10 + k
    return 2


def object_state(i, x, out):
    state = types.SimpleNamespace(low=0, high=1)
    for k in range(x[i] + 8):
        if k % 2 == 0:
            state.low = state.low + k
        else:
            state.high = state.high * 2 % 101
    out[i] = state.low * 128 + state.high


def dictionaries(i, x, out):
    d = {"a": 0, "b": 5}
    if x[i] > 2:
        d["a"] = 7
    for k in range(x[i] + 8):
        d["b"] = d["b"] + k
    out[i] = d["a"] * 1000 + d["b"]


def last_value_of_loop_variable(i, x, out):
    k = 50
    for k in range(x[i]):  # noqa: B007 - what it leaves in k is what is tested
        pass
    out[i] = k


def python_loop_with_dynamic_break(i, x, out):
    total = 0
    for k in [5, 1, 9, 3]:
        if k > x[i]:
            break
        total = total + k
    out[i] = total


def membership(i, x, out):
    if x[i] in (1, 5, 9):
        out[i] = 1
    if x[i] not in [0, 2]:
        out[i] = out[i] + 2


def augmented(i, x, out):
    for k in range(3):
        out[i] += x[i] * k
    out[i] -= 1


def triangular(i, x, out):
    total = 0
    for a in range(x[i] + 8):
        for b in range(a, 0, -1):
            if (a + b) % 4 == 0:
                continue
            if b > 7:
                break
            total = total + a * b
        if total > 300:
            return
        out[i] = total


def continue_in_else(i, x, out):
    total = 0
    for a in range(0, 7, 2):
        for _ in range(x[i] % 6):
            total = total + a
        else:  # noqa: PLW0120 - what is tested
            continue
        total = total + 1000
    out[i] = total


def break_in_else(i, x, out):
    total = 0
    for a in range(8):
        for b in range(x[i] % 6):
            if b == a:
                break
        else:
            if a > x[i]:
                break
            total = total + 100
            continue
        total = total + a
    out[i] = total


def return_in_else(i, x, out):
    for a in range(6):
        for b in range(x[i] % 5):
            if b * a > x[i]:
                break
        else:
            out[i] = a + 50
            return
        out[i] = a


def jumps_in_the_else_of_a_nested_loop(i, x, out):
    total = 0
    for a in range(5):
        if x[i] > a:
            for b in range(x[i] % 4):
                total = total + b
            else:  # noqa: PLW0120 - what is tested
                continue
        total = total + 10
    out[i] = total


def else_of_a_run_time_loop_in_a_static_one(i, x, out):
    total = 0
    for a in [1, 2, 3]:
        for b in range(x[i] % 6):
            if b == a:
                break
        else:
            continue
        total = total + a * 10
    out[i] = total


def break_on_a_changing_bound(i, x, out):
    total = i
    limit = 1
    for k in range(x[i] % 6):
        if k >= limit:
            break
        total += i
        limit = total
    out[i] = total * 1000 + limit


BODIES = [
    value
    for value in list(globals().values())
    if isinstance(value, types.FunctionType)
    and value.__module__ == __name__
    and value.__code__.co_argcount == 3
]


@pytest.mark.parametrize("body", BODIES, ids=lambda f: f.__name__)
def test_agrees_with_python(both, body):
    both(body, [X, OUT])


def test_a_guarded_load_is_not_issued_by_other_lanes(device):
    """Lanes 4 and above would read past the four elements, which the emulator reports."""

    def body(i, x, out):
        if i < 4 and x[i] > 2:
            out[i] = x[i]

    out = np.zeros(64, dtype=np.int32)
    device(body, [np.array([1, 5, 3, 2], dtype=np.int32), out])
    assert out[:4].tolist() == [0, 5, 3, 0]
    assert not out[4:].any()


def test_bounds_of_64_bits(device):
    def body(i, out):
        total = out[i]
        low = total + 2**40
        for k in range(low, low + 3):
            total = total + (k - low) * 5
        out[i] = total

    out = np.zeros(64, dtype=np.int64)
    device(body, [out])
    assert out.tolist() == [15] * 64


def test_explicit_loop_state(device):
    def body(i, out, n):
        first, second = n, n * 2
        for k, state in range(0, n, 1, init=[first, second]):
            a, b = state
            results = yield [a + k, b - 1]
        out[i] = results[0] * 100 + results[1]

    out = np.zeros(64, dtype=np.int32)
    device(body, [out], [5])
    assert out.tolist() == [(5 + 10) * 100 + 5] * 64


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_float_floor_division_and_remainder(device, dtype):
    def body(i, a, b, quotient, rest):
        quotient[i] = a[i] // b[i]
        rest[i] = a[i] % b[i]

    rng = np.random.default_rng(5)
    a, b = (rng.uniform(-80, 80, 64).astype(dtype) for _ in range(2))
    b /= dtype(10)
    edges = [(1, 0.1), (-1, 0.1), (6, 3), (-6, 3), (0, 5), (0, -5), (7, -np.inf), (1, 0), (-2, 0)]
    for at, (x, y) in enumerate(edges):
        a[at], b[at] = x, y
    out = [np.zeros(64, dtype) for _ in range(2)]
    device(body, [a, b, *out])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(out[0], np.floor_divide(a, b))
        np.testing.assert_array_equal(np.signbit(out[0]), np.signbit(np.floor_divide(a, b)))
        np.testing.assert_array_equal(out[1], np.remainder(a, b))


def cube(base, exponent):
    if exponent == 0:
        return 1
    return base * cube(base, exponent - 1)


def test_a_helper_may_call_itself(both):
    def body(i, x, out):
        out[i] = cube(x[i], 3)

    both(body, [X, OUT])


@pytest.mark.parametrize("use", ["for v in x:\n        out[i] = v", "out[i] = 1 if 1 in x else 0"])
def test_a_tensor_is_not_iterated(device, use):
    source = f"def body(i, x, out):\n    {use}\n"
    filename = f"<{use}>"
    linecache.cache[filename] = (len(source), None, source.splitlines(True), filename)
    space = {"__name__": "flydsl_kernels.test"}
    exec(compile(source, filename, "exec"), space)
    with pytest.raises(UserTypeError, match="FLY-U250"):
        device(space["body"], [X.copy(), OUT.copy()])


@pytest.mark.parametrize(
    ("dtype", "value"), [(np.int32, 1.5), (np.int32, float("nan")), (np.float16, 1e6)]
)
def test_a_python_number_that_does_not_fit_is_not_stored(device, dtype, value):
    def body(i, out):
        out[i] = value

    with pytest.raises(UserValueError, match="FLY-U243"):
        device(body, [np.zeros(64, dtype)])


def test_python_numbers_that_fit_are_stored(device):
    def body(i, a, b):
        a[i] = 2.0
        b[i] = float("inf")

    a, b = np.zeros(64, np.int32), np.zeros(64, np.float16)
    device(body, [a, b])
    assert a.tolist() == [2] * 64
    assert np.isposinf(b).all()
