"""`KernelLauncher`: checks a launch, emits the kernel once per block size, and launches it."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flydsl.errors import SourceLocation, UserRuntimeError, UserTypeError, UserValueError
from flydsl.expr.ambient import IRType, IRValue, KernelScope, SharedUse, current
from flydsl.expr.annotations import python_integer
from flydsl.expr.emit import constant, emit
from flydsl.expr.expiry import expire
from flydsl.expr.numeric import Index, Int32, Int64, Numeric, as_numeric
from flydsl.frontend.attributes import to_attribute
from flydsl.frontend.parameters import argument
from flydsl.frontend.scope import ModuleScope, module_scope
from flydsl.plugins.payloads import LaunchShape

if TYPE_CHECKING:
    from flydsl.frontend.functions import KernelFunction

__all__ = ["KernelLauncher"]


@dataclass(frozen=True, slots=True)
class _Emitted:
    """A kernel in the module.

    Attributes:
        symbol: Its symbol.
        shared_bytes: Bytes of dynamic shared memory that its allocators counted.
        static_bytes: Bytes of its static shared allocations.
        uses: What the shared memory is for, largest first.
        output: Type of the hidden trailing argument for the output buffer, or None.
    """

    symbol: str
    shared_bytes: int
    static_bytes: int
    uses: tuple[SharedUse, ...]
    output: IRType | None


Dims = tuple[int | Numeric, int | Numeric, int | Numeric]


class KernelLauncher:
    """One call of a kernel with its arguments, ready to be launched.

    Args:
        kernel: The kernel.
        values: Value of each parameter, in order.
        attributes: Attributes for the device function, as Python values.
    """

    def __init__(
        self, kernel: KernelFunction, values: dict[str, Any], attributes: Mapping[str, Any]
    ) -> None:
        self._kernel = kernel
        self._attributes = attributes
        self._arguments = {
            parameter.name: argument(parameter, values[parameter.name])
            for parameter in kernel.signature.parameters
        }
        self._emitted: dict[tuple[int, int, int] | None, _Emitted] = {}
        session = current()
        if session is not None:
            module_scope(session).expect_launch(self, kernel.name)

    def launch(
        self,
        *,
        grid: Any = (1, 1, 1),
        block: Any = (1, 1, 1),
        smem: Any = None,
        stream: Any = None,
        cluster: Any = None,
        **attributes: Any,
    ) -> None:
        """Launch the kernel.

        Args:
            grid: Workgroups along x, y, z: an int, an integer value, or up to three of them. Zero
                computed at run time launches nothing.
            block: Threads along x, y, z, likewise.
            smem: Bytes of dynamic shared memory; None means what the kernel's dynamic
                `SharedAllocator` counted.
            stream: A `Stream`; None means the launcher's stream parameter, else the current stream.
            cluster: Workgroups per cluster along x, y, z, on targets that have clusters.
            **attributes: ``unit_attrs`` (names) and ``value_attrs`` (mapping) for the launch.

        Raises:
            UserError: The geometry is malformed, contradicts the kernel's declared block size, or
                exceeds the target's limits; or the kernel's body is wrong.
            TargetError: A limit of the target is exceeded.
        """
        session = current()
        if session is None or session.kernel is not None:
            raise UserRuntimeError(
                "launch() is called outside a launcher", code="FLY-U223", hint="use @flyc.jit"
            )
        extra = _launch_attributes(attributes)
        grid_dims = _dims("grid", grid)
        block_dims = _dims("block", block)
        cluster_dims = None if cluster is None else _dims("cluster", cluster)
        static_block = self._static_block(block_dims)
        scope = module_scope(session)
        scope.launched(self)
        emitted = self._emit(scope, static_block)
        symbol = emitted.symbol
        shared = _shared_bytes(smem, emitted.shared_bytes)
        if session.target is not None:
            session.target.check_launch(
                LaunchShape(
                    kernel=symbol,
                    grid=_static(grid_dims),
                    block=_static(block_dims),
                    cluster=(1, 1, 1) if cluster_dims is None else _static(cluster_dims),
                    shared_bytes=_all_shared(shared, emitted),
                    shared_uses=_uses(shared, emitted),
                )
            )
        self._emit_launch(
            scope, emitted, (grid_dims, block_dims, cluster_dims), shared, stream, extra
        )

    def _static_block(self, block: Dims) -> tuple[int, int, int] | None:
        """Return the block size where it is compile-time; check it against the declared one."""
        known = self._kernel.known_block
        static = _static(block)
        for axis, wanted, given in zip("xyz", known or (None,) * 3, static, strict=True):
            if wanted is not None and given is not None and wanted != given:
                raise UserValueError(
                    f"the launch block contradicts known_block_size of {self._kernel.name!r} "
                    f"along {axis}",
                    code="FLY-U227",
                    value=static,
                    allowed=str(known),
                )
        if known is not None:
            return known
        x, y, z = static
        return None if x is None or y is None or z is None else (x, y, z)

    def _emit(self, scope: ModuleScope, block: tuple[int, int, int] | None) -> _Emitted:
        """Return the kernel for this block size."""
        found = self._emitted.get(block)
        if found is None:
            found = self._emitted[block] = self._trace_body(scope, block)
        return found

    def _trace_body(self, scope: ModuleScope, block: tuple[int, int, int] | None) -> _Emitted:
        session, kernel = scope.session, self._kernel
        ir = session.ir
        symbol = scope.kernel_symbol(kernel)
        here = session.locations.here()
        flat = self._run_time_values()
        types = [value.type for value in flat]
        function_type = ir.FunctionType.get(types, [])
        attributes = {
            "sym_name": ir.StringAttr.get(symbol),
            "function_type": ir.TypeAttr.get(function_type),
            "gpu.kernel": ir.UnitAttr.get(),
            "workgroup_attributions": ir.Attribute.parse("0 : i64"),
        }
        if block is not None:
            attributes["known_block_size"] = ir.DenseI32ArrayAttr.get(list(block))
        for name, value in self._attributes.items():
            converted = to_attribute(session, value)
            if converted is not None:
                attributes[name] = converted
        operation = session.create(
            "gpu.func", (), (), attributes, None, 1, here, scope.kernels_end()
        )
        entry = operation.regions[0].blocks.append(*types, arg_locs=[here] * len(types))
        depth, session.depth = session.depth, 0
        session.kernel = KernelScope(symbol, block, entry)
        outside, session.made = session.made, []
        try:
            with ir.InsertionPoint(entry):
                self._call_body(list(entry.arguments))
                session.create("gpu.return", (), (), None, None, 0, here)
            counted, static = session.kernel.shared_bytes, session.kernel.static_shared_bytes()
            uses = [*session.kernel.shared_uses, *session.kernel.scratch_uses]
            prints = session.kernel.output is not None
        finally:
            session.kernel = None
            session.depth = depth
            expire(session.made)
            session.made = outside
        if prints:
            types.append(entry.arguments[len(types)].type)
            hidden = ir.TypeAttr.get(ir.FunctionType.get(types, []))
            operation.attributes["function_type"] = hidden
        scope.add_kernel(symbol, kernel, block, types)
        uses.sort(key=lambda use: -use.bytes)
        return _Emitted(symbol, counted, static, tuple(uses), types[-1] if prints else None)

    def _run_time_values(self) -> list[IRValue]:
        flat: list[IRValue] = []
        for value in self._arguments.values():
            if hasattr(type(value), "__fly_values__"):
                flat.extend(value.__fly_values__())
        return flat

    def _call_body(self, values: list[IRValue]) -> None:
        arguments: list[Any] = []
        keywords: dict[str, Any] = {}
        at = 0
        for parameter in self._kernel.signature.parameters:
            value = self._arguments[parameter.name]
            if hasattr(type(value), "__fly_values__"):
                count = len(value.__fly_values__())
                value = value.__fly_rebuild__(values[at : at + count])
                at += count
            if parameter.kind == "positional":
                arguments.append(value)
            else:
                keywords[parameter.name] = value
        returned = self._kernel.traceable()(*arguments, **keywords)
        if returned is not None:
            raise UserTypeError(
                f"kernel {self._kernel.name!r} returns a value",
                code="FLY-U228",
                hint="store results in a tensor argument",
                location=_return_location(self._kernel),
            )

    def _emit_launch(
        self,
        scope: ModuleScope,
        emitted: _Emitted,
        dims: tuple[Dims, Dims, Dims | None],
        shared: int | Numeric,
        stream: Any,
        extra: Mapping[str, Any],
    ) -> None:
        session = scope.session
        ir = session.ir
        operands: list[IRValue] = []
        for group in dims:
            operands.extend(_index(item) for item in group or ())
        has_shared = not isinstance(shared, int) or shared > 0
        if has_shared:
            operands.append(_bytes(shared))
        flat = self._run_time_values()
        if emitted.output is not None:
            flat.append(emit("fly.output_buffer", emitted.output, ()))
        operands.extend(flat)
        operands.append(scope.stream(stream).ir_value())
        clusters = 0 if dims[2] is None else 1
        segments = [
            0,
            1,
            1,
            1,
            1,
            1,
            1,
            clusters,
            clusters,
            clusters,
            int(has_shared),
            len(flat),
            1,
        ]
        attributes = {
            "kernel": ir.SymbolRefAttr.get(["kernels", emitted.symbol]),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get(segments),
        }
        for name, value in extra.items():
            converted = to_attribute(session, value)
            if converted is not None:
                attributes[name] = converted
        here = session.locations.here()
        session.create("gpu.launch_func", (), operands, attributes, None, 0, here)


def _launch_attributes(given: Mapping[str, Any]) -> dict[str, Any]:
    unknown = given.keys() - {"unit_attrs", "value_attrs"}
    if unknown:
        raise UserTypeError(
            f"launch() has no parameter {sorted(unknown)[0]!r}",
            code="FLY-U219",
            allowed="grid, block, smem, stream, cluster, unit_attrs, value_attrs",
        )
    out = dict(given.get("value_attrs") or {})
    out.update(dict.fromkeys(given.get("unit_attrs") or (), ()))
    return out


def _return_location(kernel: KernelFunction) -> SourceLocation:
    """Return the place of the first ``return`` with a value in a kernel."""
    from flydsl.frontend.scopes import own_nodes
    from flydsl.frontend.source import function_tree, node_location

    for node in own_nodes(function_tree(kernel.function).body):
        if isinstance(node, ast.Return) and node.value is not None:
            return node_location(kernel.location.file, node)
    return kernel.location


def _dims(what: str, value: Any) -> Dims:
    """Return three launch dimensions; compile-time ones as ints.

    Raises:
        UserTypeError: A dimension is not an integer.
        UserValueError: More than three dimensions, or a compile-time one below one.
    """
    items: Sequence[Any] = value if isinstance(value, (tuple, list)) else (value,)
    if not 1 <= len(items) <= 3:
        raise UserValueError(
            f"{what} needs one to three dimensions",
            code="FLY-U229",
            value=value,
            allowed="(x, y, z)",
        )
    out: list[int | Numeric] = []
    for item in items:
        scalar = item.__fly_scalar__() if hasattr(item, "__fly_scalar__") else python_integer(item)
        number = as_numeric(scalar)
        if number is None or not number.is_integer or number.width == 1:
            raise UserTypeError(
                f"{what} dimensions are integers",
                code="FLY-U229",
                value=item,
                hint="use // instead of / to compute them",
            )
        if not number.is_static():
            out.append(number)
            continue
        if number.value < 1:
            raise UserValueError(
                f"{what} dimensions must be at least 1",
                code="FLY-U230",
                value=value,
                hint="a size computed at run time may be zero and then launches nothing"
                if what == "grid"
                else "",
            )
        if number.value >= 1 << 32:
            raise UserValueError(
                f"{what} dimensions are 32-bit numbers",
                code="FLY-U230",
                value=value,
                allowed="1 to 2**32 - 1",
            )
        out.append(int(number.value))
    while len(out) < 3:
        out.append(1)
    return (out[0], out[1], out[2])


def _static(dims: Dims) -> tuple[int | None, int | None, int | None]:
    x, y, z = (item if isinstance(item, int) else None for item in dims)
    return (x, y, z)


def _index(value: int | Numeric) -> IRValue:
    session = current()
    assert session is not None
    if isinstance(value, int):
        return constant(session, "index", value)
    return value.to(Index).ir_value()


def _bytes(value: int | Numeric) -> IRValue:
    """Return a count of bytes as an i32; what it cannot hold becomes its nearest value."""
    if isinstance(value, int):
        return Int32(value).ir_value()
    wide = value.to(Int64).ir_value()
    for name, limit in (("arith.maxsi", -(2**31)), ("arith.minsi", 2**31 - 1)):
        wide = emit(name, Int64.ir_type, (wide, Int64.static(limit).ir_value()))
    return Int64.wrap(wide).to(Int32).ir_value()


def _all_shared(dynamic: int | Numeric, emitted: _Emitted) -> int:
    """Return static and dynamic shared memory together, as far as they are known."""
    known = dynamic if isinstance(dynamic, int) else emitted.shared_bytes
    return known + emitted.static_bytes


def _uses(dynamic: int | Numeric, emitted: _Emitted) -> tuple[str, ...]:
    """Return what the shared memory is for, in words."""
    uses = [str(use) for use in emitted.uses]
    if isinstance(dynamic, int) and dynamic > emitted.shared_bytes:
        uses.append(f"{dynamic - emitted.shared_bytes} bytes that smem= asks for beyond these")
    return tuple(uses)


def _shared_bytes(smem: Any, counted: int) -> int | Numeric:
    if smem is None:
        return counted
    number = as_numeric(smem)
    if number is None or not number.is_integer or number.width == 1:
        raise UserTypeError("smem is a number of bytes", code="FLY-U231", value=smem)
    if not number.is_static():
        return number
    if number.value < counted:
        raise UserValueError(
            "smem is smaller than what the kernel's shared allocator uses",
            code="FLY-U231",
            value=int(number.value),
            allowed=f"at least {counted} bytes, or None to use that",
        )
    return int(number.value)
