"""Kernel descriptors of every architecture against the metadata that the compiler writes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flydsl_emu.codeobject import read_code_object
from flydsl_emu.codeobject.descriptor import KernelDescriptor
from flydsl_emu.codeobject.elf import read_elf

ARCHES = ("gfx942", "gfx950", "gfx1100", "gfx1151", "gfx1201")


def kernel(live: int) -> str:
    """A kernel that keeps `live` values in registers across a barrier."""
    loads = [
        f" %p{n} = getelementptr i32, ptr addrspace(1) %a, i32 {257 * n}\n"
        f" %x{n} = load volatile i32, ptr addrspace(1) %p{n}"
        for n in range(live)
    ]
    stores = [f" store volatile i32 %x{n}, ptr addrspace(1) %p{n}" for n in range(live)]
    body = "\n".join([*loads, " call void @llvm.amdgcn.s.barrier()", *stores])
    return f"""declare void @llvm.amdgcn.s.barrier()
define amdgpu_kernel void @k(ptr addrspace(1) %a) {{
{body}
 ret void
}}"""


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("live", [1, 30, 100])
def test_registers_and_wave_size(
    arch: str, live: int, compile_ir: Callable[[str, str], bytes]
) -> None:
    found = read_code_object(compile_ir(kernel(live), arch)).kernels["k"]
    assert found.descriptor.wave32 == (found.wave_size == 32) == (not arch.startswith("gfx9"))
    allocated = found.descriptor.allocated_vgprs(arch)
    assert found.vgprs >= live
    assert found.vgprs <= allocated <= found.vgprs + 7
    assert not found.descriptor.dynamic_stack


def test_waves_of_64_lanes_count_registers_by_fours(
    compile_ir: Callable[[str, str], bytes],
) -> None:
    text = kernel(30).replace("{\n", ' "target-features"="+wavefrontsize64" {\n', 1)
    found = read_code_object(compile_ir(text, "gfx1100")).kernels["k"]
    assert not found.descriptor.wave32
    assert found.wave_size == 64
    assert found.vgprs <= found.descriptor.allocated_vgprs("gfx1100") <= found.vgprs + 3


def test_gfx1250_counts_registers_by_sixteens(compile_ir: Callable[[str, str], bytes]) -> None:
    elf = read_elf(compile_ir(kernel(100), "gfx1250"))
    symbol = elf.symbol("k.kd")
    assert symbol is not None
    home = elf.sections[symbol.section]
    start = symbol.value - home.address
    descriptor = KernelDescriptor.parse(home.data[start : start + 64])
    assert descriptor.wave32
    assert 100 <= descriptor.allocated_vgprs("gfx1250") <= 128
    assert descriptor.named_barriers == 0
