"""What `effects_of` says against what instructions do to the whole register file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl.config import scope
from flydsl_emu.debug.effects import effects_of
from flydsl_emu.decode import Instruction
from flydsl_emu.decode.instruction import EXEC, SCC
from flydsl_emu.observers import watching


class Auditor:
    """Compares all registers before and after each instruction of every wave."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def batch(self, batch: Any) -> None:
        state = batch.state

        def wrap(i: Instruction, run: Callable[[], Any]) -> Callable[[], Any]:
            effects = effects_of(i)
            written = {(o.kind, o.index + k) for o in effects.writes for k in range(o.count)}
            read = {(o.kind, o.index + k) for o in effects.reads for k in range(o.count)}

            def audited() -> Any:
                files = {"v": state.vector, "a": state.accumulation, "s": state.scalar}
                before = {kind: file.copy() for kind, file in files.items()}
                scc = state.scc.copy()
                result = run()
                for kind, file in files.items():
                    changed = np.flatnonzero((file != before[kind]).any(axis=(1, 2)))
                    assert {(kind, int(n)) for n in changed} <= written, (str(i), changed)
                if not np.array_equal(scc, state.scc):
                    assert ("s", SCC) in written, str(i)
                if ("s", EXEC) in read | written:
                    self.names.add("exec")
                self.names.add(i.name)
                return result

            return audited

        batch.instrument(wrap)

    def finished(self, record: Any) -> None:
        """Nothing to do."""


@pytest.fixture(params=["gfx942", "gfx950", "gfx1100", "gfx1201"])
def auditor(request: pytest.FixtureRequest) -> Iterator[Auditor]:
    made = Auditor()
    with scope(FLYDSL_TARGET=request.param), watching(lambda *_: made):
        yield made


@flyc.kernel
def mixed_kernel(X: fx.Tensor, Y: fx.Tensor, Z: fx.Tensor, n: fx.Int32):
    """Arithmetic of many kinds, divergence, loops, lanes, LDS, atomics and output."""
    shared = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 64])
    i = fx.thread_idx.x
    x = X[i]
    value = fx.math.sin(x) + fx.exp(x) / (x * x + 1.0)
    value = value + fx.gpu.shuffle_xor(value, 5, 32)
    shared[i] = value
    fx.gpu.barrier()
    total = shared[63 - i]
    count = Y[i]
    steps = fx.Int32(0)
    while count > 1:
        if count % 2 == 0:
            count = count // 2
        else:
            count = 3 * count + 1
        steps = steps + 1
    wide = fx.Int64(steps) * fx.Int64(n) // (fx.Int64(i) + 1)
    fx.atomic_add(Z.iter, fx.Int32(wide))
    half = fx.Float16(total) * fx.Float16(0.5)
    if steps > 100:
        fx.printf("{} {}\n", i, steps)
    X[i] = fx.Float32(half) + fx.Float32(fx.Float64(x) * fx.Float64(total))
    Y[i] = steps


@flyc.jit
def mixed(X: fx.Tensor, Y: fx.Tensor, Z: fx.Tensor, n: fx.Int32):
    mixed_kernel(X, Y, Z, n).launch(grid=(1,), block=(64,))


def test_nothing_else_is_written(auditor: Auditor, capsys: pytest.CaptureFixture[str]) -> None:
    y = np.arange(1, 65, dtype=np.int32)
    mixed(np.linspace(-3, 3, 64, dtype=np.float32), y, np.zeros(1, np.int32), 1000)
    assert y[26] == 111  # 27 takes 111 steps
    assert "26 111\n" in capsys.readouterr().out
    assert len(auditor.names) > 60
    assert "exec" in auditor.names
