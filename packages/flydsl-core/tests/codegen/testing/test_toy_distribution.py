"""The toy target as a third party ships it: a wheel, installed by pip, found by entry point."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

import flydsl

FILES = {
    "flydsl_toy/__init__.py": '"""Exposes the toy target of flydsl.testing."""\n',
    "flydsl_toy-1.2.3.dist-info/METADATA": (
        "Metadata-Version: 2.1\nName: flydsl-toy\nVersion: 1.2.3\n"
    ),
    "flydsl_toy-1.2.3.dist-info/WHEEL": (
        "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    ),
    "flydsl_toy-1.2.3.dist-info/entry_points.txt": (
        "[flydsl]\ntoy = flydsl.testing.fake_target.plugin\n"
    ),
}
KERNEL = """
import sys

import flydsl.compiler as flyc
import flydsl.expr as fx
import numpy as np


@flyc.kernel
def add(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, n: fx.Int32):
    i = fx.block_idx.x * fx.block_dim.x + fx.thread_idx.x
    if i < n:
        C[i] = A[i] + B[i]


@flyc.jit
def launch(A: fx.Tensor, B: fx.Tensor, C: fx.Tensor, n: fx.Int32, block: fx.Constexpr[int]):
    add(A, B, C, n).launch(grid=((n + block - 1) // block,), block=(block, 1, 1))


count = 1003
a = np.arange(count, dtype=np.float32)
b = np.full(count, 0.5, dtype=np.float32)
c = np.zeros(count + 5, dtype=np.float32)
launch(a, b, c, count, 64)
assert (c[:count] == a + b).all(), c
assert (c[count:] == 0).all(), c
launch(b, b, c, count, 64)
assert (c[:count] == 1).all(), c
assert fx.toy.WARP_SIZE == 1
loaded = {"flydsl_rocdl", "flydsl_emu"} & set(sys.modules)
assert not loaded, loaded
print("ran")
"""


def build_wheel(folder: Path) -> Path:
    """Write the wheel of the distribution, which is a zip with a record of its files."""
    path = folder / "flydsl_toy-1.2.3-py3-none-any.whl"
    record = "flydsl_toy-1.2.3.dist-info/RECORD"
    lines = []
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in FILES.items():
            digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest())
            lines.append(f"{name},sha256={digest.decode().rstrip('=')},{len(text.encode())}")
            wheel.writestr(name, text)
        wheel.writestr(record, "\n".join([*lines, f"{record},,", ""]))
    return path


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("toy")
    site = folder / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    command += ["--disable-pip-version-check", "--target", str(site), str(build_wheel(folder))]
    subprocess.run(command, check=True, timeout=120)
    return site


@pytest.fixture
def python(installed, tmp_path):
    def run(*arguments, **variables):
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("FLYDSL", "ARCH"))}
        search = [str(installed), str(Path(flydsl.__file__).parents[1])]
        env = {
            **kept,
            "PYTHONPATH": os.pathsep.join(search),
            "FLYDSL_PLUGINS_DISABLE": "rocdl,emu",
            **variables,
        }
        return subprocess.run(
            [sys.executable, *arguments],
            env=env,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )

    return run


CLI = "import sys; from flydsl.cli import main; sys.exit(main())"


def test_the_installed_distribution_is_listed(python):
    run = python("-c", CLI, "plugins", "--json")
    assert run.returncode == 0, run.stderr
    (toy,) = (p for p in json.loads(run.stdout)["plugins"] if p["name"] == "toy")
    assert (toy["distribution"], toy["version"]) == ("flydsl-toy", "1.2.3")
    assert toy["targets"] == ["toy"]
    assert toy["runtimes"] == ["toy"]
    assert toy["passes"] == ["convert-fly-to-toy"]
    assert toy["namespaces"] == ["toy"]


def test_a_kernel_compiles_and_runs_on_the_installed_target(python, tmp_path):
    source = tmp_path / "kernel.py"
    source.write_text(KERNEL)
    run = python(str(source), FLYDSL_TARGET="toy")
    assert run.returncode == 0, run.stderr
    assert run.stdout == "ran\n"


def test_without_a_target_named_its_runtime_suggests_one(python, tmp_path):
    source = tmp_path / "kernel.py"
    source.write_text(KERNEL)
    run = python(str(source))
    assert run.returncode == 0, run.stderr
    assert run.stderr.startswith("flydsl: no GPU and no target named: emulating toy")


def test_compile_only_needs_a_target(python, tmp_path):
    source = tmp_path / "kernel.py"
    source.write_text(
        KERNEL.partition("count = ")[0]
        + textwrap.dedent("""
        a = np.zeros(4, dtype=np.float32)
        from flydsl.errors import TargetError
        try:
            flyc.compile(launch, a, a, a, 4, 64)
        except TargetError as error:
            print(error.code)
        else:
            print("compiled", a)
    """)
    )
    assert python(str(source), COMPILE_ONLY="1").stdout == "FLY-T514\n"
    named = python(str(source), COMPILE_ONLY="1", FLYDSL_TARGET="toy")
    assert named.stdout.startswith("compiled"), named.stderr


def test_disabling_the_plugin_takes_the_target_away(python):
    run = python(
        "-c",
        "from flydsl.targets import create_target; create_target('toy')",
        FLYDSL_PLUGINS_DISABLE="rocdl,emu,flydsl-toy",
    )
    assert run.returncode == 1
    assert "FLY-T513" in run.stderr
