"""The first call of a process out of the cache."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap

import pytest

PROGRAM = """
import flydsl.compiler as flyc
import flydsl.expr as fx

FACTOR = 2.0

@flyc.kernel
def kernel(A: fx.Tensor, n: fx.Int32, alpha: fx.Float32):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < n:
        A[i] = A[i] * alpha + FACTOR

@flyc.jit
def launch(A: fx.Tensor, n: fx.Int32, alpha: fx.Float32, block: fx.Constexpr[int] = 64):
    kernel(A, n, alpha).launch(grid=((n + block - 1) // block,), block=(block,))
"""

RUN = """
import ctypes, json, sys
sys.path.insert(0, {folder!r})
import program
stub = ctypes.CDLL({stub!r})
stub.stub_launches.restype = ctypes.c_uint64
stub.stub_elements.restype = ctypes.c_void_p
stub.stub_tensor.argtypes = [ctypes.c_int64, ctypes.c_int64]
capsule = ctypes.pythonapi.PyCapsule_New
capsule.restype = ctypes.py_object
capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]

class Tensor:
    __dlpack_c_exchange_api__ = capsule(
        ctypes.addressof(ctypes.c_char.in_dll(stub, "stub_exchange")), b"dlpack_exchange_api", None
    )

    def __init__(self, extent=100, step=1):
        stub.stub_tensor(extent, step)
        self.__array_interface__ = dict(
            shape=(extent,), typestr="<f4", data=(stub.stub_elements(), False),
            strides=(4 * step,), version=3,
        )

{setup}
launches = stub.stub_launches()
program.launch({arguments})
first = stub.stub_launches() - launches
program.launch({arguments})
print(json.dumps({{
    "first": first,
    "both": stub.stub_launches() - launches,
    "plugins": "pluggy" in sys.modules,
    "compiler": "mlir" in sys.modules,
}}))
"""


@pytest.fixture
def run(tmp_path, stub_path, monkeypatch):
    """Run the program in a new process; return what it launched and imported."""
    for name, value in {
        "FLYDSL_HIP_LIBRARY": str(stub_path),
        "FLYDSL_HIP_HOST_TENSORS": "1",
        "FLYDSL_DEVICE": "hip",
        "FLYDSL_RUNTIME_ENABLE_CACHE": "1",
        "FLYDSL_RUNTIME_CACHE_DIR": str(tmp_path / "cache"),
    }.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "program.py").write_text(PROGRAM)

    def run_(arguments="Tensor(), 100, 0.5", setup="", program=None):
        if program is not None:
            (tmp_path / "program.py").write_text(program)
        script = textwrap.dedent(RUN).format(
            folder=str(tmp_path), stub=str(stub_path), arguments=arguments, setup=setup
        )
        done = subprocess.run(
            [sys.executable, "-B", "-c", script], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        seen = json.loads(done.stdout)
        assert (seen["first"], seen["both"]) == (1, 2)
        return seen["plugins"], seen["compiler"]

    return run_


COMPILED, FOUND, STARTED = (True, True), (True, False), (False, False)


def test_only_what_is_the_same_starts_at_once(run):
    assert run() == COMPILED
    assert run() == STARTED
    # Other values of run-time arguments are the same kind of call.
    assert run("Tensor(200), 3, 0.25") == STARTED
    assert run("Tensor(), 100, 0.5, 64") == STARTED
    # Another kind of call goes the full way, once.
    assert run("Tensor(100, 2), 100, 0.5") == COMPILED
    assert run("Tensor(100, 2), 100, 0.5") == STARTED
    assert run("Tensor(), 100, 0.5, 128") == COMPILED
    # And so does a changed program, until it is changed back.
    assert run(program=PROGRAM.replace("FACTOR = 2.0", "FACTOR = 3.0")) == COMPILED
    assert run(program=PROGRAM) == STARTED


def test_the_device_and_the_settings_are_compared(run, monkeypatch):
    assert run() == COMPILED
    other = "stub.stub_arch(0, b'gfx950:sramecc+:xnack-')"
    assert run(setup=other) == COMPILED
    # The two devices share the key of what the call shows: the last one to compile has it.
    assert run(setup=other) == STARTED
    assert run() == FOUND
    monkeypatch.setenv("FLYDSL_COMPILE_OPT_LEVEL", "1")
    assert run() == COMPILED
    monkeypatch.setenv("FLYDSL_RUNTIME_ENABLE_CACHE", "0")
    assert run() == COMPILED
    assert run(setup="from flydsl import config; config.scope(FLYDSL_VERIFY=True).__enter__()") == (
        COMPILED
    )


def test_what_cannot_be_read_natively_is_found_the_full_way(run):
    arrays = "__import__('numpy').ones(100, 'f'), 100, 0.5"
    assert run(arrays) == COMPILED
    assert run(arrays) == FOUND


PLAN = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Plan:
    block: int

    @property
    def grid(self):
        return self.block * 1

""" + PROGRAM.replace(
    "block: fx.Constexpr[int] = 64", "block: fx.Constexpr[Plan] = Plan(64)"
).replace("block=(block,)", "block=(block.block,)").replace(
    "n + block - 1", "n + block.grid - 1"
).replace("// block,", "// block.block,")


def test_objects_as_compile_time_arguments_count_with_their_classes(run):
    assert run(program=PLAN) == COMPILED
    assert run() == STARTED
    assert run("Tensor(), 100, 0.5, program.Plan(32)") == COMPILED
    assert run("Tensor(), 100, 0.5, program.Plan(32)") == STARTED
    assert run(program=PLAN.replace("* 1", "* 2")) == COMPILED
    assert run(program=PLAN) == STARTED


STRUCT = """
import flydsl.compiler as flyc
import flydsl.expr as fx

@fx.struct
class Inputs(fx.Struct):
    a: fx.Tensor
    count: fx.Int32
    width: fx.Constexpr[int]
    alpha: fx.Float32
    bias: fx.Tensor | None = None

    def scaled(self, x):
        return x * self.alpha

@flyc.kernel
def kernel(p: Inputs):
    i = fx.block_idx.x * 64 + fx.thread_idx.x
    if i < p.count:
        p.a[i] = p.scaled(p.a[i]) + p.width
        if p.bias is not None:
            p.a[i] = p.a[i] + p.bias[i]

@flyc.jit
def launch(p: Inputs):
    kernel(p).launch(grid=((p.count + 63) // 64,), block=(64,))
"""


def test_structs_start_at_once(run):
    def given(fields):
        return f"program.Inputs({fields})"

    assert run(given("Tensor(), 100, 3, 0.5"), program=STRUCT) == COMPILED
    assert run(given("Tensor(), 100, 3, 0.5")) == STARTED
    assert run(given("Tensor(60), 7, 3, 2.5")) == STARTED
    assert run(given("Tensor(), 100, 3, 0.5, Tensor()")) == COMPILED
    assert run(given("Tensor(), 100, 3, 0.5, Tensor()")) == STARTED
    assert run(given("Tensor(), 100, 3, 0.5, None")) == STARTED
    assert run(given("Tensor(), 100, 4, 0.5")) == COMPILED
    assert run(given("Tensor(100, 2), 100, 3, 0.5")) == COMPILED
    assert run(given("Tensor(), 100, 3, 0.5"), program=STRUCT.replace("x * s", "x + s")) == COMPILED
    assert run(given("Tensor(), 100, 3, 0.5"), program=STRUCT) == STARTED


def test_sources_of_editable_plugins_count_where_they_take_part(run, tmp_path):
    project = tmp_path / "project"
    for name in ("used_plugin", "unused_part"):
        (project / "src" / name).mkdir(parents=True)
        (project / "src" / name / "__init__.py").write_text("")
    info = tmp_path / "aplugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: aplugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[flydsl]\naplugin = used_plugin\n")
    described = {"url": project.as_uri(), "dir_info": {"editable": True}}
    (info / "direct_url.json").write_text(json.dumps(described))
    path = f"sys.path.append({str(project / 'src')!r})"
    assert run(setup=path) == COMPILED
    assert run(setup=path) == STARTED
    (project / "src" / "unused_part" / "__init__.py").write_text("a = 1")
    assert run(setup=path) == STARTED
    (project / "src" / "used_plugin" / "__init__.py").write_text("a = 1")
    assert run(setup=path) == COMPILED
    assert run(setup=path) == STARTED
    # A new module changes the list of the sources, but no folder that was used.
    (project / "src" / "unused_part" / "more.py").write_text("")
    assert run(setup=path) == STARTED
    (project / "src" / "used_plugin" / "more.py").write_text("")
    assert run(setup=path) == COMPILED
    info.rename(tmp_path / "aplugin-1.1.dist-info")
    assert run(setup=path) == COMPILED


def test_damage_goes_the_full_way(run, tmp_path):
    assert run() == COMPILED
    for entry in (tmp_path / "cache").glob("??/*.entry"):
        entry.write_bytes(b"torn")
    assert run() == COMPILED
    assert run() == STARTED


def test_plugins_that_are_in_use_decide(run):
    assert run() == COMPILED
    used = "from flydsl.plugins.manager import plugin_manager; plugin_manager()"
    assert run(setup=used) == FOUND


def test_the_namespace_of_amd_gpus_reads_the_launch_path_and_opens_no_library(monkeypatch):
    """Programs written with it have first calls that read no module; importing needs no HIP."""
    monkeypatch.setenv("FLYDSL_HIP_LIBRARY", "/nowhere/libamdhip64.so")
    code = (
        "import sys, flydsl_rocdl.expr\n"
        "print(*sorted(name for name in sys.modules if name.startswith('flydsl_rocdl.hip')))"
    )
    command = [sys.executable, "-c", code]
    out = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert out.split() == ["flydsl_rocdl.hip", "flydsl_rocdl.hip.core"]
