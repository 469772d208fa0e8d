"""The cross-check by `llvm-mca`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from flydsl.cli import main
from flydsl.config import scope
from flydsl.errors import TargetError
from flydsl_emu.report import static_reports

PROGRAM = shutil.which("llvm-mca-22")
needs_mca = pytest.mark.skipif(PROGRAM is None, reason="llvm-mca-22 is not installed")
LOOP = """
declare <4 x float> @llvm.amdgcn.mfma.f32.16x16x16f16(<4 x half>, <4 x half>, <4 x float>, i32,
                                                      i32, i32)
define amdgpu_kernel void @k(ptr addrspace(1) %p, ptr addrspace(1) %q, i32 %n) {
  %a = load <4 x half>, ptr addrspace(1) %p
  br label %loop
loop:
  %i = phi i32 [ 0, %0 ], [ %j, %loop ]
  %c = phi <4 x float> [ zeroinitializer, %0 ], [ %e, %loop ]
  %d = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x16f16(<4 x half> %a, <4 x half> %a,
                                                          <4 x float> %c, i32 0, i32 0, i32 0)
  %e = call <4 x float> @llvm.amdgcn.mfma.f32.16x16x16f16(<4 x half> %a, <4 x half> %a,
                                                          <4 x float> %d, i32 0, i32 0, i32 0)
  %j = add i32 %i, 1
  %more = icmp slt i32 %j, %n
  br i1 %more, label %loop, label %end
end:
  store <4 x float> %e, ptr addrspace(1) %q
  ret void
}
"""


@needs_mca
@pytest.mark.parametrize("arch", ["gfx942", "gfx950"])
def test_a_loop_of_dependent_products(arch: str, compile_ir: Callable[[str, str], bytes]) -> None:
    (report,) = static_reports(compile_ir(LOOP, arch), mca=PROGRAM)
    (loop,) = report.loops
    assert loop.mca is not None
    # Each of the two products keeps the matrix core for its four passes and waits for the other.
    assert loop.static_instructions["mfma"] == 2
    assert loop.mca.busy["HWXDL"] == 8
    assert loop.mca.cycles >= 8
    assert 0.3 < loop.mca.matrix_share <= 1
    assert "llvm-mca:" in str(report)


@needs_mca
def test_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], compile_ir: Callable[[str, str], bytes]
) -> None:
    path = tmp_path / "k.hsaco"
    path.write_bytes(compile_ir(LOOP, "gfx942"))
    assert main(["report", "--mca", "--json", str(path)]) == 0
    (report,) = json.loads(capsys.readouterr().out)
    assert report["loops"][0]["mca"]["busy"]["HWXDL"] == 8
    assert main(["report", "--json", str(path)]) == 0
    assert json.loads(capsys.readouterr().out)[0]["loops"][0]["mca"] is None


def test_an_analyser_that_does_not_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], compile_ir: Callable[[str, str], bytes]
) -> None:
    code = compile_ir(LOOP, "gfx942")
    missing = tmp_path / "llvm-mca"
    with pytest.raises(TargetError) as error:
        static_reports(code, mca=str(missing))
    assert error.value.code == "FLY-T707"
    missing.write_text("#!/bin/sh\necho sorry >&2\nexit 3\n")
    missing.chmod(0o755)
    path = tmp_path / "k.hsaco"
    path.write_bytes(code)
    with scope(FLYDSL_EMU_LLVM_MCA=str(missing)):
        assert main(["report", "--mca", str(path)]) == 1
    assert "sorry" in capsys.readouterr().err
