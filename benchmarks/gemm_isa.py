"""Hot loops of the products with preshuffled weights: what they consist of, and cost to compile.

No GPU and no timing of kernels. From the code object: registers, scratch, LDS, and of the loop over
K the share of matrix instructions, waits and other vector instructions per matrix instruction, and
the share of cycles in which ``llvm-mca-22`` sees the matrix core busy (one wave, no memory; one of
its cycles is four clocks; it counts 8-bit products of CDNA4 with half of their passes). From the
emulator: LDS bank conflicts (1 is none) and bytes read over the bytes of the tiles of A and B.
Compile time is the CPU time of both processes for the first product in a process that has compiled
a small loop before, so that imports and the start of the worker are left out.

Beside each figure stands that of another project's kernel of the same tile, FlyDSL 0.5.0, measured
with the same tools on its assembly (its compile time as CPU time of building and first calling it,
imports left out; bank conflicts were not measured and count as none). Its fp8 kernel for CDNA4 is
unrolled, so the figures are of the whole kernel; for bf16 on CDNA4 the loop is that of its kernel
for plain operands with the same share of a wave, 128 x 64, and the registers are those of its
preshuffled kernel of 128 x 128 x 64.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from figures import Figure, add_json, show

import flydsl.compiler as flyc
import flydsl.expr as fx
import flydsl_emu
from flydsl.config import scope
from flydsl_kernels.gemm.device.preshuffle import launch

LONG_K = 8192


@dataclass(frozen=True)
class Subject:
    """One kernel: its name, architecture, types and tile, and the peer's figures."""

    name: str
    target: str
    dtype: str
    tile: tuple[int, int, int]
    peer: dict[str, float] = field(default_factory=dict)

    @property
    def stored(self) -> tuple[float, float]:
        """Bytes of an element of A and of B."""
        return {"bf16": (2.0, 2.0), "mxfp4": (0.5, 0.5)}.get(self.dtype, (1.0, 1.0))


SUBJECTS = (
    Subject("bf16", "gfx942", "bf16", (64, 256, 128), {
        "vgprs": 186, "scratch": 0, "lds": 32768, "mfma share": 256 / 435, "mca share": 1024 / 1094,
        "waits per mfma": 56 / 256, "valu per mfma": 22 / 256, "bank conflicts": 1,
        "bytes over tiles": 1, "compile": 525}),
    Subject("fp8", "gfx942", "fp8", (128, 256, 128), {
        "vgprs": 234, "scratch": 0, "lds": 32768, "mfma share": 256 / 392, "mca share": 1024 / 1167,
        "waits per mfma": 50 / 256, "valu per mfma": 15 / 256, "bank conflicts": 1,
        "bytes over tiles": 1, "compile": 678}),
    Subject("int8", "gfx942", "int8", (64, 256, 128), {
        "vgprs": 148, "scratch": 0, "lds": 16384, "mfma share": 128 / 214, "mca share": 512 / 598,
        "waits per mfma": 27 / 128, "valu per mfma": 12 / 128, "bank conflicts": 1,
        "bytes over tiles": 1, "compile": 503}),
    Subject("bf16 loop", "gfx950", "bf16", (128, 256, 64), {
        "vgprs": 240, "scratch": 0, "mfma share": 128 / 305, "mca share": 512 / 635,
        "waits per mfma": 42 / 128, "valu per mfma": 19 / 128, "bank conflicts": 1,
        "compile": 673}),
    Subject("bf16", "gfx950", "bf16", (128, 128, 64), {
        "vgprs": 136, "scratch": 0, "lds": 32768, "bank conflicts": 1, "bytes over tiles": 1}),
    Subject("fp8", "gfx950", "fp8", (128, 256, 128), {
        "vgprs": 256, "scratch": 36, "lds": 32768, "mfma share": 2048 / 6224,
        "mca share": 8192 / 11330, "waits per mfma": 779 / 2048, "bank conflicts": 1,
        "bytes over tiles": 1, "compile": 3138}),
    Subject("mxfp4", "gfx950", "mxfp4", (64, 256, 256), {
        "vgprs": 146, "scratch": 0, "lds": 16384, "mfma share": 32 / 104, "mca share": 128 / 234,
        "waits per mfma": 13 / 32, "valu per mfma": 12 / 32, "bank conflicts": 1,
        "bytes over tiles": 45056 / 43520, "compile": 383}),
)  # fmt: skip
HIGHER_IS_BETTER = ("mfma share", "mca share")
UNITS = {"scratch": "B", "lds": "B", "compile": "ms CPU"}


@dataclass(frozen=True, slots=True)
class Compared:
    """One figure; `ratio` is ours over the peer's, None without one."""

    name: str
    value: float
    unit: str
    peer: float | None
    ratio: float | None
    verdict: str


def operands(subject: Subject, m: int, k: int) -> tuple[Any, ...]:
    """Return zero operands and extents for the launcher."""
    n = subject.tile[1]
    c, zeros = np.zeros((m, n), ml_dtypes.bfloat16), np.zeros
    if subject.dtype == "mxfp4":
        scales = zeros((max(m, n), k // 32), np.uint8)
        codes = zeros((max(m, n), k // 2), np.uint8)
        return c, codes[:m], codes[:n], scales[: -(-m // 32) * 32], scales[:n], c, m, n, None
    kind = ml_dtypes.bfloat16 if subject.dtype == "bf16" else np.uint8
    scale, bias = zeros(max(m, n), np.float32), zeros(n, np.float32)
    return c, zeros((m, k), kind), zeros((n, k), kind), scale, scale, bias, m, n, None


def launcher(subject: Subject, k: int) -> Any:
    """Return the launcher of a subject."""
    m, n, tile_k = subject.tile
    if subject.dtype == "mxfp4":
        return launch.compile_mx_gemm(N=n, K=k, tile=subject.tile)
    return launch.compile_preshuffle_gemm(
        N=n, K=k, tile_m=m, tile_n=n, tile_k=tile_k, in_dtype=subject.dtype
    )


def loop_figures(subject: Subject) -> dict[str, float]:
    """Return what the code object says."""
    from flydsl_emu.codeobject import read_code_object
    from flydsl_emu.decode import decode
    from flydsl_emu.report import static_reports
    from flydsl_emu.report.classes import classify
    from flydsl_emu.report.loops import find_loops

    call = operands(subject, subject.tile[0], LONG_K)
    with scope(FLYDSL_TARGET=subject.target):
        data = flyc.compile(launcher(subject, LONG_K), *call).hsaco
    (report,) = static_reports(data, mca=shutil.which("llvm-mca-22"))
    (kernel,) = read_code_object(data).kernels.values()
    code = decode(kernel.arch, kernel.code, kernel.address)
    (loop,) = find_loops(code)
    inside = [i for i in code if i.pc in loop]
    kinds = [classify(i) for i in inside]
    products = kinds.count("mfma")
    waits = sum(i.name == "s_waitcnt" for i in inside)
    found = {
        "vgprs": report.resources.vgprs,
        "scratch": report.resources.scratch_bytes,
        "lds": report.resources.lds_bytes,
        "mfma share": products / len(inside),
        "waits per mfma": waits / products,
        "valu per mfma": (kinds.count("valu") + kinds.count("transcendental")) / products,
    }
    if report.loops[0].mca is not None:
        found["mca share"] = report.loops[0].mca.matrix_share
    return found


def run_figures(subject: Subject) -> dict[str, float]:
    """Return what the emulator says of one tile; bytes are those of two more steps."""
    m, n, tile_k = subject.tile
    read, conflicts = [], 1.0
    for steps in (4, 6):
        k = steps * tile_k
        with scope(FLYDSL_TARGET=subject.target), flydsl_emu.collect() as reports:
            launcher(subject, k)(*operands(subject, m, k))
        traffic = reports[0].traffic
        conflicts = max([conflicts, *(t.conflict_ratio for t in traffic if t.space == "lds")])
        read.append(
            sum(t.requested_bytes for t in traffic if (t.space, t.direction) == ("global", "read"))
        )
    size_a, size_b = subject.stored
    scales = (m + n) / 32 if subject.dtype == "mxfp4" else 0
    tiles = 2 * tile_k * (m * size_a + n * size_b + scales)
    return {"bank conflicts": conflicts, "bytes over tiles": (read[1] - read[0]) / tiles}


@flyc.kernel
def _loop(a: fx.Tensor, n: fx.Int32) -> None:
    """Sum, with an operation of every dialect that products use, so that all are imported."""
    pair = fx.Vector.filled((2,), 0, fx.Int32)
    for i in range(n):
        pair = (pair + a[i]).shuffle(pair, [1, 2])
    fx.rocdl.sched_barrier()
    a[fx.thread_idx.x] = pair[0]


@flyc.jit
def _warm(a: fx.Tensor, n: fx.Int32) -> None:
    _loop(a, n).launch(grid=1, block=64)


def compile_once(subject: Subject) -> float:
    """Return the CPU milliseconds of compiling a subject in this process, the worker's included."""
    call = operands(subject, subject.tile[0], LONG_K)
    with scope(FLYDSL_TARGET=subject.target):
        flyc.compile(_warm, np.zeros(64, np.int32), 3)
        started = time.process_time()
        compiled = flyc.compile(launcher(subject, LONG_K), *call)
        own = time.process_time() - started
    worker = sum(e.cpu_seconds for e in compiled.events if e.kind in ("optimise", "codegen"))
    milliseconds: float = (own + worker) * 1e3
    return milliseconds


def compile_figure(number: int, repeats: int) -> dict[str, float]:
    """Return the best over fresh processes with empty compile caches and compiled modules."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": folder, "PYTHONDONTWRITEBYTECODE": ""}
        for turn in range(repeats + 1):
            environment["FLYDSL_RUNTIME_CACHE_DIR"] = f"{folder}/{turn}"
            command = [sys.executable, __file__, "--compile-only", str(number)]
            text = subprocess.run(command, env=environment, check=True, capture_output=True).stdout
            found.append(float(text))
    return {"compile": min(found[1:])}


def compared(subject: Subject, found: dict[str, float]) -> list[Compared]:
    """Return the figures of a subject beside the peer's."""
    figures = []
    for name, value in found.items():
        peer = subject.peer.get(name)
        ratio = None if not peer else value / peer
        verdict = ""
        if peer is not None:
            gain = value - peer if name in HIGHER_IS_BETTER else peer - value
            verdict = "equal" if abs(gain) < 1e-9 else "better" if gain > 0 else "worse"
        label = f"{subject.target}/{subject.name}/{'x'.join(map(str, subject.tile))}/{name}"
        figures.append(Compared(label, value, UNITS.get(name, ""), peer, ratio, verdict))
    return figures


BEGIN, END = "<!-- benchmarks/gemm_isa.py -->", "<!-- end -->"
COLUMNS = ("vgprs", "scratch", "lds", "mfma share", "mca share", "waits per mfma", "valu per mfma",
           "bytes over tiles", "compile")  # fmt: skip


def _shown(name: str, figure: Compared | None) -> str:
    """Return a cell: our figure, then the peer's."""
    if figure is None:
        return ""

    def text(value: float) -> str:
        if name.endswith("share"):
            return f"{100 * value:.0f} %"
        return f"{value:.3f}" if "per" in name or "over" in name else f"{value:.0f}"

    return text(figure.value) + ("" if figure.peer is None else f" / {text(figure.peer)}")


def markdown(figures: Sequence[Compared]) -> str:
    """Return the table of a documentation page."""
    rows = [
        "| kernel | " + " | ".join(COLUMNS) + " |",
        "|---" * (len(COLUMNS) + 1) + "|",
    ]
    for subject in SUBJECTS:
        prefix = f"{subject.target}/{subject.name}/{'x'.join(map(str, subject.tile))}/"
        own = {f.name.removeprefix(prefix): f for f in figures if f.name.startswith(prefix)}
        cells = [_shown(name, own.get(name)) for name in COLUMNS]
        title = f"{subject.dtype} {' × '.join(map(str, subject.tile))}, {subject.target}"
        rows.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


def write_page(page: Path, figures: Sequence[Compared]) -> None:
    """Put the table between the marks of a page."""
    text = page.read_text("utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    page.write_text(f"{before}{BEGIN}\n\n{markdown(figures)}\n\n{END}{after}", "utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--repeats", type=int, default=3, help="processes per compile time; 0: none"
    )
    add_json(parser)
    parser.add_argument("--page", type=Path, metavar="FILE", help="put the table into this page")
    parser.add_argument("--compile-only", type=int, metavar="NUMBER", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.compile_only is not None:
        print(compile_once(SUBJECTS[options.compile_only]))
        return 0
    figures: list[Compared] = []
    for number, subject in enumerate(SUBJECTS):
        found = loop_figures(subject) | run_figures(subject)
        if options.repeats:
            found |= compile_figure(number, options.repeats)
        figures += compared(subject, found)
    width, text = max(len(figure.name) for figure in figures), []
    for figure in figures:
        peer = "" if figure.peer is None else f"{figure.peer:>10.3f}"
        text.append(f"{figure.name:<{width}} {figure.value:>10.3f} {peer:>10} {figure.verdict}")
    lines = [Figure(f.name, f.value, f.unit, f.peer) for f in figures]
    show(lines, options.json, "\n".join(text))
    if options.page:
        write_page(options.page, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
