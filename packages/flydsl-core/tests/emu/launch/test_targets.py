"""Choosing the target, limits of the architectures, resource reports and dumps on real targets."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
from flydsl import config
from flydsl.errors import TargetError


@flyc.kernel
def fill_kernel(x: fx.Tensor, floats: fx.Constexpr[int]):
    i = fx.thread_idx.x
    shared = fx.SharedAllocator().allocate(fx.Array[fx.Float32, floats])
    shared[i] = 2.0
    fx.gpu.barrier()
    x[i] = shared[63 - i]


@flyc.jit
def fill(x: fx.Tensor, floats: fx.Constexpr[int]):
    fill_kernel(x, floats).launch(grid=(1,), block=(64, 1, 1))


@pytest.mark.parametrize(("name", "fits"), [("gfx942", False), ("gfx950", True)])
def test_shared_memory_over_the_limit_is_refused_at_the_user_s_line(name, fits):
    x = np.zeros(64, np.float32)
    with config.scope(FLYDSL_TARGET=name):
        if fits:
            fill(x, 20000)
            assert (x == 2).all()
            return
        with pytest.raises(TargetError, match="80000") as caught:
            fill(x, 20000)
    assert "65536" in str(caught.value)
    assert caught.value.location.file == __file__


def test_one_function_follows_the_target():
    x = np.zeros(64, np.float32)
    names = []
    for name in ("gfx942", "gfx950", "gfx942"):
        with config.scope(FLYDSL_TARGET=name):
            fill(x, 64)
            names.append(flyc.compile(fill, x, 64).code.target.arch)
    assert names == ["gfx942", "gfx950", "gfx942"]


@pytest.mark.parametrize("name", ["gfx999", "gfx942:sramecc"])
def test_unknown_architectures_and_features(name):
    with config.scope(FLYDSL_TARGET=name), pytest.raises(TargetError, match="gfx9") as caught:
        fill(np.zeros(64, np.float32), 64)
    assert caught.value.location.file == __file__


def test_resources_are_a_python_object(target):
    compiled = flyc.compile(fill, np.zeros(64, np.float32), 256)
    (info,) = compiled.kernels
    assert info.name == "fill_kernel_0"
    assert info.lds_static == 1024
    assert 0 < info.vgpr <= 32
    assert info.sgpr > 0
    assert info.spills == 0
    assert info.waves_per_simd >= 1
    assert info.wave_size == (64 if target.startswith("gfx9") else 32)
    assert info.required_block == (64, 1, 1) or info.max_threads == 64


def test_dumps_hold_isa_and_the_code_object(target, tmp_path):
    with config.scope(COMPILE_ONLY=True, FLYDSL_DUMP_IR=True, FLYDSL_DUMP_DIR=tmp_path):
        compiled = flyc.compile(fill, np.zeros(64, np.float32), 128)
        assert compiled.hsaco[:4] == b"\x7fELF"
    (folder,) = tmp_path.iterdir()
    files = {path.name[3:]: path for path in folder.iterdir()}
    assert f"--{target}" in files["device.s"].read_text()
    assert "amdgpu_kernel" in files["device.ll"].read_text()
    assert files["kernels.hsaco"].read_bytes()[:4] == b"\x7fELF"
    assert "fly_stub" in files["host.ll"].read_text()
    assert "convert-fly-to-rocdl.mlir" in files


_PROGRAM = """
import numpy as np
import flydsl.compiler as flyc
import flydsl.expr as fx

@flyc.kernel
def kernel(x: fx.Tensor):
    x[fx.thread_idx.x] = 5.0

@flyc.jit
def launch(x: fx.Tensor):
    kernel(x).launch(grid=(1,), block=(4, 1, 1))

x = np.zeros(4, np.float32)
launch(x)
launch(x[:2].copy().repeat(2))
launch(np.zeros((4,), np.float64))
print(x.sum())
"""


def program(tmp_path, **environment):
    path = tmp_path / "program.py"
    path.write_text(_PROGRAM)
    clean = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("FLYDSL") and name not in ("ARCH", "COMPILE_ONLY")
    }
    return subprocess.run(
        [sys.executable, "-W", "error", str(path)],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_default_target_is_announced_once(tmp_path):
    done = program(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "20.0\n"
    assert len(done.stderr.splitlines()) == 1
    assert "gfx942" in done.stderr
    assert "FLYDSL_TARGET" in done.stderr


@pytest.mark.parametrize("name", ["ARCH", "FLYDSL_GPU_ARCH", "FLYDSL_TARGET"])
def test_a_named_target_needs_no_notice(tmp_path, name):
    done = program(tmp_path, **{name: "gfx950"})
    assert (done.returncode, done.stdout, done.stderr) == (0, "20.0\n", "")


def test_only_compiling_without_a_target_is_an_error(tmp_path):
    done = program(tmp_path, COMPILE_ONLY="1")
    assert done.returncode == 1
    assert "no target is named" in done.stderr
    assert "FLYDSL_TARGET" in done.stderr
    done = program(tmp_path, COMPILE_ONLY="1", ARCH="gfx950")
    assert (done.returncode, done.stdout, done.stderr) == (0, "0.0\n", "")
