"""`fx.printf` and `fx.device_assert` in kernels on the emulator."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope
from flydsl.diagnostics import FlyDSLWarning
from flydsl.errors import DeviceAssertionError, UserError, UserTypeError, UserValueError


@pytest.fixture(autouse=True, params=["gfx942", "gfx950", "gfx1201"])
def target(request: pytest.FixtureRequest) -> Iterator[str]:
    with scope(FLYDSL_TARGET=request.param):
        yield request.param


@flyc.kernel
def table_kernel(X: fx.Tensor, n: fx.Int32, name: fx.Constexpr[str]):
    x = fx.block_idx.x * 8 + fx.thread_idx.x
    for k in range(n):
        if (x + k) % 3 == 0:
            fx.printf("{} block {} thread ({},{}) k={} x={:.3f}\n", name, fx.block_idx.x,
                      fx.thread_idx.x, fx.thread_idx.y, k, X[x])  # fmt: skip


@flyc.jit
def table(X: fx.Tensor, n: fx.Int32, name: fx.Constexpr[str]):
    table_kernel(X, n, name).launch(grid=(3,), block=(8, 2))


def test_every_thread_prints_its_values(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.random.default_rng(4).normal(size=24).astype(np.float32)
    table(x, 2, "first")
    printed = Counter(capsys.readouterr().out.splitlines())
    expected = Counter(
        f"first block {b} thread ({t},{y}) k={k} x={float(x[8 * b + t]):.3f}"
        for b in range(3)
        for t in range(8)
        for y in range(2)
        for k in range(2)
        if (8 * b + t + k) % 3 == 0
    )
    assert printed == expected
    table(x, 1, "second")
    assert all(line.startswith("second") for line in capsys.readouterr().out.splitlines())
    table(x, 0, "third")
    assert capsys.readouterr().out == ""


@flyc.kernel
def types_kernel(
    i8: fx.Int8, u8: fx.Uint8, i64: fx.Int64, u64: fx.Uint64, b: fx.BFloat16,
    f: fx.Float32, d: fx.Float64, X: fx.Tensor,
):  # fmt: skip
    fx.printf("{} {} {} {} ", i8, u8, i64, u64)
    fx.printf("{} {} {} {} ", f.to(fx.Float16), b, f, d)
    fx.printf("{} {} {:5d}| {:#x} {{}} ", i8 > 0, f > 0.0, i8, u64)
    fx.printf("{1} {0} {1:>4} ", u8, i8)
    fx.printf("{} {} {} {} {}\n", 3, 2.5, True, "text", fx.BFloat16)
    fx.printf("no fields 100%\n")
    fx.printf("{} {}\n", X.iter, i64 * 0)


@flyc.jit
def types(
    i8: fx.Int8, u8: fx.Uint8, i64: fx.Int64, u64: fx.Uint64, b: fx.BFloat16,
    f: fx.Float32, d: fx.Float64, X: fx.Tensor,
):  # fmt: skip
    types_kernel(i8, u8, i64, u64, b, f, d, X).launch(grid=(1,), block=(1,))


def test_types_and_specifications(capsys: pytest.CaptureFixture[str]) -> None:
    x = np.zeros(1, np.float32)
    types(-5, 250, -(1 << 62), (1 << 64) - 1, 3.0, 0.1, 1e300, x)
    first, second, third = capsys.readouterr().out.splitlines()
    f = float(np.float32(0.1))
    assert first == (
        f"-5 250 {-(1 << 62)} {(1 << 64) - 1} {float(np.float16(f))} 3.0 {f} 1e+300 "
        "False True    -5| 0xffffffffffffffff {} -5 250   -5 3 2.5 True text BFloat16"
    )
    assert second == "no fields 100%"
    assert third == f"{x.ctypes.data:#x} 0"


@flyc.kernel
def quiet_kernel(X: fx.Tensor):
    X[fx.thread_idx.x] = X[fx.thread_idx.x] + 1.0


@flyc.jit
def two_kernels(X: fx.Tensor):
    quiet_kernel(X).launch(grid=(1,), block=(24,))
    table_kernel(X, 1, "loud").launch(grid=(1,), block=(8,))
    quiet_kernel(X).launch(grid=(1,), block=(24,))
    table_kernel(X, 1, "again").launch(grid=(1,), block=(8,))


def test_only_kernels_that_print_have_the_hidden_argument(
    capsys: pytest.CaptureFixture[str],
) -> None:
    x = np.zeros(24, np.float32)
    compiled = flyc.compile(two_kernels, x)
    counts = {k.name: sum(not a.hidden for a in k.args) for k in compiled.kernels}
    quiet = {n for name, n in counts.items() if name.startswith("quiet")}
    loud = {n for name, n in counts.items() if name.startswith("table")}
    # A pointer and its extent; the other kernel has a number too, and the buffer.
    assert quiet == {2}
    assert loud == {2 + 1 + 1}
    compiled(x)
    text = capsys.readouterr().out
    assert re.findall(r"(?:loud|again) .*x=\d\.\d", text.replace("\n", " "))
    assert text.count("loud") == text.count("again") == 3
    assert "x=1.000" in text
    assert "x=2.000" in text
    assert x.tolist() == [2.0] * 24


@flyc.kernel
def checked_kernel(X: fx.Tensor, Y: fx.Tensor, limit: fx.Int32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    value = X[i]
    fx.device_assert(value < limit, "value {} at {} is not below {}", value, i, limit)
    Y[i] = value


@flyc.jit
def checked(X: fx.Tensor, Y: fx.Tensor, limit: fx.Int32):
    checked_kernel(X, Y, limit).launch(grid=(3,), block=(64,))


def test_an_assertion_names_line_block_and_thread() -> None:
    x = np.arange(192, dtype=np.int32)
    y = np.zeros_like(x)
    checked(x, y, 1000)
    assert np.array_equal(x, y)
    x[[70, 150]] = 5000
    with pytest.raises(DeviceAssertionError, match="value 5000 at 70 is not below 1000") as error:
        checked(x, y, 1000)
    assert error.value.code == "FLY-U460"
    assert error.value.location is not None
    assert error.value.location.file == __file__
    assert "fx.device_assert(value < limit" in str(error.value)
    assert "block (1, 0, 0), thread (6, 0, 0) and 1 more threads" in str(error.value)
    # Threads go on, and the next launch starts afresh.
    assert np.array_equal(x, y)
    checked(x, y, 5001)


@flyc.kernel
def guarded_kernel(X: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x
    fx.device_assert(n <= 64, "n = {}", n)
    X[i + n - 64] = 1.0


@flyc.jit
def guarded(X: fx.Tensor, n: fx.Int32):
    guarded_kernel(X, n).launch(grid=(1,), block=(64,))


def test_an_assertion_explains_a_fault_that_follows() -> None:
    with pytest.raises(DeviceAssertionError, match="n = 500000000") as error:
        # Far from everything the launch may touch, the output buffer included.
        guarded(np.zeros(64, np.float32), 500_000_000)
    assert isinstance(error.value.__cause__, UserError)
    assert error.value.__cause__.code == "FLY-U711"


@flyc.kernel
def flood_kernel(n: fx.Int32):
    for k in range(n):
        fx.printf("{}\n", k)


@flyc.jit
def flood(n: fx.Int32):
    flood_kernel(n).launch(grid=(1,), block=(64,))


def test_more_output_than_fits(capsys: pytest.CaptureFixture[str]) -> None:
    from flydsl.config import core

    records = core.OUTPUT_BYTES.get() // (5 * 8)
    rounds = records // 64 + 20
    with pytest.warns(FlyDSLWarning, match=f"{64 * rounds - records} records"):
        flood(rounds)
    lines = capsys.readouterr().out.split()
    assert len(lines) == records
    # The first wave prints its first round before anything else.
    assert lines[:32] == ["0"] * 32
    assert set(lines) <= {str(k) for k in range(rounds)}
    flood(1)
    assert capsys.readouterr().out == "0\n" * 64


@flyc.kernel
def broken_kernel(x: fx.Int32, case: fx.Constexpr[str]):
    if fx.const_expr(case == "few"):
        fx.printf("{} {}", x)
    if fx.const_expr(case == "many"):
        fx.printf("{}", x, x)
    if fx.const_expr(case == "percent"):
        fx.printf("%d", x)
    if fx.const_expr(case == "name"):
        fx.printf("{x}", x)
    if fx.const_expr(case == "brace"):
        fx.printf("{", x)
    if fx.const_expr(case == "conversion"):
        fx.printf("{!r}", x)
    if fx.const_expr(case == "spec"):
        fx.printf("{:d}", x * 0.5)
    if fx.const_expr(case == "static spec"):
        fx.printf("{:d}", "text")
    if fx.const_expr(case == "mixed"):
        fx.printf("{} {0}", x)
    if fx.const_expr(case == "unused"):
        fx.printf("{1}", x, x)
    if fx.const_expr(case == "vector"):
        fx.printf("{}", fx.Vector.filled(4, 1.0, fx.Float32))
    if fx.const_expr(case == "text"):
        fx.printf(x)
    if fx.const_expr(case == "condition"):
        fx.device_assert("text")
    if fx.const_expr(case == "message"):
        fx.device_assert(x > 0, "{}")


@flyc.jit
def broken(x: fx.Int32, case: fx.Constexpr[str]):
    broken_kernel(x, case).launch(grid=(1,), block=(1,))


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        ("few", UserValueError, "FLY-U272"),
        ("many", UserValueError, "FLY-U272"),
        ("percent", UserValueError, "FLY-U272"),
        ("name", UserValueError, "FLY-U272"),
        ("brace", UserValueError, "FLY-U272"),
        ("conversion", UserValueError, "FLY-U272"),
        ("spec", UserValueError, "FLY-U272"),
        ("static spec", UserValueError, "FLY-U272"),
        ("mixed", UserValueError, "FLY-U272"),
        ("unused", UserValueError, "FLY-U272"),
        ("vector", UserTypeError, "FLY-U273"),
        ("text", UserTypeError, "FLY-U272"),
        ("condition", UserTypeError, "FLY-U273"),
        ("message", UserValueError, "FLY-U272"),
    ],
)
def test_wrong_calls_are_refused_at_the_users_line(
    body: str, kind: type[UserError], code: str
) -> None:
    with pytest.raises(kind) as error:
        broken(1, body)
    assert error.value.code == code
    assert error.value.location is not None
    assert error.value.location.file == __file__
    if body == "percent":
        assert "{}, not %d" in str(error.value)


def test_outside_a_kernel() -> None:
    @flyc.jit
    def launch(n: fx.Int32):
        fx.printf("{}", n)

    with pytest.raises(UserError, match="device code") as error:
        launch(1)
    assert error.value.code == "FLY-U253"
    with pytest.raises(UserError) as error:
        fx.printf("x")
    assert error.value.code == "FLY-U201"


@flyc.kernel
def static_kernel(ok: fx.Constexpr[bool]):
    fx.device_assert(ok, "never")


@flyc.jit
def static(ok: fx.Constexpr[bool]):
    static_kernel(ok).launch(grid=(1,), block=(1,))


def test_a_condition_known_while_tracing() -> None:
    assert not flyc.compile(static, True).artifact.sites
    static(True)
    with pytest.raises(DeviceAssertionError, match="never"):
        static(False)
