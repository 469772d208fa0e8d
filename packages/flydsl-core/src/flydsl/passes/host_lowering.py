"""``fly-host-lowering``: the launcher becomes the host stub of `flydsl.runtime.abi`.

In: a module after the neutral passes, its launcher a ``func.func`` over pointers and scalars. Out:
the one function ``fly_stub(ptr context, ptr arguments) -> i32``, without the device part. It loads
the launcher's parameters from the argument block (natural alignment, in order), runs the host
computation, and for every launch whose grid is not empty packs the kernel arguments at the offsets
of the code object's metadata, fills a `FlyLaunch` and calls ``context->launch``. After a launch
that returns non-zero no other is made, and the stub returns that value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from flydsl.dialects import types as ft
from flydsl.errors import CompilerBug, UserTypeError
from flydsl.mlir import source_location
from flydsl.passes.host_emission import Emitter, StructLayout
from flydsl.passes.host_launch import lower_launch
from flydsl.passes.rewriting import gpu_modules
from flydsl.plugins.payloads import KernelInfo

if TYPE_CHECKING:
    from flydsl.mlir import ir
    from flydsl.plugins.protocols import Target

__all__ = ["STUB", "run"]

STUB = "fly_stub"
"""Name of the function that this pass makes."""

_POINTER_OPS = frozenset({"fly.add_offset", "fly.recast_iter", "fly.inttoptr", "fly.ptrtoint"})


def run(
    module: ir.Module,
    target: Target | None = None,  # noqa: ARG001 - host code is the same for every target
    *,
    kernels: Sequence[KernelInfo] = (),
) -> None:
    """Turn the launcher of `module` into the stub and erase the device part.

    Args:
        module: The module; changed in place.
        target: Not used.
        kernels: Kernels of the code object, in the order of `FlyHostContext.functions`.

    Raises:
        UserError: The launcher does something that only a kernel can.
        CompilerBug: The code object's kernels do not match the launches.
    """
    from flydsl.mlir import ir

    with module.context, ir.Location.unknown():
        launchers = [op.operation for op in module.body.operations if _is_function(op.operation)]
        if len(launchers) != 1:
            raise CompilerBug(f"a module with {len(launchers)} launchers", code="FLY-B340")
        for device in list(gpu_modules(module)):
            device.erase()
        _Stub(launchers[0], {kernel.name: (i, kernel) for i, kernel in enumerate(kernels)}).lower()


def _is_function(op: Any) -> bool:
    return bool(op.name == "func.func" and len(op.regions[0].blocks))


class _Stub:
    def __init__(self, launcher: Any, kernels: dict[str, tuple[int, KernelInfo]]) -> None:
        from flydsl.mlir import ir

        self.ir = ir
        self.launcher = launcher
        self.kernels = kernels
        self.pointer = ir.Type.parse("!llvm.ptr")
        self.i32 = ir.IntegerType.get_signless(32)

    def lower(self) -> None:
        ir, launcher = self.ir, self.launcher
        old = launcher.regions[0].blocks[0]
        location = launcher.location
        signature = ir.FunctionType.get([self.pointer, self.pointer], [self.i32])
        stub = ir.Operation.create(
            "func.func",
            attributes={
                "sym_name": ir.StringAttr.get(STUB),
                "function_type": ir.TypeAttr.get(signature),
            },
            regions=1,
            ip=ir.InsertionPoint(launcher),
            loc=location,
        )
        entry = stub.regions[0].blocks.append(
            self.pointer, self.pointer, arg_locs=[location, location]
        )
        with location, ir.InsertionPoint(entry):
            emit = Emitter()
            context, arguments = entry.arguments
            status = emit.stack(4, 4)
            emit.store(emit.constant(0, self.i32), status)
            self._load_parameters(emit, old, arguments)
        for op in list(old.operations):
            entry.append(op)
        launches = self._lower_operations(entry)
        end = entry.operations[len(entry.operations) - 1].operation
        if end.name != "func.return":
            raise CompilerBug("the launcher does not end with a return", code="FLY-B340")
        for launch in launches:
            lower_launch(launch, context, status, self.kernels)
        with end.location, ir.InsertionPoint(end):
            emit = Emitter()
            ir.Operation.create("func.return", operands=[emit.load(status, self.i32)])
        end.erase()
        launcher.erase()

    def _load_parameters(self, emit: Emitter, old: Any, arguments: ir.Value) -> None:
        layout = StructLayout()
        for parameter in list(old.arguments):
            is_pointer = isinstance(ft.of(parameter.type), ft.PtrType)
            type_ = self.pointer if is_pointer else parameter.type
            where = emit.offset(arguments, layout.place(type_))
            if str(type_) == "i1":
                byte = emit.load(where, self.ir.IntegerType.get_signless(8))
                value = emit.create("arith.trunci", type_, byte)
            else:
                value = emit.load(where, type_)
            if is_pointer:
                # Fly operations on it still name the Fly type; all are retyped together below.
                value = emit.create("builtin.unrealized_conversion_cast", parameter.type, value)
            parameter.replace_all_uses_with(value)

    def _lower_operations(self, entry: Any) -> list[Any]:
        """Lower pointer operations; return the launches, in program order."""
        launches: list[Any] = []
        found: list[Any] = []
        _collect(entry, found)
        retyped: list[tuple[Any, list[Any]]] = []
        for op in found:
            if op.name == "gpu.launch_func":
                launches.append(op)
            if op.name.startswith("fly."):
                retyped.append((op, [ft.of(value.type) for value in op.operands]))
        for op in found:
            for value in _defined(op):
                if isinstance(ft.of(value.type), ft.PtrType):
                    value.set_type(self.pointer)
        casts = [op for op in found if op.name == "builtin.unrealized_conversion_cast"]
        for op, kinds in retyped:
            self._lower_pointer(op, kinds)
        for op in casts:
            if _is_identity(op):
                op.results[0].replace_all_uses_with(op.operands[0])
                op.erase()
        return launches

    def _lower_pointer(self, op: Any, kinds: list[Any]) -> None:
        if op.name not in _POINTER_OPS:
            raise UserTypeError(
                f"{op.name.removeprefix('fly.')} is device code, and cannot run in a launcher",
                code="FLY-U340",
                hint="do it in the kernel",
                location=source_location(op.location),
            )
        with self.ir.InsertionPoint(op), op.location:
            emit = Emitter()
            operands = list(op.operands)
            if op.name == "fly.add_offset":
                kind = kinds[0]
                assert isinstance(kind, ft.PtrType)
                result = emit.element(operands[0], operands[1], kind.element)
            elif op.name == "fly.recast_iter":
                result = operands[0]
            elif op.name == "fly.inttoptr":
                result = emit.create("llvm.inttoptr", self.pointer, operands[0])
            else:
                result = emit.create("llvm.ptrtoint", op.results[0].type, operands[0])
        op.results[0].replace_all_uses_with(result)
        op.erase()


def _collect(block: Any, out: list[Any]) -> None:
    """Append the operations of `block` and of nested regions, outer before inner."""
    for view in block.operations:
        op = view.operation
        out.append(op)
        for region in op.regions:
            for inner in region.blocks:
                _collect(inner, out)


def _defined(op: Any) -> list[Any]:
    """Return the values that an operation defines, block arguments of its regions included."""
    arguments = [a for region in op.regions for block in region.blocks for a in block.arguments]
    return [*op.results, *arguments]


def _is_identity(op: Any) -> bool:
    return bool(
        len(op.operands) == 1 and len(op.results) == 1 and op.operands[0].type == op.results[0].type
    )
