"""Line tables of our own compiler, through the whole pipeline."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
from flydsl.config import scope
from flydsl_emu.codeobject import SourceLine, read_code_object
from flydsl_emu.decode import decode

SOURCE = Path(__file__).with_name("tiled_kernel.py")


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def lines_of(compiled: Any) -> list[SourceLine | None]:
    code = read_code_object(compiled.code.data)
    table = code.line_table()
    return [
        table.find(i.pc)
        for kernel in code.kernels.values()
        for i in decode(kernel.arch, kernel.code, kernel.address)
    ]


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_nearly_every_instruction_of_a_tiled_kernel_has_a_line(arch: str) -> None:
    module = load(SOURCE, "debug_tiled_kernel")
    a = np.ones((32, 32), np.float32)
    with scope(FLYDSL_DEBUG_INFO=True, FLYDSL_TARGET=arch):
        found = lines_of(flyc.compile(module.launch, a, a, a, 32))
    known = [x for x in found if x is not None]
    assert len(known) >= 0.99 * len(found)
    assert sum(x.exact for x in known) >= 0.9 * len(found)
    assert {x.file for x in known} == {str(SOURCE)}
    source = SOURCE.read_text().splitlines()
    texts = {source[x.line - 1].strip() for x in known}
    assert "total = total + tile_a[y * TILE + k] * tile_b[k * TILE + x]" in texts
    assert "tile_a[y * TILE + x] = A[row, step * TILE + x]" in texts
    assert "C[row, column] = total" in texts


@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_nearly_every_instruction_of_a_tiled_product_has_a_line(arch: str) -> None:
    path = SOURCE.with_name("tiled_mma_kernel.py")
    module = load(path, "debug_tiled_mma_kernel")
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal((128, 96)).astype(np.float16) for _ in range(2))
    c = np.zeros((128, 128), np.float32)
    with scope(FLYDSL_DEBUG_INFO=True, FLYDSL_TARGET=arch):
        module.launch(a, b, c, 3)
        compiled = flyc.compile(module.launch, a, b, c, 3)
    np.testing.assert_allclose(c, a.astype(np.float64) @ b.T.astype(np.float64), rtol=0, atol=1e-4)
    found = lines_of(compiled)
    known = [x for x in found if x is not None]
    assert len(known) >= 0.99 * len(found)
    assert {x.file for x in known} == {str(path)}
    assert compiled.isa.count("v_mfma") >= 8
    assert compiled.isa.count(".loc") > 10
    source = path.read_text().splitlines()
    texts = [source[x.line - 1].strip() for x in known]
    assert texts.count("fx.gemm(mma, c, a, b, c)") >= 8
    assert "fx.copy(read_a, from_a, read_a.retile(a))" in texts
    assert "fx.copy(store, c, mma.get_slice(thread).partition_C(tile_c))" in texts


def test_lines_of_a_function_in_another_file(tmp_path: Path) -> None:
    (tmp_path / "debug_helper.py").write_text(
        "import flydsl.expr as fx\n\n\ndef squash(x):\n    return fx.math.tanh(x) + 2.0\n"
    )
    load(tmp_path / "debug_helper.py", "debug_helper")
    main = tmp_path / "debug_main.py"
    main.write_text(
        "import flydsl.compiler as flyc\n"
        "import flydsl.expr as fx\n"
        "from debug_helper import squash\n\n\n"
        "@flyc.kernel\n"
        "def k(X: fx.Tensor):\n"
        "    i = fx.thread_idx.x\n"
        "    X[i] = squash(X[i])\n\n\n"
        "@flyc.jit\n"
        "def launch(X: fx.Tensor):\n"
        "    k(X).launch(grid=(1,), block=(64,))\n"
    )
    module = load(main, "debug_main")
    with scope(FLYDSL_DEBUG_INFO=True, FLYDSL_TARGET="gfx942"):
        found = lines_of(flyc.compile(module.launch, np.ones(64, np.float32)))
    places = {(Path(x.file).name, x.line) for x in found if x is not None}
    assert ("debug_helper.py", 5) in places
    assert ("debug_main.py", 9) in places


def test_without_the_setting_there_is_no_table() -> None:
    module = load(SOURCE, "debug_tiled_kernel")
    a = np.ones((16, 16), np.float32)
    with scope(FLYDSL_DEBUG_INFO=False, FLYDSL_TARGET="gfx942"):
        assert set(lines_of(flyc.compile(module.launch, a, a, a, 16))) == {None}
