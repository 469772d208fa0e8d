"""The decoder against LLVM on compiled kernels, and on the assembled opcodes of the census."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import opcode_census
import pytest
from both_targets import device_text
from corpus_kernels import corpus_module
from random_functions import make_function
from wave32_encodings import EncodingSource
from wave64_encodings import random_encoding

from flydsl_emu.codeobject.elf import read_elf
from flydsl_emu.decode import decode
from flydsl_emu.decode.oracle import Disassembler, find_library
from flydsl_emu.decode.table import load_table

ARCHES = ("gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201", "gfx1250")
CENSUS_ARCHES = ("gfx942", "gfx950", "gfx1100", "gfx1201", "gfx1250")
RANDOM_KERNELS = 16
DRAWS = 12
# gfx9 instructions whose random encodings have bits that assembly text cannot express.
HAND_WRITTEN = [
    "s_waitcnt vmcnt(3) lgkmcnt(0)",
    "s_sendmsg sendmsg(MSG_INTERRUPT)",
    "s_barrier",
    "s_set_gpr_idx_on s5, gpr_idx(SRC0)",
    "s_set_gpr_idx_off",
    "buffer_inv sc1",
]


@pytest.fixture(autouse=True)
def _llvm() -> None:
    if find_library() is None:
        pytest.skip("no LLVM 22 library with an AMDGPU disassembler")


def check(arch: str, code: bytes) -> list[str]:
    """Compare all instructions of `code` and return the mnemonics."""
    oracle = Disassembler(arch).lines(code, 0x1000)
    theirs = [(pc, size, " ".join(text.split()) if text else None) for pc, size, text in oracle]
    ours = [(i.pc, i.size, str(i)) for i in decode(arch, code, 0x1000)]
    assert ours == theirs
    return [half.split(" ")[0] for _, _, text in ours for half in text.split(" :: ")]


def text_section(image: bytes) -> bytes:
    section = read_elf(image).section(".text")
    assert section is not None
    return section.data


@pytest.mark.parametrize("arch", ARCHES)
def test_compiled_kernels(arch: str, compile_ir: Callable[[str, str], bytes]) -> None:
    module, count = corpus_module(arch)
    assert count >= 200
    names = check(arch, text_section(compile_ir(module, arch)))
    assert names.count("s_endpgm") >= count
    assert len(set(names)) > 200


@pytest.mark.parametrize("arch", ARCHES)
def test_random_kernels(arch: str, compile_ir: Callable[[str, str], bytes]) -> None:
    functions = [make_function(7000 + n) for n in range(RANDOM_KERNELS)]
    names = check(arch, text_section(compile_ir(device_text(functions), arch)))
    assert names.count("s_endpgm") >= RANDOM_KERNELS


@pytest.mark.parametrize("arch", CENSUS_ARCHES)
def test_assembled_opcodes_of_the_census(arch: str, tmp_path: Path) -> None:
    """LLVM's assembler makes of each opcode's text what the decoder takes apart again."""
    if shutil.which("llvm-mc-22") is None or shutil.which("llvm-objcopy-22") is None:
        pytest.skip("llvm-mc-22 and llvm-objcopy-22 are not installed")
    wanted = set(opcode_census.census(arch))
    code = assembled(accepted(sample_lines(arch, wanted), arch, tmp_path), arch, tmp_path)
    found = {opcode_census.base_name(plain(name)) for name in check(arch, code)}
    assert not wanted - found


def sample_lines(arch: str, wanted: set[str]) -> list[str]:
    """Texts of random encodings that hold each of the opcodes, as LLVM prints them."""
    table = load_table(arch)
    entries = [e for form in table.values() for e in form.values() if scaled(e.name) & wanted]
    if not arch.startswith("gfx9"):
        source = EncodingSource(arch, "census")
        extra = ["s_waitcnt_vscnt null, 0x0"] if arch.startswith("gfx11") else []
        return extra + [
            s.text for e in entries for s in source.samples(e, 24 if "dual" in e.name else DRAWS)
        ]
    oracle = Disassembler(arch)
    rng = random.Random(arch)
    entries = [e for e in entries if e.name != "s_sendmsg"]  # its graphics messages print by name
    texts = [oracle.first(random_encoding(e, rng))[1] for e in entries for _ in range(DRAWS)]
    texts += HAND_WRITTEN
    if arch == "gfx950":
        texts.append("v_mfma_scale_f32_16x16x128_f8f6f4 v[0:3], v[8:15], v[16:23], v[4:7], v1, v2")
        texts.append("v_mfma_scale_f32_32x32x64_f8f6f4 a[0:15], v[8:15], v[16:23], a[0:15], v1, v2")
    return [" ".join(t.split()) for t in texts if t and "nvalid" not in t and "Warning" not in t]


def scaled(name: str) -> set[str]:
    """An opcode and, for a matrix product, the same with scales."""
    return {
        name,
        name.replace("v_mfma_", "v_mfma_scale_"),
        name.replace("v_wmma_", "v_wmma_scale_"),
    }


def plain(name: str) -> str:
    return name.removesuffix("_e32").removesuffix("_e64")


def assembler(arch: str) -> list[str]:
    halves = [] if arch.startswith("gfx9") else ["-mattr=+real-true16"]
    return ["llvm-mc-22", "-arch=amdgcn", f"-mcpu={arch}", *halves]


def accepted(lines: list[str], arch: str, folder: Path) -> list[str]:
    """Leave out the lines that the assembler refuses, such as dual instructions on one bank."""
    source = folder / "all.s"
    source.write_text("\n".join(lines))
    command = [*assembler(arch), "-filetype=null", str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    refused = {int(n) for n in re.findall(r"all\.s:(\d+):\d+: error", done.stderr)}
    return [line for n, line in enumerate(lines, 1) if n not in refused]


def assembled(lines: list[str], arch: str, folder: Path) -> bytes:
    source, obj, code = (folder / f"k.{suffix}" for suffix in ("s", "o", "bin"))
    source.write_text("\n".join(lines))
    command = [*assembler(arch), "-filetype=obj", str(source), "-o", str(obj)]
    subprocess.run(command, check=True)
    copy = ["llvm-objcopy-22", "-O", "binary", "-j", ".text", str(obj), str(code)]
    subprocess.run(copy, check=True)
    return code.read_bytes()
