"""Our occupancy rule against the number that LLVM prints, over whole register and LDS ranges."""

from __future__ import annotations

import re

import pytest

from flydsl import codegen
from flydsl_rocdl.arch import lookup, occupancy

ARCHITECTURES = ["gfx942", "gfx950", "gfx1100", "gfx1102", "gfx1151", "gfx1201", "gfx1250"]
REGISTERS = [1, 24, 48, 64, 65, 72, 73, 80, 81, 96, 97, 120, 121, 128, 129, 144, 145, 168, 169,
             192, 193, 216, 217, 240, 241, 256]  # fmt: skip
LDS = [512, 4096, 8192, 8193, 16384, 16385, 20480, 20481, 32768, 40960, 65536]


def _module(kernels: dict[str, tuple[int, int]]) -> str:
    parts = []
    for name, (vgpr, lds) in kernels.items():
        if lds:
            parts.append(f"@l_{name} = internal addrspace(3) global [{lds} x i8] poison")
        body = f"  store volatile i8 0, ptr addrspace(3) @l_{name}\n" if lds else ""
        body += f'  call void asm sideeffect "; use", "~{{v{vgpr - 1}}}"()\n' if vgpr else ""
        parts.append(f"define amdgpu_kernel void @{name}() #0 {{\n{body}  ret void\n}}")
    parts.append('attributes #0 = { "amdgpu-flat-work-group-size"="1,256" }')
    return "\n".join(parts)


def _llvm_says(cpu: str, kernels: dict[str, tuple[int, int]]) -> dict[str, tuple[int, int, int]]:
    result = codegen.shared_worker().compile(
        codegen.CodegenRequest(
            llvm_ir=_module(kernels), triple="amdgcn-amd-amdhsa", cpu=cpu, opt_level=1,
            want_object=False, want_asm=True,
        )
    )  # fmt: skip
    out = {}
    for part in result.asm.split("; -- Begin function ")[1:]:
        name = part.split()[0]
        numbers = [
            int(re.search(rf"; {key}: (\d+)", part)[1])  # type: ignore[index]
            for key in ("TotalNumSgprs", "(?:TotalNumVgprs|NumVgprs)", "Occupancy")
        ]
        out[name] = (numbers[0], numbers[1], numbers[2])
    return out


@pytest.mark.parametrize("cpu", ARCHITECTURES)
def test_waves_per_simd(cpu: str) -> None:
    kernels = {f"v{n}": (n, 0) for n in REGISTERS} | {f"l{n}": (0, n) for n in LDS}
    said = _llvm_says(cpu, kernels)
    assert said.keys() == kernels.keys()
    facts = lookup(cpu)
    for name, (sgpr, vgpr, waves) in said.items():
        ours = occupancy(facts, vgpr=vgpr, sgpr=sgpr, lds_bytes=kernels[name][1], threads=256)
        assert ours.waves_per_simd == waves, name
