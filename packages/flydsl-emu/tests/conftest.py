"""Fixtures that compile LLVM IR and assemble instructions for the emulator's tests."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flydsl.config import scope


@pytest.fixture(scope="session", autouse=True)
def code_cache(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    """Keep compiled kernels in a folder of this session, which its workers share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if hasattr(request.config, "workerinput") else base) / "emulator-code"
    with scope(FLYDSL_EMU_CACHE_DIR=folder):
        yield folder


TRIPLE = "amdgcn-amd-amdhsa"


@pytest.fixture(scope="session")
def compile_ir() -> Callable[[str, str], bytes]:
    """Compile LLVM IR text to a linked code object: ``compile_ir(text, arch)``."""
    binding = pytest.importorskip("llvmlite.binding")
    from flydsl_rocdl.hsaco import link_object

    binding.initialize_all_targets()
    binding.initialize_all_asmprinters()
    target = binding.Target.from_triple(TRIPLE)

    def run(text: str, arch: str) -> bytes:
        machine = target.create_target_machine(cpu=arch, opt=3, reloc="pic")
        module = binding.parse_assembly(text)
        module.triple = TRIPLE
        module.data_layout = str(machine.target_data)
        options = binding.create_pipeline_tuning_options(speed_level=3)
        passes = binding.create_pass_builder(machine, options)
        passes.getModulePassManager().run(module, passes)
        return link_object(machine.emit_object(module))

    return run


@pytest.fixture(scope="session")
def assemble(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], bytes]:
    """Assemble instruction text to bytes: ``assemble(text, arch)``; needs LLVM's tools."""
    assembler = shutil.which("llvm-mc-22")
    copier = shutil.which("llvm-objcopy-22")
    if assembler is None or copier is None:
        pytest.skip("llvm-mc-22 and llvm-objcopy-22 are not installed")
    folder = tmp_path_factory.mktemp("assembled")

    def run(text: str, arch: str) -> bytes:
        source, obj, code = (Path(folder, f"k.{suffix}") for suffix in ("s", "o", "bin"))
        source.write_text(text)
        command = [assembler, "-arch=amdgcn", f"-mcpu={arch}", "-filetype=obj", source, "-o", obj]
        subprocess.run(command, check=True)
        subprocess.run([copier, "-O", "binary", "-j", ".text", obj, code], check=True)
        return code.read_bytes()

    return run
