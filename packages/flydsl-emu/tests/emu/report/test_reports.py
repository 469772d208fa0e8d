"""Reports of whole kernels: loops, coalescing, conflicts, barriers, occupancy; the command."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl_emu
from flydsl.cli import main
from flydsl.config import scope
from flydsl_emu.report import ExecutionReport, static_reports

SCRIPT = """
import sys

import numpy as np

import flydsl.compiler as flyc
import flydsl.expr as fx

PITCH = 32


@flyc.kernel
def transpose(X: fx.Tensor, Y: fx.Tensor, pitch: fx.Constexpr[int]):
    tile = fx.SharedAllocator().allocate(fx.Array[fx.Float32, 32 * pitch])
    column = fx.thread_idx.x
    row = fx.thread_idx.y
    for k in range(fx.Int32(4)):
        tile[(row + 8 * k) * pitch + column] = X[row + 8 * k, column]
    fx.gpu.barrier()
    for k in range(fx.Int32(4)):
        Y[row + 8 * k, column] = tile[column * pitch + row + 8 * k]


@flyc.jit
def launch(X: fx.Tensor, Y: fx.Tensor, pitch: fx.Constexpr[int]):
    transpose(X, Y, pitch).launch(grid=(1,), block=(32, 8))


def run(pitch):
    memory = np.zeros(2 * 1024 + 32, np.float32)
    start = -memory.ctypes.data // 4 % 32
    x, y = (memory[start + k * 1024 : start + (k + 1) * 1024].reshape(32, 32) for k in (0, 1))
    x[:] = np.arange(1024, dtype=np.float32).reshape(32, 32)
    launch(x, y, pitch)
    assert np.array_equal(y, x.T)


if __name__ == "__main__":
    for text in sys.argv[1:]:
        run(int(text))
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "transpose_script.py"
    path.write_text(SCRIPT)
    return path


def reports_of(script: Path, *pitches: int) -> list[ExecutionReport]:
    from flydsl_emu.cli.report_command import run_script

    settings = scope(FLYDSL_TARGET="gfx942", FLYDSL_DEBUG_INFO=True)
    with settings, flydsl_emu.collect() as reports:
        run_script(str(script), [str(p) for p in pitches])
    return reports


def test_transpose_with_and_without_padding(script: Path) -> None:
    conflicted, padded = reports_of(script, 32, 33)
    for report in (conflicted, padded):
        by_space = {(t.space, t.direction): t for t in report.traffic}
        for direction in ("read", "write"):
            assert by_space["global", direction].requested_bytes == 4096
            assert by_space["global", direction].line_bytes == 4096
            assert by_space["global", direction].coalescing == 1.0
            assert by_space["lds", direction].requested_bytes == 4096
        assert report.distinct_bytes == report.distinct_bytes_64 == 8192
        assert by_space["lds", "write"].conflict_ratio == 1.0
        assert report.barrier_imbalance == 0.0
    lds = {a.direction: a for a in conflicted.accesses if a.space == "lds"}
    # 32 lanes read a column: all in one bank.
    assert lds["read"].conflict_ratio == 32.0
    assert "transpose_script.py:" in lds["read"].source
    line = int(lds["read"].source.split(":")[1])
    assert "tile[column * pitch + row" in SCRIPT.splitlines()[line - 1]
    assert all(a.conflict_ratio == 1.0 for a in padded.accesses)
    assert "bank conflicts x32.00" in str(conflicted)
    assert "conflicts x1.00" in str(padded)


def test_loops_of_a_launch(script: Path) -> None:
    import importlib.util

    source = script.with_name("loop_script.py")
    source.write_text(
        "import flydsl.compiler as flyc\n"
        "import flydsl.expr as fx\n\n\n"
        "@flyc.kernel\n"
        "def k(X: fx.Tensor, n: fx.Int32):\n"
        "    i = fx.block_idx.x * 64 + fx.thread_idx.x\n"
        "    total = fx.Float32(0.0)\n"
        "    for j in range(n):\n"
        "        total = total * 0.5 + X[i]\n"
        "    X[i] = total\n\n\n"
        "@flyc.jit\n"
        "def launch(X: fx.Tensor, n: fx.Int32):\n"
        "    k(X, n).launch(grid=(2,), block=(64,))\n"
    )
    spec = importlib.util.spec_from_file_location("loop_script", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["loop_script"] = module
    spec.loader.exec_module(module)
    with scope(FLYDSL_TARGET="gfx942"), flydsl_emu.collect() as reports:
        module.launch(np.zeros(128, np.float32), 37)
    (report,) = reports
    assert report.loops
    for loop in report.loops:
        assert loop.instructions == {
            name: loop.iterations * n for name, n in loop.static_instructions.items()
        }
    executed = sum(sum(loop.instructions.values()) for loop in report.loops)
    assert 0.5 * report.total_instructions < executed < report.total_instructions
    assert report.mfma_share == 0
    assert json.loads(report.to_json())["loops"][0]["iterations"] > 0


def test_barrier_imbalance_of_a_kernel(compile_ir: Callable[[str, str], bytes]) -> None:
    """Wave 0 loops before the barrier; the others wait for it."""
    from flydsl_emu.dispatch import LoadedCode
    from flydsl_emu.execution import Geometry
    from flydsl_emu.observers import observers_of

    code = compile_ir(
        """
        declare i32 @llvm.amdgcn.workitem.id.x()
        declare i32 @llvm.amdgcn.readfirstlane(i32)
        declare void @llvm.amdgcn.s.barrier()
        define amdgpu_kernel void @k(i32 %n) "amdgpu-flat-work-group-size"="256,256" {
          %t = call i32 @llvm.amdgcn.workitem.id.x()
          %u = call i32 @llvm.amdgcn.readfirstlane(i32 %t)
          %first = icmp eq i32 %u, 0
          br i1 %first, label %loop, label %meet
        loop:
          %i = phi i32 [ 0, %0 ], [ %j, %loop ]
          call void @llvm.amdgcn.sched.barrier(i32 0)
          %j = add i32 %i, 1
          %more = icmp slt i32 %j, %n
          br i1 %more, label %loop, label %meet
        meet:
          call void @llvm.amdgcn.s.barrier()
          ret void
        }
        declare void @llvm.amdgcn.sched.barrier(i32)
        """,
        "gfx942",
    )
    from flydsl_emu.codeobject import read_code_object

    kernel = LoadedCode(read_code_object(code)).kernels["k"]
    geometry = Geometry((3, 1, 1), (256, 1, 1))
    shares = []
    for n in (1, 1000):
        with flydsl_emu.collect() as reports:
            observers = observers_of(kernel, geometry, ())
            assert observers is not None
            record = kernel.launch(geometry, n.to_bytes(4, "little"), (), observer=observers)
            observers.finished(record)
        shares.append(reports[0].barrier_imbalance)
    assert shares[0] < 0.5
    # Three of four waves wait nearly all the time.
    assert 0.70 < shares[1] <= 0.75


def test_the_command_runs_a_script(script: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with scope(FLYDSL_TARGET="gfx942"):
        assert main(["report", "--run", str(script), "32"]) == 0
        text = capsys.readouterr().out
        assert text.startswith("transpose_0 on gfx942")
        assert "model (not a measurement)" in text
        assert "(assumed: a wait for global memory)" in text
        talking = script.with_name("talking_script.py")
        talking.write_text(script.read_text() + "\nprint('done')\n")
        assert main(["report", "--json", "--run", str(talking), "32", "33"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "done\n"
    loaded = json.loads(printed.out)
    assert [r["resources"]["lds_bytes"] for r in loaded] == [4096, 4224]
    assert loaded[0]["model"]["constants"]["clock"]["source"].startswith("public")


def test_the_command_hints_at_the_option_for_scripts(
    script: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "script.txt"
    other.write_text("print()")
    for file, hinted in ((script, True), (other, False)):
        assert main(["report", str(file)]) == 1
        text = capsys.readouterr().err
        assert "FLY-T701" in text
        assert (f"flydsl report --run {file}" in text) == hinted


def test_the_command_reads_code_objects(
    compile_ir: Callable[[str, str], bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = compile_ir(
        """
        define amdgpu_kernel void @twice(ptr addrspace(1) %p, i32 %n) {
          br label %loop
        loop:
          %i = phi i32 [ 0, %0 ], [ %j, %loop ]
          %q = getelementptr i32, ptr addrspace(1) %p, i32 %i
          store volatile i32 %i, ptr addrspace(1) %q
          %j = add i32 %i, 1
          %more = icmp slt i32 %j, %n
          br i1 %more, label %loop, label %end
        end:
          ret void
        }
        define amdgpu_kernel void @other() { ret void }
        """,
        "gfx950",
    )
    path = tmp_path / "code.hsaco"
    path.write_bytes(code)
    assert main(["report", "--json", str(path)]) == 0
    reports: dict[str, Any] = {r["kernel"]: r for r in json.loads(capsys.readouterr().out)}
    assert sorted(reports) == ["other", "twice"]
    (loop,) = reports["twice"]["loops"]
    assert loop["static_instructions"]["vmem"] == 1
    assert loop["start"] > 0
    assert main(["report", "--kernel", "twice", str(path)]) == 0
    text = capsys.readouterr().out
    assert "loop +" in text
    assert "other" not in text
    (report,) = [r for r in static_reports(code) if r.kernel == "other"]
    assert sum(report.instructions.values()) == 1


def test_the_command_tells_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    empty = tmp_path / "empty.py"
    empty.write_text("pass\n")
    for arguments in (
        ["--run", str(empty)],
        ["--run", str(tmp_path / "missing.py")],
        [str(tmp_path / "missing.hsaco")],
        [str(empty)],
    ):
        assert main(["report", *arguments]) == 1
        assert "FLY-" in capsys.readouterr().err
