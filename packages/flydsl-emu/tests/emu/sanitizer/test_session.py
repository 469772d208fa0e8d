"""Turning the sanitizer on, and what it says of kernels written in FlyDSL."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl_emu
from flydsl.cli.app import run
from flydsl.config import scope
from flydsl.errors import FlyDSLError, UserValueError
from flydsl_emu.sanitizer import SanitizerError, SanitizerWarning

THREADS = 256


@flyc.kernel
def mirror(X: fx.Tensor, Y: fx.Tensor, ordered: fx.Constexpr[bool]):
    thread = fx.thread_idx.x
    tile = fx.SharedAllocator().allocate(fx.Array[fx.Float32, THREADS])
    tile[thread] = X[thread]
    if fx.const_expr(ordered):
        fx.gpu.barrier()
    Y[thread] = tile[THREADS - 1 - thread]


@flyc.jit
def launch_mirror(X: fx.Tensor, Y: fx.Tensor, ordered: fx.Constexpr[bool]):
    mirror(X, Y, ordered).launch(grid=(1,), block=(THREADS,))


@flyc.kernel
def half_filled(Y: fx.Tensor, upto: fx.Int32):
    thread = fx.thread_idx.x
    tile = fx.SharedAllocator().allocate(fx.Array[fx.Float32, THREADS])
    if thread < upto:
        tile[thread] = 1.0
    fx.gpu.barrier()
    Y[thread] = tile[THREADS - 1 - thread] + 1.0


@flyc.jit
def launch_half_filled(Y: fx.Tensor, upto: fx.Int32):
    half_filled(Y, upto).launch(grid=(1,), block=(THREADS,))


@flyc.kernel
def past_the_end(Y: fx.Tensor, n: fx.Int32):
    thread = fx.thread_idx.x
    Y[thread + n] = 1.0


@flyc.jit
def launch_past_the_end(Y: fx.Tensor, n: fx.Int32):
    past_the_end(Y, n).launch(grid=(1,), block=(64,))


@flyc.kernel
def lonely_barrier(Y: fx.Tensor, upto: fx.Int32):
    thread = fx.thread_idx.x
    if thread < upto:
        fx.gpu.barrier()
    Y[thread] = 1.0


@flyc.jit
def launch_lonely_barrier(Y: fx.Tensor, upto: fx.Int32):
    lonely_barrier(Y, upto).launch(grid=(1,), block=(THREADS,))


def arrays() -> tuple[Any, Any]:
    x = np.random.default_rng().random(THREADS, np.float32)
    return x, np.zeros_like(x)


def line_of(text: str) -> int:
    """Return the only line that is this text, blanks apart."""
    lines = [line.strip() for line in Path(__file__).read_text().splitlines()]
    assert lines.count(text) == 1
    return lines.index(text) + 1


@pytest.fixture(params=["gfx942", "gfx950", "gfx1100", "gfx1201"], autouse=True)
def target(request: pytest.FixtureRequest) -> Any:
    with scope(FLYDSL_TARGET=request.param):
        yield request.param


def test_right_kernel_has_no_findings() -> None:
    x, y = arrays()
    with flydsl_emu.sanitize() as report:
        launch_mirror(x, y, True)
    assert not report
    assert len(report) == 0
    assert str(report) == "no findings"
    assert np.array_equal(y, x[::-1])


def test_race_is_raised_at_the_launch() -> None:
    x, y = arrays()
    with flydsl_emu.sanitize("race") as report, pytest.raises(SanitizerError) as caught:
        launch_mirror(x, y, ordered=False)
    assert caught.value.code == "FLY-U733"
    assert caught.value.location is not None
    assert caught.value.location.line == line_of("launch_mirror(x, y, ordered=False)")
    (finding, *_) = caught.value.findings
    assert finding in report.findings
    assert finding.check == "race"
    assert finding.place.workgroup == (0, 0, 0)
    assert finding.other is not None
    assert finding.other.wave != finding.place.wave


def test_race_is_raised_at_the_line_of_the_kernel_with_a_line_table() -> None:
    x, y = arrays()
    with (
        scope(FLYDSL_DEBUG_INFO=True),
        flydsl_emu.sanitize("race"),
        pytest.raises(SanitizerError) as caught,
    ):
        launch_mirror(x, y, False)
    read, written = (
        line_of("Y[thread] = tile[THREADS - 1 - thread]"),
        line_of("tile[thread] = X[thread]"),
    )
    assert caught.value.location is not None
    assert caught.value.location.line == read
    finding = caught.value.findings[0]
    assert finding.place.source is not None
    assert finding.place.source.startswith(f"{__file__}:{read}")
    assert finding.other is not None
    assert finding.other.source is not None
    assert finding.other.source.startswith(f"{__file__}:{written}")


def test_faults_point_at_the_line_of_the_kernel_with_a_line_table() -> None:
    y = np.zeros(64, np.float32)
    for debug, line in ((True, "Y[thread + n] = 1.0"), (False, "launch_past_the_end(y, 5)")):
        with scope(FLYDSL_DEBUG_INFO=debug), pytest.raises(FlyDSLError) as caught:
            launch_past_the_end(y, 5)
        assert caught.value.code == "FLY-U711"
        assert caught.value.location is not None
        assert caught.value.location.file == __file__
        assert caught.value.location.line == line_of(line)


def test_undefined_lds_is_found_where_it_is_stored() -> None:
    y = np.zeros(THREADS, np.float32)
    with flydsl_emu.sanitize(action="collect") as report:
        launch_half_filled(y, THREADS)
        assert not report
        launch_half_filled(y, THREADS - 1)
    assert [f.code for f in report.findings] == ["FLY-U734"]
    assert report.findings[0].place.lane == 0
    assert report.findings[0].place.wave == 0


def test_neighbouring_tensor_is_out_of_bounds_only_for_faults() -> None:
    """A fault is a finding too, and still an error."""
    y = np.zeros(64, np.float32)
    with (
        flydsl_emu.sanitize("oob", action="collect") as report,
        pytest.raises(FlyDSLError, match="past the end"),
    ):
        launch_past_the_end(y, 1)
    assert [f.code for f in report.findings] == ["FLY-U735"]
    assert report.findings[0].place.lane in (31, 63)


@pytest.mark.parametrize(("upto", "finds"), [(THREADS, False), (64, True), (10, True)])
def test_barriers_that_not_all_threads_reach(upto: int, finds: bool) -> None:
    y = np.zeros(THREADS, np.float32)
    with flydsl_emu.sanitize("barrier", action="collect") as report:
        launch_lonely_barrier(y, upto)
    assert [f.code for f in report.findings][:1] == (["FLY-U736"] if finds else [])


def test_environment_turns_it_on() -> None:
    x, y = arrays()
    launch_mirror(x, y, False)
    with scope(FLYDSL_SANITIZE="race,init"), pytest.raises(SanitizerError):
        launch_mirror(x, y, False)
    with scope(FLYDSL_SANITIZE="oob"):
        launch_mirror(x, y, False)
    with (
        scope(FLYDSL_SANITIZE="all", FLYDSL_SANITIZE_ACTION="warn"),
        pytest.warns(SanitizerWarning, match="FLY-U733"),
    ):
        launch_mirror(x, y, False)
    with scope(FLYDSL_SANITIZE="races"), pytest.raises(UserValueError, match="no such check"):
        launch_mirror(x, y, True)


def test_inner_block_decides_and_the_outer_one_sees() -> None:
    x, y = arrays()
    with scope(FLYDSL_SANITIZE="all"), flydsl_emu.sanitize("race,init", "collect") as outer:
        with flydsl_emu.sanitize("oob", action="raise") as inner:
            launch_mirror(x, y, False)
        assert not inner
        assert [f.code for f in outer.findings] == ["FLY-U733"]


def test_unknown_names_are_refused() -> None:
    for checks, action in (("all,speed", "raise"), ("", "raise"), ("all", "ignore")):
        with pytest.raises(UserValueError) as caught, flydsl_emu.sanitize(checks, action):
            pass
        assert caught.value.code == "FLY-U739"


def test_json_has_both_sides() -> None:
    x, y = arrays()
    with flydsl_emu.sanitize("race", "collect") as report:
        launch_mirror(x, y, False)
    (entry,) = json.loads(report.to_json())
    assert entry["check"] == "race"
    assert entry["place"]["workgroup"] == [0, 0, 0]
    assert entry["other"]["instruction"].startswith("ds_")


def test_observers_leave_results_and_reports_alone() -> None:
    """Checks run some instructions more than once; what a launch does stays the same."""
    x, y = arrays()
    with flydsl_emu.collect() as plain:
        launch_mirror(x, y, True)
    z = np.zeros_like(y)
    with flydsl_emu.collect() as checked, flydsl_emu.sanitize():
        launch_mirror(x, z, True)
    assert np.array_equal(y, z)
    assert plain[0].instructions == checked[0].instructions


SCRIPT = """
import sys
sys.path.insert(0, {folder!r})
import numpy as np
from test_session import launch_mirror
x = np.ones(256, np.float32)
launch_mirror(x, np.zeros_like(x), sys.argv[1] == "ordered")
print("ran", sys.argv[1])
"""


@pytest.mark.parametrize(("argument", "code"), [("ordered", 0), ("racing", 1)])
def test_command_line(
    tmp_path: Path, argument: str, code: int, target: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if target != "gfx942":
        return
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(folder=str(Path(__file__).parent)))
    out = tmp_path / "findings.json"
    command = ["run", "--sanitize", "--target", target, "--json", str(out), str(script), argument]
    assert run(command) == code
    printed = capsys.readouterr()
    assert f"ran {argument}" in printed.out
    assert ("FLY-U733" in printed.err) == (code == 1)
    assert len(json.loads(out.read_text())) == code
    assert run(["run", str(script), argument]) == 0
    assert run(["run", "--json", "-", str(script), argument]) == 1
    assert "FLY-U739" in capsys.readouterr().err
    command[command.index(str(out))] = "-"
    assert run(command) == code
    printed = capsys.readouterr()
    assert len(json.loads(printed.out)) == code
    assert f"ran {argument}" in printed.err
    command[command.index("-")] = str(tmp_path)
    assert run(command) == 1
    printed = capsys.readouterr()
    assert "cannot be written: Is a directory [FLY-U525]" in printed.err
    assert ("FLY-U733" in printed.err) == (code == 1)


PLUGIN_TEST = """
import numpy as np, pytest
from flydsl_emu.sanitizer import SanitizerError
from test_session import launch_mirror

x = np.ones(256, np.float32)
x[3] = 2

def test_plain():
    launch_mirror(x, np.zeros_like(x), False)

def test_fixture(sanitized):
    launch_mirror(x, np.zeros_like(x), True)
    with pytest.raises(SanitizerError):
        launch_mirror(x, np.zeros_like(x), False)
    assert len(sanitized) == 1
"""


def test_pytest_plugin(tmp_path: Path, target: str) -> None:
    if target != "gfx942":
        return
    (tmp_path / "test_it.py").write_text(PLUGIN_TEST)
    (tmp_path / "pytest.ini").write_text(f"[pytest]\npythonpath = {Path(__file__).parent}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "flydsl_emu.pytest_plugin"]
    command += ["-p", "no:cacheprovider", "-p", "no:xdist", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "2 passed" in done.stdout, done.stdout
    command.append("--flydsl-sanitize")
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert "1 failed, 1 passed" in done.stdout, done.stdout
    assert "FLY-U733" in done.stdout
