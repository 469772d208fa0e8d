"""From a gpu.module in the LLVM dialect to a code object with its resource report."""

from __future__ import annotations

import base64
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from flydsl import codegen, mlir
from flydsl.config import CompileOptions
from flydsl.diagnostics import PerformanceWarning
from flydsl.errors import CompilerBug, SourceLocation, TargetError
from flydsl.expr.extern import EXTERNS
from flydsl.plugins.payloads import CodeObject, KernelInfo
from flydsl_rocdl import devlib, hsaco
from flydsl_rocdl.arch import ArchFacts
from flydsl_rocdl.llvm_options import LLVM_OPTIONS
from flydsl_rocdl.passes.intrinsics import restored
from flydsl_rocdl.passes.lowering import DYNAMIC_LDS, location_of
from flydsl_rocdl.passes.settling import without_memory
from flydsl_rocdl.settings import LLD, LLVM_MC
from flydsl_rocdl.target import RocdlTarget

__all__ = ["TRIPLE", "emit", "to_llvm_ir"]

TRIPLE = "amdgcn-amd-amdhsa"

_BACK_END_ERROR = "FLY-T424"
_SPILLS = "fly_spills"
"""Attribute of a kernel that says what spills mean: ``warn`` or ``error``."""
_LIBRARY_ERROR = "FLY-T425"
_TRANSLATED = frozenset({"llvm", "rocdl"})
_LIBRARY_CALL = re.compile(r"@(__oc[a-z]+_\w+)")
_INLINE_ASSEMBLY = re.compile(r"\bcall [^@\n]* asm ")
_FUNCTION_IN_MESSAGE = re.compile(r"in function '?([\w.$]+)")
_INTRINSIC_MESSAGE = re.compile(
    r"error: ((?:unknown intrinsic|invalid intrinsic)[^\n]*)\n[^\n]*?(@llvm[^\n]*)"
)
_SELECTED_INTRINSIC = re.compile(r"intrinsic %?(llvm\.amdgcn\.[\w.]+)")
_LDS_MESSAGE = re.compile(r"local memory \((\d+)\) exceeds limit \((\d+)\)")


def _gpu_module(module: Any) -> Any:
    for op in module.body.operations:
        if op.operation.name == "gpu.module":
            return op.operation
    raise CompilerBug("there is no gpu.module to emit", code="FLY-B611")


def _functions(gpu_module: Any) -> Iterator[Any]:
    for op in gpu_module.regions[0].blocks[0].operations:
        if op.operation.name == "llvm.func":
            yield op.operation


def _internalise(gpu_module: Any, context: Any) -> None:
    """Give every function with a body that is not a kernel internal linkage."""
    internal = mlir.ir.Attribute.parse("#llvm.linkage<internal>", context)
    for function in _functions(gpu_module):
        if len(function.regions[0].blocks) and "rocdl.kernel" not in function.attributes:
            function.attributes["linkage"] = internal


def _check_translatable(gpu_module: Any) -> None:
    """Refuse what MLIR cannot translate: it would end the process instead of reporting it.

    Raises:
        TargetError: An operation of another dialect is left, at the user's line.
    """
    left: list[Any] = []
    advance = mlir.ir.WalkResult.ADVANCE

    def look(op: Any) -> Any:
        if op.name.partition(".")[0] not in _TRANSLATED and op.name != "gpu.module":
            left.append(op)
        return advance

    gpu_module.walk(look)
    for op in left:
        types = ", ".join(str(v.type) for v in (*op.operands, *op.results))
        raise TargetError(
            f"{op.name} on {types} has no translation for AMD GPUs",
            code="FLY-T630",
            location=location_of(op),
        )


def to_llvm_ir(module: Any) -> str:
    """Return the LLVM IR text of the module's device part, device functions linked in.

    Raises:
        TargetError: An operation has no counterpart in LLVM IR.
        CompilerBug: The module is not valid, or calls a ROCm device library.
    """
    gpu_module = _gpu_module(module)
    _check_translatable(gpu_module)
    _internalise(gpu_module, module.context)
    # Translating an invalid module would end the process, so this check is not optional.
    mlir.verify(gpu_module, "the AMD pipeline")
    text: str | None = mlir.llvm.translate_module_to_llvmir(gpu_module)
    if text is None:
        raise CompilerBug("MLIR cannot translate the device module", code="FLY-B611")
    called = sorted(set(_LIBRARY_CALL.findall(text)))
    if called:
        raise CompilerBug(f"calls of {', '.join(called)} were not lowered", code="FLY-B610")
    return devlib.link_text(without_memory(restored(text)))


def _kernels_with_dynamic_lds(llvm_ir: str) -> frozenset[str]:
    symbol = f"@{DYNAMIC_LDS}"
    if symbol not in llvm_ir:
        return frozenset()
    found = set()
    for body in llvm_ir.split("\ndefine ")[1:]:
        name, _, rest = body.partition("(")
        if symbol in rest.partition("\n}")[0]:
            found.add(name.rpartition("@")[2])
    return frozenset(found)


def _libraries(gpu_module: Any) -> tuple[tuple[bytes, tuple[tuple[str, str], ...]], ...]:
    """Return the libraries of the module's external functions, each with what it must define."""
    if EXTERNS not in gpu_module.attributes:
        return ()
    found: dict[str, list[tuple[str, str]]] = {}
    for entry in gpu_module.attributes[EXTERNS]:
        function = (entry["symbol"].value, entry["signature"].value)
        found.setdefault(entry["library"].value, []).append(function)
    return tuple(
        (base64.b64decode(library), tuple(functions))
        for library, functions in found.items()
        if library
    )


def _kernel_locations(module: Any) -> Mapping[str, SourceLocation | None]:
    return {
        str(function.attributes["sym_name"].value): location_of(function)
        for function in _functions(_gpu_module(module))
        if "rocdl.kernel" in function.attributes
    }


def _call_location(module: Any, intrinsic: str) -> SourceLocation | None:
    """Return the first place in the user's code that calls an intrinsic."""
    found: list[SourceLocation] = []
    operation = intrinsic.replace("llvm.amdgcn.", "rocdl.", 1)

    def look(op: Any) -> Any:
        called = (
            str(op.attributes[name]) for name in ("callee", "intrin") if name in op.attributes
        )
        if op.name == operation or any(intrinsic in text for text in called):
            place = location_of(op)
            if place is not None:
                found.append(place)
        return mlir.ir.WalkResult.ADVANCE

    _gpu_module(module).walk(look)
    return found[0] if found else None


def _explain(error: TargetError, module: Any, target: RocdlTarget) -> TargetError:
    """Say what a back-end error means, at the user's kernel."""
    locations = _kernel_locations(module)
    if error.code == _LIBRARY_ERROR:
        symbol = error.message.partition(": ")[2].partition(": ")[0].partition(", ")[0]
        for function in _functions(_gpu_module(module)):
            if str(function.attributes["sym_name"].value) == symbol:
                error.with_location(location_of(function))
        return error
    named = _FUNCTION_IN_MESSAGE.search(error.message)
    intrinsic = _SELECTED_INTRINSIC.search(error.message)
    location = _call_location(module, intrinsic.group(1)) if intrinsic else None
    if location is None and named:
        location = locations.get(named.group(1))
    if location is None and len(locations) == 1:
        location = next(iter(locations.values()))
    lds = _LDS_MESSAGE.search(error.message)
    if lds:
        return TargetError(
            f"the kernel needs {lds.group(1)} bytes of local data share",
            code="FLY-T610",
            value=int(lds.group(1)),
            allowed=f"at most {lds.group(2)} bytes per workgroup on {target.arch}",
            location=location,
        )
    if error.code != _BACK_END_ERROR:
        error.with_location(location)
        return error
    return TargetError(
        f"the AMD back end refuses the kernel for {target.name}: {error.message}",
        code="FLY-T611",
        hint="an instruction or a type that this architecture lacks is the usual cause",
        location=location,
    )


def _check_spills(module: Any, kernels: Sequence[KernelInfo]) -> None:
    """Warn about spilled registers, or raise, for kernels that ask for it.

    Raises:
        TargetError: A kernel with ``spills="error"`` spills.
    """
    found = {kernel.name: kernel for kernel in kernels}
    for function in _functions(_gpu_module(module)):
        if _SPILLS not in function.attributes:
            continue
        name = str(function.attributes["sym_name"].value)
        kernel = found.get(name)
        if kernel is None or not kernel.spills:
            continue
        text = (
            f"kernel {name} spills {kernel.vgpr_spills} vector and {kernel.sgpr_spills} scalar"
            f" registers ({kernel.scratch} bytes of memory per lane)"
        )
        if str(function.attributes[_SPILLS].value) == "warn":
            warnings.warn(f"{text} at {location_of(function)}", PerformanceWarning, stacklevel=2)
            continue
        raise TargetError(
            text, code="FLY-T613", location=location_of(function),
            hint="hold less per lane, use more threads, or lower waves_per_eu",
        )  # fmt: skip


def _check_registers(module: Any, kernels: Sequence[KernelInfo], facts: ArchFacts) -> None:
    """Raise TargetError for kernels whose workgroups need more registers than there are."""
    locations = _kernel_locations(module)
    for kernel in kernels:
        if kernel.required_block is None:
            continue
        threads = math.prod(kernel.required_block)
        waves = -(-threads // facts.wave_size)
        room = kernel.waves_per_simd * facts.lds.simds
        if waves > room:
            raise TargetError(
                f"kernel {kernel.name} uses {kernel.vgpr + kernel.agpr} vector registers per lane"
                f" in workgroups of {waves} waves",
                code="FLY-T614", value=kernel.required_block, location=locations.get(kernel.name),
                allowed=f"registers for {waves} waves; {facts.name} has them for {room}",
                hint="use fewer threads, or hold less per lane",
            )  # fmt: skip


def emit(module: Any, target: RocdlTarget, options: CompileOptions) -> CodeObject:
    """Compile the device part of `module`.

    Args:
        module: A module whose gpu.module went through the AMD pipeline.
        target: The target.
        options: Compile options; `dump_ir` also asks for the assembly text.

    Returns:
        The code object with one `KernelInfo` per kernel.

    Raises:
        TargetError: The back end refuses the kernel, at the kernel's line.
        CompilerBug: The module is not what the pipeline should leave.
    """
    llvm_ir = to_llvm_ir(module)
    inline_assembly = _INLINE_ASSEMBLY.search(llvm_ir) is not None
    request = codegen.CodegenRequest(
        llvm_ir=llvm_ir,
        triple=TRIPLE,
        cpu=target.arch,
        features=target.llvm_features,
        opt_level=options.opt_level,
        want_object=not inline_assembly,
        want_asm=options.dump_ir or options.want_isa or inline_assembly,
        libraries=_libraries(_gpu_module(module)),
        options=codegen.checked_options(dict(options.llvm_options), LLVM_OPTIONS),
    )
    codegen.warn_if_long(request)
    try:
        program = hsaco.find_assembler(LLVM_MC.get()) if inline_assembly else ""
        result = codegen.shared_worker().compile(request)
        relocatable = result.object
        if inline_assembly:
            relocatable = hsaco.assemble(result.asm, program, target.arch, target.llvm_features)
    except TargetError as error:
        raise _explain(error, module, target) from error
    except CompilerBug as error:
        called = _INTRINSIC_MESSAGE.search(error.message)
        if called is None:
            raise
        raise TargetError(
            f"LLVM refuses a call of an intrinsic: {called.group(1)}",
            code="FLY-T645",
            value=called.group(2).strip(),
            location=next(iter(_kernel_locations(module).values()), None),
        ) from error
    lld = LLD.get()
    if lld is None:
        data = hsaco.link_object(relocatable)
    else:
        data = hsaco.link_with_lld(relocatable, str(lld))
    kernels = hsaco.kernel_infos(data, target.facts, _kernels_with_dynamic_lds(llvm_ir))
    _check_registers(module, kernels, target.facts)
    _check_spills(module, kernels)
    return CodeObject(
        format=target.object_format,
        target=target.spec,
        data=data,
        kernels=kernels,
        isa=result.asm,
        remarks=result.remarks,
    )
