"""CPU time of a launch, without a GPU: HIP is replaced by a library that only records calls.

The same launcher (three torch tensors, two scalars, a stream) is timed with this system and, where
``FLYDSL_PEER_PYTHON`` names an interpreter with ``flydsl==0.5.0`` and torch, with that one too:
a plain call, a compiled callable, and a compiled callable in two threads at once: wall time per
call and thread, and how many times as many launches two threads make in that time as one, which on
a machine with other work say little. ``.../holding`` is the same under ``FLYDSL_HIP_HOLDS_GIL``,
``.../long`` with launches that take five microseconds, as those of a GPU do.

With ``--json FILE`` (``-`` for standard output) one JSON object a line: name, value, unit, and with
the peer ``peer`` and ``ratio`` (how many times better ours is).
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

HERE = Path(__file__).parent
STUB = HERE.parent / "packages/flydsl-rocdl/tests/codegen/hip/stub_hip.c"
KERNELS = HERE / "peer" / "launch_kernels.py"
LONG = {"STUB_LAUNCH_NS": "5000"}
PEER_PLAIN_CALLS = "20"
"""The peer's plain calls take milliseconds."""


def build_stub(folder: Path) -> Path | None:
    """Compile the stand-in for libamdhip64; None without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    path = folder / "libamdhip64.so.7"
    versions = f"-Wl,--version-script={STUB.with_suffix('.map')}"
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", versions, "-o", path, STUB], check=True)
    return path


def recorded_by(stub: Path) -> dict[str, str]:
    """Return the variables with which launches for host tensors go to a stand-in for HIP."""
    return {
        "FLYDSL_DEVICE": "hip",
        "FLYDSL_HIP_HOST_TENSORS": "1",
        "FLYDSL_HIP_LIBRARY": str(stub),
    }


def run(command: Sequence[str], **variables: str) -> Mapping[str, float]:
    """Run a timing process and return its figures."""
    environment = {**os.environ, **variables}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stderr)
    figures: Mapping[str, float] = json.loads(done.stdout.splitlines()[-1])
    return figures


def peer_figures(stub: Path, folder: Path) -> dict[str, float]:
    """Return the peer's figures; nothing without a peer."""
    python = os.environ.get("FLYDSL_PEER_PYTHON")
    if not python:
        return {}
    variables = {
        "ARCH": "gfx942",
        "FLYDSL_GPU_ARCH": "gfx942",
        "FLYDSL_RUNTIME_ENABLE_CACHE": "0",
        "LD_LIBRARY_PATH": str(stub.parent),
    }
    lld = shutil.which("ld.lld") or shutil.which("ld.lld-22")
    if lld and "ROCM_PATH" not in os.environ:
        # The peer looks for its linker in a ROCm installation only.
        place = folder / "rocm" / "llvm" / "bin"
        place.mkdir(parents=True)
        (place / "ld.lld").symlink_to(lld)
        variables["ROCM_PATH"] = str(folder / "rocm")
    command = [python, str(KERNELS), PEER_PLAIN_CALLS]
    figures = dict(run(command, **variables))
    return figures | named("long", run(command, **variables, **LONG))


def named(way: str, figures: Mapping[str, float]) -> dict[str, float]:
    """Return figures of another way to launch under names of their own."""
    return {f"{name}/{way}": value for name, value in figures.items() if name != "plain"}


def report(ours: Mapping[str, float], peer: Mapping[str, float], out: TextIO | None) -> None:
    """Print the figures and write them as JSON lines."""
    for name, value in ours.items():
        scaling = name.startswith("scaling")
        unit = "times" if scaling else "us"
        row: dict[str, object] = {"name": f"launch/{name}", "value": round(value, 3), "unit": unit}
        text = f"{name:30} {value:8.2f} {unit}"
        if name in peer:
            ratio = value / peer[name] if scaling else peer[name] / value
            row |= {"peer": round(peer[name], 3), "ratio": round(ratio, 2)}
            text += f"   peer {peer[name]:10.2f} {unit}   {ratio:8.2f} times"
        print(text, file=sys.stderr if out is sys.stdout else sys.stdout)
        if out is not None:
            print(json.dumps(row), file=out)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Time launches.")
    parser.add_argument("--json", metavar="FILE", nargs="?", const="-", help="write figures there")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stub = build_stub(folder)
        if stub is None:
            print("no C compiler (cc): the stand-in for HIP cannot be built")
            return 1
        variables = recorded_by(stub)
        ours = dict(run([sys.executable, str(KERNELS)], **variables))
        command = [sys.executable, str(KERNELS)]
        holding = {"FLYDSL_HIP_HOLDS_GIL": "1"}
        ours |= named("holding", run(command, **variables, **holding))
        ours |= named("long", run(command, **variables, **LONG))
        ours |= named("long_holding", run(command, **variables, **LONG, **holding))
        peer = peer_figures(stub, folder)
    if options.json is None or options.json == "-":
        report(ours, peer, sys.stdout if options.json else None)
    else:
        with Path(options.json).open("w") as out:
            report(ours, peer, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
