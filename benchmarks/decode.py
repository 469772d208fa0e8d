"""Speed of the emulator's decoder on compiled code, in instructions per CPU second.

The code is that of the decoder tests' corpus (a few hundred small kernels that use as many
instructions as possible), compiled for each architecture and repeated to 13,000 instructions: the
size of a large matrix kernel. Tables are loaded before the clock starts; their cost is a figure of
its own, measured in a new interpreter.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from figures import Figure, add_json, show

from flydsl_emu.codeobject.elf import read_elf
from flydsl_emu.decode import decode

CORPUS = Path(__file__).resolve().parents[1] / "packages/flydsl-emu/tests/unit/decode/encodings"
ARCHITECTURES = ("gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")
INSTRUCTIONS = 13_000
# Fills the space between kernels, and decodes faster than most.
PADDING = ("s_nop", "s_code_end")
FIRST = """
import time
from flydsl_emu.decode import decode_one
started = time.process_time()
decode_one({arch!r}, b"\\0\\0\\x80\\xbf")
print(time.process_time() - started)
"""


@dataclass(frozen=True, slots=True)
class Decoding:
    """Best of several runs: milliseconds for the code, instructions a second, table load time."""

    arch: str
    instructions: int
    cpu_ms: float
    per_second: int
    table_ms: float


def compiled(arch: str) -> bytes:
    """Return the code of the corpus for `arch`, without what lies between the kernels."""
    binding: Any = importlib.import_module("llvmlite.binding")
    link: Any = importlib.import_module("flydsl_rocdl.hsaco").link_object
    corpus: Any = importlib.import_module("corpus_kernels")
    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    triple = "amdgcn-amd-amdhsa"
    machine = binding.Target.from_triple(triple).create_target_machine(cpu=arch, reloc="pic")
    text, _ = corpus.corpus_module(arch)
    module = binding.parse_assembly(text)
    module.triple = triple
    module.data_layout = str(machine.target_data)
    section = read_elf(link(machine.emit_object(module))).section(".text")
    assert section is not None
    kept = [i for i in decode(arch, section.data) if i.name not in PADDING]
    return b"".join(section.data[i.pc : i.pc + i.size] for i in kept)


def measure(arch: str, runs: int) -> Decoding:
    """Decode the corpus of `arch` often enough to get stable figures."""
    once = decode(arch, compiled_code := compiled(arch))
    copies = -(-INSTRUCTIONS // len(once))
    code = compiled_code * copies
    best = float("inf")
    for _ in range(runs):
        gc.collect()
        started = time.process_time()
        count = len(decode(arch, code))
        best = min(best, time.process_time() - started)
    command = [sys.executable, "-c", FIRST.format(arch=arch)]
    first = min(float(subprocess.check_output(command)) for _ in range(3))
    best *= INSTRUCTIONS / count
    return Decoding(
        arch, INSTRUCTIONS, round(best * 1e3, 1), round(INSTRUCTIONS / best), round(first * 1e3, 1)
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=10, help="decodings per architecture")
    add_json(parser)
    options = parser.parse_args(arguments)
    sys.path.insert(0, str(CORPUS))
    figures = [measure(arch, options.runs) for arch in ARCHITECTURES]
    text = [f"{'arch':<8} {'ms for 13,000':>14} {'per second':>11} {'table ms':>9}"]
    lines = []
    for f in figures:
        text.append(f"{f.arch:<8} {f.cpu_ms:14.1f} {f.per_second:11,} {f.table_ms:9.1f}")
        lines.append(Figure(f"{f.arch} decode {f.instructions} instructions", f.cpu_ms, "ms"))
        lines.append(Figure(f"{f.arch} first instruction, with its table", f.table_ms, "ms"))
    show(lines, options.json, "\n".join(text))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
