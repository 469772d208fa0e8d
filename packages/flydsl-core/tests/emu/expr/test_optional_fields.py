"""Fields of structs that may be None, which is known while tracing."""

# Type checkers do not know the field types and constructors that the decorator makes.
# mypy: disable-error-code="valid-type,call-arg"

from __future__ import annotations

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.errors import UserError

flydsl_emu = pytest.importorskip("flydsl_emu")
RNG = np.random.default_rng(20261130)


@fx.struct
class Scale:
    factor: fx.Float32
    offset: fx.Int64


@fx.struct
class Operands:
    X: fx.Tensor
    bias: fx.Tensor | None = None
    scale: Scale | None = None
    power: fx.Int32 | None = None
    P: fx.Pointer[fx.Float32, fx.AddressSpace.Global] = None

    def value(self, i):
        x = self.X[i]
        if self.bias is not None:
            x = x + self.bias[i]
        if self.scale is not None:
            x = x * self.scale.factor
        if self.power is not None:
            y = fx.Float32(1.0)
            for _ in range(self.power):
                y = y * x
            x = y
        if self.P is not None:
            x = x - self.P[i]
        return x


@flyc.kernel
def operands_kernel(o: Operands, out: fx.Tensor, n: fx.Int32):
    i = fx.thread_idx.x
    chosen = o
    if i < n:
        chosen = o.replace(X=o.X)
    for _ in range(2):
        chosen = chosen.replace(bias=chosen.bias)
    out[i] = chosen.value(i)


@flyc.jit
def run_operands(o: Operands, out: fx.Tensor, last: fx.Tensor, n: fx.Int32):
    operands_kernel(o, out, n).launch(grid=1, block=64)
    # The same kernel with other fields is another one.
    operands_kernel(o.replace(bias=None, P=None), last, n).launch(grid=1, block=64)


def test_optional_fields_are_known_while_tracing(target):
    x, bias, p = (RNG.standard_normal(64).astype(np.float32) for _ in range(3))
    for case in range(16):
        given = {
            "bias": bias if case & 1 else None,
            "scale": Scale(3.0, 1) if case & 2 else None,
            "power": 2 if case & 4 else None,
            "P": flyc.from_c_void_p(fx.Float32, p.ctypes.data) if case & 8 else None,
        }
        for _ in range(2):
            out, last = np.zeros(64, np.float32), np.zeros(64, np.float32)
            with flydsl_emu.sharing(p):
                run_operands(Operands(x, **given), out, last, 40)
            for got, with_both in ((out, True), (last, False)):
                wanted = x.astype(np.float64) + (bias if case & 1 and with_both else 0)
                wanted = wanted * (3 if case & 2 else 1)
                wanted = (wanted**2 if case & 4 else wanted) - (p if case & 8 and with_both else 0)
                # Five roundings of at most half a unit, of sums that may cancel.
                np.testing.assert_allclose(got, wanted, rtol=0, atol=5 * 2**-24 * 300)


def test_none_where_it_is_not_declared_is_explained(target):
    @fx.struct
    class Plain:
        a: fx.Tensor
        b: fx.Tensor

    @flyc.kernel
    def kernel(s: Plain):
        s.a[0] = 1.0

    @flyc.jit
    def launch(s: Plain):
        kernel(s).launch(grid=1, block=1)

    with pytest.raises(UserError, match=r"'s': field 'b': .*was given a NoneType") as caught:
        launch(Plain(np.zeros(1, np.float32), None))
    assert "declare it fx.Tensor | None to pass None" in caught.value.hint

    @flyc.jit
    def inside(a: fx.Tensor):
        kernel(Plain(a, None)).launch(grid=1, block=1)

    with pytest.raises(UserError, match=r"Plain\.b is given something of another type"):
        inside(np.zeros(1, np.float32))


def test_optional_fields_on_two_paths_differ(target):
    @flyc.kernel
    def kernel(o: Operands, b: fx.Tensor):
        chosen = o
        if fx.thread_idx.x < 3:
            chosen = o.replace(bias=b)
        o.X[0] = chosen.value(0)

    @flyc.jit
    def launch(o: Operands, b: fx.Tensor):
        kernel(o, b).launch(grid=1, block=1)

    x = np.zeros(64, np.float32)
    with pytest.raises(UserError, match="chosen"):
        launch(Operands(x), x.copy())


def test_no_pointer_is_stored(target):
    kind = fx.struct["p" : fx.Pointer[fx.Float32, fx.AddressSpace.Global]]

    @flyc.kernel
    def kernel(X: fx.Tensor):
        place = fx.SharedAllocator().allocate(kind)
        place.poke(kind(None))
        X[0] = 1.0

    @flyc.jit
    def launch(X: fx.Tensor):
        kernel(X).launch(grid=1, block=1)

    with pytest.raises(UserError, match="no pointer in memory"):
        launch(np.zeros(1, np.float32))
