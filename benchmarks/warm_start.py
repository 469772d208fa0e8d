"""CPU time of the first call of a launcher in a new process, with a warm disk cache.

HIP is replaced by a library that only records calls (see `launch_overhead`). torch, the package and
the module with the kernel are imported before the clock starts. Measured are a vector add, a row
kernel and the largest kernel of this workspace, flash attention, each

* ``cold``: with an empty cache;
* ``warm``: in this environment, where packages are usually editable, so that every one of their
  sources is looked at;
* ``installed``: with copies of the packages, as users have them.

The import of the package looks at these sources, so it is measured too, with warm bytecode.

With ``--json FILE`` (``-`` for standard output) one JSON object a line: name, value, unit.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
import sysconfig
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from launch_overhead import build_stub, recorded_by, run

HERE = Path(__file__).parent
PACKAGES = HERE.parent / "packages"

PROBE = f"""
import json, sys, time
import torch
import flydsl.compiler as flyc, flydsl.expr as fx
sys.path.insert(0, {str(HERE / "peer")!r})
stream = fx.Stream(0)
{{setup}}
started, wall = time.process_time(), time.perf_counter()
{{call}}
cpu, wall = time.process_time() - started, time.perf_counter() - wall
heavy = [name for name in ("mlir", "llvmlite", "filelock", "platformdirs") if name in sys.modules]
print(json.dumps({{{{"cpu": cpu * 1e3, "wall": wall * 1e3, "heavy": len(heavy)}}}}))
"""
IMPORT = """
import json, time
started = time.process_time()
import flydsl.compiler, flydsl.expr
print(json.dumps({"cpu": (time.process_time() - started) * 1e3, "heavy": 0}))
"""
KERNELS = {
    "vector_add": (
        "import launch_kernels\ntensors = [torch.ones(4096) for _ in range(3)]",
        "launch_kernels.axpy(*tensors, 4096, 2.0, stream)",
    ),
    "layer_norm": (
        """
from flydsl_kernels.norm import layernorm
import flydsl_kernels.norm.device.forward
x = torch.ones(4, 8191, dtype=torch.bfloat16)
w, b, y = torch.ones(8191), torch.ones(8191), torch.empty_like(x)
""",
        "layernorm(x, w, b, out=y, stream=stream)",
    ),
    "flash_attention": (
        """
from flydsl_kernels.attention import flash_attention
import flydsl_kernels.attention.device.flash
q, k, v, o = [torch.ones(1, 128, 4, 64, dtype=torch.bfloat16) for _ in range(4)]
""",
        "flash_attention(q, k, v, causal=True, out=o, stream=stream)",
    ),
}
"""Set-up and call. Of the last two, public operations, their own checks are part of the time."""


def installed_copies(folder: Path) -> Path:
    """Make a folder of modules in which the workspace's packages are installed, not editable."""
    site = folder / "site"
    site.mkdir()
    for source in PACKAGES.glob("*/src/*"):
        shutil.copytree(
            source, site / source.name, dirs_exist_ok=True,
            ignore=shutil.ignore_patterns("__pycache__"),
        )  # fmt: skip
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        ours = entry.name.startswith(("flydsl", "_flydsl"))
        if ours and entry.suffix == ".dist-info":
            ignored = shutil.ignore_patterns("direct_url.json")
            shutil.copytree(entry, site / entry.name, ignore=ignored)
        elif not ours and entry.suffix != ".pth" and not (site / entry.name).exists():
            (site / entry.name).symlink_to(entry)
    return site


def measure(
    probe: str, variables: Mapping[str, str], repeats: int, site: Path | None
) -> tuple[float, list[Mapping[str, float]]]:
    """Return the cold time in ms, and the figures of warm processes."""
    options = ["-c", probe]
    if site is not None:
        # Without site-packages, whose editable distributions would count.
        options = ["-S", "-c", f"import sys; sys.path.append({str(site)!r})\n{probe}"]
    cold = run([sys.executable, *options], **variables)
    # One more that writes what processes that compile do not need.
    run([sys.executable, *options], **variables)
    return cold["cpu"], [run([sys.executable, *options], **variables) for _ in range(repeats)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Time the first call of a process.")
    parser.add_argument("--json", metavar="FILE", nargs="?", const="-", help="write figures there")
    parser.add_argument("--repeats", type=int, default=7, help="processes to take the median of")
    options = parser.parse_args(arguments)
    rows: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stub = build_stub(folder)
        if stub is None:
            print("no C compiler (cc): the stand-in for HIP cannot be built")
            return 1
        variables = recorded_by(stub) | {
            "FLYDSL_RUNTIME_ENABLE_CACHE": "1",
            "PYTHONDONTWRITEBYTECODE": "",
            "PYTHONPYCACHEPREFIX": str(folder / "bytecode"),
        }
        site = installed_copies(folder)
        for kernel, (setup, call) in KERNELS.items():
            probe = PROBE.format(setup=setup, call=call)
            for way, place in (("warm", None), ("installed", site)):
                cache = {"FLYDSL_RUNTIME_CACHE_DIR": str(folder / f"{kernel}-{way}")}
                cold, warm = measure(probe, variables | cache, options.repeats, place)
                if place is None:
                    rows.append(_row(f"{kernel}/cold", round(cold, 2), "ms"))
                cpu = [row["cpu"] for row in warm]
                rows.append(_row(f"{kernel}/{way}", round(statistics.median(cpu), 2), "ms"))
                rows.append(_row(f"{kernel}/{way}/least", round(min(cpu), 2), "ms"))
                heavy = max(row["heavy"] for row in warm)
                if heavy:
                    rows.append(_row(f"{kernel}/{way}/compiler_modules", heavy, "modules"))
                if kernel == "vector_add":
                    _, warm = measure(IMPORT, variables | cache, options.repeats, place)
                    cpu = [row["cpu"] for row in warm]
                    rows.append(_row(f"import/{way}", round(statistics.median(cpu), 2), "ms"))
    to_stdout = options.json == "-"
    for row in rows:
        text = f"{row['name']:45} {row['value']:8} {row['unit']}"
        print(json.dumps(row) if to_stdout else text)
    if options.json and not to_stdout:
        Path(options.json).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return 0


def _row(name: str, value: float, unit: str) -> dict[str, object]:
    return {"name": f"first_call/{name}", "value": value, "unit": unit}


if __name__ == "__main__":
    sys.exit(main())
