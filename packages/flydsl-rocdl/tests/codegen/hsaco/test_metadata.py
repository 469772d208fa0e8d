"""Kernel information read back from code objects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from flydsl_rocdl.arch import lookup
from flydsl_rocdl.hsaco import kernel_infos, link_object

Compile = Callable[..., bytes]
MANY = (Path(__file__).parent / "modules" / "many.ll").read_text()


def test_arguments_and_resources(compile_object: Compile) -> None:
    data = link_object(compile_object(MANY, "gfx942", 3))
    first, second, third = kernel_infos(data, lookup("gfx942"), frozenset({"second"}))
    assert [k.name for k in (first, second, third)] == ["first", "second", "third"]
    assert [(a.offset, a.size, a.kind) for a in second.args if not a.hidden] == [
        (0, 8, "global_buffer"), (8, 4, "by_value"), (16, 8, "by_value"),
    ]  # fmt: skip
    assert second.kernarg_align == 8
    assert second.lds_static == 2048
    assert second.uses_dynamic_lds
    assert not first.uses_dynamic_lds
    assert second.scratch >= 64
    assert second.max_threads == 512
    assert first.max_threads == 64
    assert first.wave_size == 64
    assert third.args == ()
    assert third.waves_per_simd == 8
    assert all(k.vgpr > 0 and k.sgpr > 0 for k in (first, second))


def test_hidden_arguments_are_marked(compile_object: Compile) -> None:
    data = compile_object(
        """
        define amdgpu_kernel void @k(ptr addrspace(1) %p, i32 %n) {
          %h = call ptr addrspace(4) @llvm.amdgcn.implicitarg.ptr()
          %v = load i32, ptr addrspace(4) %h
          store i32 %v, ptr addrspace(1) %p
          ret void
        }
        """
    )
    (kernel,) = kernel_infos(link_object(data), lookup("gfx942"))
    hidden = {a.kind: a.offset for a in kernel.args if a.hidden}
    assert hidden["hidden_block_count_x"] == 16
    assert [a.kind for a in kernel.args if not a.hidden] == ["global_buffer", "by_value"]


def test_a_required_block_is_reported(compile_object: Compile) -> None:
    data = compile_object(
        """
        define amdgpu_kernel void @k() #0 !reqd_work_group_size !0 { ret void }
        attributes #0 = { "amdgpu-flat-work-group-size"="128,128" }
        !0 = !{i32 64, i32 2, i32 1}
        """
    )
    (kernel,) = kernel_infos(link_object(data), lookup("gfx942"))
    assert kernel.required_block == (64, 2, 1)
    assert kernel.max_threads == 128


def test_spills_are_counted(compile_object: Compile) -> None:
    count = 48
    loads = "\n".join(
        f"  %p{i} = getelementptr float, ptr addrspace(1) %p, i32 {i * 64}\n"
        f"  %v{i} = load volatile float, ptr addrspace(1) %p{i}"
        for i in range(count)
    )
    stores = "\n".join(
        f"  store volatile float %v{i}, ptr addrspace(1) %p{i}" for i in range(count)
    )
    data = compile_object(
        f"""
        define amdgpu_kernel void @k(ptr addrspace(1) %p) #0 {{
        {loads}
        {stores}
          ret void
        }}
        attributes #0 = {{ "amdgpu-flat-work-group-size"="64,64" "amdgpu-num-vgpr"="16" }}
        """
    )
    (kernel,) = kernel_infos(link_object(data), lookup("gfx942"))
    assert kernel.spills > 0
    assert kernel.spills == kernel.vgpr_spills + kernel.sgpr_spills
