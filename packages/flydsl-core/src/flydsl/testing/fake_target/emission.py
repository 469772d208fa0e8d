"""Lowered toy module to code object, through the shared codegen worker."""

from __future__ import annotations

from typing import Any

from flydsl import codegen, mlir
from flydsl.codegen.machine_code import host_triple
from flydsl.config import CompileOptions
from flydsl.errors import CompilerBug
from flydsl.plugins.payloads import CodeObject, KernelArg, KernelInfo
from flydsl.plugins.protocols import MlirModule, Target
from flydsl.testing.fake_target.lowering import argument_layout

__all__ = ["emit"]


def emit(module: MlirModule, target: Target, options: CompileOptions) -> CodeObject:
    """Compile the device part of `module`.

    Raises:
        TargetError: The host's back end refuses the module.
        CompilerBug: The module is not what the pipeline should leave.
    """
    device = _device(module)
    mlir.verify(device, "the toy pipeline")
    llvm_ir = mlir.llvm.translate_module_to_llvmir(device)
    if not llvm_ir:
        raise CompilerBug("MLIR cannot translate the toy module", code="FLY-B530")
    # Small kernels with data in their own object need no relocations when the code is one section.
    result = codegen.shared_worker().compile(
        codegen.CodegenRequest(
            llvm_ir,
            host_triple(),
            opt_level=options.opt_level,
            want_asm=options.dump_ir,
            vectorize=False,
        )
    )
    return CodeObject(
        target.object_format,
        target.spec,
        result.object,
        tuple(_info(op) for op in device.regions[0].blocks[0].operations if _is_kernel(op)),
        isa=result.asm,
        remarks=result.remarks,
    )


def _device(module: MlirModule) -> Any:
    for op in module.body.operations:
        if op.operation.name == "gpu.module":
            return op.operation
    raise CompilerBug("there is no gpu.module to emit", code="FLY-B530")


def _is_kernel(op: Any) -> bool:
    return op.operation.name == "llvm.func" and "toy_args" in op.operation.attributes


def _info(op: Any) -> KernelInfo:
    attributes = op.operation.attributes
    types = [str(kind.value) for kind in attributes["toy_args"]]
    places, size = argument_layout(types)
    args = tuple(
        KernelArg(f"arg{i}", "pointer" if kind == "!llvm.ptr" else "by_value", offset, length)
        for i, (kind, (offset, length)) in enumerate(zip(types, places, strict=True))
    )
    return KernelInfo(str(attributes["sym_name"].value), args, size, 8, wave_size=1)
