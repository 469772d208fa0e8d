"""``fly-host-lowering``: the launcher becomes the host stub of `flydsl.runtime.abi`.

In: a module after the neutral passes, its launcher a ``func.func`` over pointers and scalars. Out:
the function ``fly_stub(ptr context, ptr arguments) -> i32``, without the device part. It loads the
launcher's parameters from the argument block (natural alignment, in order) and runs the host
computation; each launch is a call of a thunk. `THUNKS` holds the thunks' LLVM IR, which `append`
adds to the translated module. After a launch that returns non-zero no other is made, and the stub
returns that value; a launch with an empty grid is skipped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flydsl.dialects import fly_types as ft
from flydsl.dialects.elements import storage_bits
from flydsl.errors import CompilerBug, UserTypeError
from flydsl.mlir import source_location
from flydsl.passes.host_launch import Launch, byte_size, thunk
from flydsl.passes.rewriting import gpu_modules
from flydsl.plugins.payloads import KernelInfo
from flydsl.runtime.abi import FlyHostContext

if TYPE_CHECKING:
    from flydsl.mlir import ir
    from flydsl.plugins.protocols import Target

__all__ = ["STUB", "THUNKS", "append_thunks", "run"]

STUB = "fly_stub"
"""Name of the function that this pass makes."""

THUNKS = "fly.host_thunks"
"""Module attribute with the LLVM IR of the thunks."""

_THUNK = "fly_launch_"
_POINTER_OPS = frozenset({"fly.add_offset", "fly.recast_iter", "fly.inttoptr", "fly.ptrtoint"})
_OUTPUT = "fly.output_buffer"


def append_thunks(llvm_ir: str, module: ir.Module) -> str:
    """Return the translation of a lowered module with its thunks defined."""
    from flydsl.mlir import ir

    lines = [line for line in llvm_ir.split("\n") if not line.startswith(f"declare void @{_THUNK}")]
    return "\n".join(lines) + str(ir.StringAttr(module.operation.attributes[THUNKS]).value)


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
        numbered = {kernel.name: (i, kernel) for i, kernel in enumerate(kernels)}
        text = _Stub(launchers[0], numbered).lower()
        module.operation.attributes[THUNKS] = ir.StringAttr.get(text)


def _is_function(op: Any) -> bool:
    return bool(op.name == "func.func" and len(op.regions[0].blocks))


class _Stub:
    def __init__(self, launcher: Any, kernels: Mapping[str, tuple[int, KernelInfo]]) -> None:
        from flydsl.mlir import ir

        self.ir = ir
        self.launcher = launcher
        self.kernels = kernels
        self.pointer = ir.Type.parse("!llvm.ptr")
        self.i8, self.i32, self.i64 = (ir.IntegerType.get_signless(w) for w in (8, 32, 64))
        self.thunks: list[str] = []

    def lower(self) -> str:
        """Build the stub, and return the text of its thunks."""
        ir, launcher = self.ir, self.launcher
        old = launcher.regions[0].blocks[0]
        here = launcher.location
        before = ir.InsertionPoint(launcher)
        entry = self._function(STUB, [self.pointer, self.pointer], [self.i32], before, here)
        context, arguments = entry.arguments
        with here, ir.InsertionPoint(entry):
            count = self._constant(1, self.i64)
            kind = ir.TypeAttr.get(self.i32)
            status = self._create("llvm.alloca", self.pointer, count, elem_type=kind)
            ir.Operation.create("llvm.store", operands=[self._constant(0, self.i32), status])
            self._load_parameters(old, arguments)
        for op in list(old.operations):
            entry.append(op)
        launches = self._lower_operations(entry, context)
        end = entry.operations[len(entry.operations) - 1].operation
        if end.name != "func.return":
            raise CompilerBug("the launcher does not end with a return", code="FLY-B340")
        for launch in launches:
            self._lower_launch(launch, context, status, before)
        with end.location, ir.InsertionPoint(end):
            result = self._create("llvm.load", self.i32, status)
            ir.Operation.create("func.return", operands=[result])
        end.erase()
        launcher.erase()
        return "\n" + "\n".join(self.thunks)

    def _function(
        self, name: str, inputs: list[Any], results: list[Any], where: Any, here: Any
    ) -> Any:
        """Create a function; return its entry block, or for one without results only declare it."""
        ir = self.ir
        attributes = {
            "sym_name": ir.StringAttr.get(name),
            "function_type": ir.TypeAttr.get(ir.FunctionType.get(inputs, results)),
        }
        if not results:
            attributes["sym_visibility"] = ir.StringAttr.get("private")
        op = ir.Operation.create("func.func", attributes=attributes, regions=1, ip=where, loc=here)
        return op.regions[0].blocks.append(*inputs, arg_locs=[here] * 2) if results else None

    def _create(self, name: str, result: Any, *operands: Any, **attributes: Any) -> Any:
        return self.ir.Operation.create(
            name, results=[result], operands=list(operands), attributes=attributes
        ).results[0]

    def _constant(self, value: int, type_: Any) -> Any:
        return self._create("arith.constant", type_, value=self.ir.IntegerAttr.get(type_, value))

    def _load_parameters(self, old: Any, arguments: Any) -> None:
        end = 0
        for parameter in list(old.arguments):
            is_pointer = isinstance(ft.of(parameter.type), ft.PtrType)
            type_ = self.pointer if is_pointer else parameter.type
            size = byte_size(type_)
            offset = -(-end // size) * size
            end = offset + size
            value = self._load(arguments, offset, type_)
            if is_pointer:
                # Fly operations on it still name the Fly type; all are retyped together below.
                value = self._create("builtin.unrealized_conversion_cast", parameter.type, value)
            parameter.replace_all_uses_with(value)

    def _load(self, base: Any, offset: int, type_: Any) -> Any:
        where = base if offset == 0 else self._moved(base, [], [offset], self.i8)
        text = str(type_)
        if text == "i1":
            return self._create("arith.trunci", type_, self._create("llvm.load", self.i8, where))
        if text.startswith("f8"):
            return self._create("arith.bitcast", type_, self._create("llvm.load", self.i8, where))
        return self._create("llvm.load", type_, where)

    def _moved(self, base: Any, indices: list[Any], constants: list[int], element: Any) -> Any:
        return self._create(
            "llvm.getelementptr",
            self.pointer,
            base,
            *indices,
            rawConstantIndices=self.ir.DenseI32ArrayAttr.get(constants),
            elem_type=self.ir.TypeAttr.get(element),
        )

    def _lower_operations(self, entry: Any, context: Any) -> list[Any]:
        """Lower pointer operations; return the launches, in program order."""
        launches: list[Any] = []
        found: list[Any] = []
        _collect(entry, found)
        fly_ops: list[tuple[Any, list[Any]]] = []
        casts: list[Any] = []
        outputs: list[Any] = []
        for op in found:
            name = op.name
            if name == "gpu.launch_func":
                launches.append(op)
            elif name == _OUTPUT:
                outputs.append(op)
            elif name.startswith("fly."):
                fly_ops.append((op, [ft.of(value.type) for value in op.operands]))
            elif name == "builtin.unrealized_conversion_cast":
                casts.append(op)
        for op in found:
            for value in _defined(op):
                if isinstance(ft.of(value.type), ft.PtrType):
                    value.set_type(self.pointer)
        for op in outputs:
            self._load_output(op, context)
        for op, kinds in fly_ops:
            self._lower_pointer(op, kinds)
        for op in casts:
            if _is_identity(op):
                op.results[0].replace_all_uses_with(op.operands[0])
                op.erase()
        return launches

    def _load_output(self, op: Any, context: Any) -> None:
        """Take the device's output buffer from the context."""
        with self.ir.InsertionPoint(op), op.location:
            buffer = self._load(context, FlyHostContext.output.offset, self.pointer)
        op.results[0].replace_all_uses_with(buffer)
        op.erase()

    def _lower_pointer(self, op: Any, kinds: list[Any]) -> None:
        if op.name not in _POINTER_OPS:
            raise UserTypeError(
                f"{op.name.removeprefix('fly.')} is device code, and cannot run in a launcher",
                code="FLY-U340",
                hint="do it in the kernel",
                location=source_location(op.location),
            )
        with self.ir.InsertionPoint(op), op.location:
            operands = list(op.operands)
            if op.name == "fly.add_offset":
                bits = storage_bits(kinds[0].element)
                if bits % 8:
                    raise UserTypeError(
                        f"a launcher cannot offset a pointer to {bits}-bit elements",
                        code="FLY-U340",
                        hint="do it in the kernel",
                        location=source_location(op.location),
                    )
                element = self.ir.IntegerType.get_signless(bits)
                result = self._moved(operands[0], [operands[1]], [-(2**31)], element)
            elif op.name == "fly.recast_iter":
                result = operands[0]
            elif op.name == "fly.inttoptr":
                result = self._create("llvm.inttoptr", self.pointer, operands[0])
            else:
                result = self._create("llvm.ptrtoint", op.results[0].type, operands[0])
        op.results[0].replace_all_uses_with(result)
        op.erase()

    def _lower_launch(self, op: Any, context: Any, status: Any, where: Any) -> None:
        launch = Launch.of(op)
        if launch.kernel not in self.kernels:
            raise CompilerBug(
                f"the code object has no kernel {launch.kernel}",
                code="FLY-B342",
                allowed=", ".join(self.kernels),
            )
        with op.location, self.ir.InsertionPoint(op):
            launch.arguments[:] = [self._plain(value) for value in launch.arguments]
        name = f"{_THUNK}{len(self.thunks)}"
        self.thunks.append(thunk(name, launch, *self.kernels[launch.kernel]))
        with op.location, self.ir.InsertionPoint(op):
            dims = [self._i64(value) for value in (*launch.grid, *launch.block, *launch.cluster)]
            if not launch.cluster:
                dims += [self._constant(1, self.i64)] * 3
            shared = launch.shared_bytes
            shared = self._constant(0, self.i64) if shared is None else self._i64(shared)
            stream = launch.stream
            stream = self._constant(0, self.i64) if stream is None else stream
            operands = [context, status, *dims, shared, stream, *launch.arguments]
            self.ir.Operation.create(
                "func.call",
                operands=operands,
                attributes={"callee": self.ir.FlatSymbolRefAttr.get(name)},
            )
        self._function(name, [value.type for value in operands], [], where, op.location)
        op.erase()

    def _plain(self, value: Any) -> Any:
        """Return a 16-bit float as an integer: passing it as such may need a library's help."""
        if str(value.type) not in ("f16", "bf16"):
            return value
        return self._create("arith.bitcast", self.ir.IntegerType.get_signless(16), value)

    def _i64(self, value: Any) -> Any:
        """Return a count in 64 bits, so that the thunk sees what does not fit 32."""
        if str(value.type) == "i64":
            return value
        name = "arith.extsi" if str(value.type) == "i32" else "arith.index_cast"
        return self._create(name, self.i64, value)


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
