"""One ``gpu.launch_func`` of a host stub: kernel arguments, extents, the call of the runtime."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flydsl import layout as fl
from flydsl.dialects import types as ft
from flydsl.dialects.elements import storage_bits
from flydsl.dialects.leaves import leaf_widths
from flydsl.errors import CompilerBug
from flydsl.passes.host_emission import Emitter, byte_size
from flydsl.plugins.payloads import KernelInfo
from flydsl.runtime.abi import (
    ABI_VERSION,
    EXTENT_WRITABLE,
    WANTS_EXTENTS,
    FlyExtent,
    FlyHostContext,
    FlyLaunch,
)

if TYPE_CHECKING:
    from flydsl.mlir import ir

__all__ = ["lower_launch"]

_EXTENT_BYTES = ctypes.sizeof(FlyExtent)


@dataclass(frozen=True, slots=True)
class _Launch:
    """The operands of one launch."""

    kernel: str
    grid: list[Any]
    block: list[Any]
    cluster: list[Any]
    shared_bytes: Any
    arguments: list[Any]
    types: list[Any]
    stream: Any

    @classmethod
    def of(cls, op: Any) -> _Launch:
        from flydsl.mlir import ir

        sizes = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        operands = iter(list(op.operands))
        parts = [[next(operands) for _ in range(size)] for size in sizes]
        # Async tokens, grid x y z, block x y z, cluster x y z, dynamic shared memory, kernel
        # operands, async object.
        grid, block, cluster = (
            [part[0] for part in parts[first : first + 3] if part] for first in (1, 4, 7)
        )
        types = [
            ir.TypeAttr(attribute).value
            for attribute in ir.ArrayAttr(op.attributes["fly.arg_types"])
        ]
        kernel = str(op.attributes["kernel"]).rpartition("@")[2].strip('"')
        shared_bytes = parts[10][0] if parts[10] else None
        stream = parts[12][0] if parts[12] else None
        return cls(kernel, grid, block, cluster, shared_bytes, parts[11], types, stream)


def lower_launch(
    op: Any,
    context: ir.Value,
    status: ir.Value,
    kernels: Mapping[str, tuple[int, KernelInfo]],
) -> None:
    """Replace one launch.

    Args:
        op: The ``gpu.launch_func``, its pointers already ``!llvm.ptr``.
        context: The stub's `FlyHostContext`.
        status: Where the stub keeps its result, an i32; non-zero suppresses the launch.
        kernels: Index and information of each kernel.

    Raises:
        CompilerBug: The kernel is not in the code object, or its parameters differ.
    """
    from flydsl.mlir import ir

    launch = _Launch.of(op)
    if launch.kernel not in kernels:
        raise CompilerBug(
            f"the code object has no kernel {launch.kernel}",
            code="FLY-B342",
            allowed=", ".join(kernels),
        )
    index, info = kernels[launch.kernel]
    tensors = _tensor_groups(launch)
    entry = context.owner
    with op.location:
        with ir.InsertionPoint.at_block_begin(entry):
            frame = Emitter()
            record = frame.stack(ctypes.sizeof(FlyLaunch), 8)
            kernarg = frame.stack(max(_explicit_size(info), 8), max(info.kernarg_align, 8))
            extents = frame.stack(max(len(tensors), 1) * _EXTENT_BYTES, 8)
        with ir.InsertionPoint(op):
            emit = Emitter()
            wanted = emit.compare(0, emit.load(status, emit.i32), emit.constant(0, emit.i32))
            for extent in launch.grid:
                some = emit.compare(1, _i32(emit, extent), emit.constant(0, emit.i32))
                wanted = emit.create("arith.andi", emit.i1, wanted, some)
            branch = ir.Operation.create("scf.if", operands=[wanted], regions=2)
            body = branch.regions[0].blocks.append()
        with ir.InsertionPoint(body):
            emit = Emitter()
            _pack_arguments(emit, launch, info, kernarg)
            count = _fill_extents(emit, tensors, context, extents)
            _fill_record(emit, launch, context, record, index)
            where = FlyLaunch
            emit.store(emit.address(kernarg), emit.offset(record, where.kernarg.offset))
            size = emit.constant(_explicit_size(info), emit.i64)
            emit.store(size, emit.offset(record, where.kernarg_size.offset))
            emit.store(emit.address(extents), emit.offset(record, where.extents.offset))
            emit.store(count, emit.offset(record, where.extent_count.offset))
            function = emit.load(emit.offset(context, FlyHostContext.launch.offset), emit.pointer)
            result = emit.llvm.CallOp(emit.i32, [function, record], [], []).result
            emit.store(result, status)
            ir.Operation.create("scf.yield")
    op.erase()


def _i32(emit: Emitter, value: ir.Value) -> ir.Value:
    return value if str(value.type) == "i32" else emit.create("arith.index_cast", emit.i32, value)


def _explicit_size(info: KernelInfo) -> int:
    return max((arg.offset + arg.size for arg in info.args if not arg.hidden), default=0)


def _pack_arguments(emit: Emitter, launch: _Launch, info: KernelInfo, kernarg: ir.Value) -> None:
    places = [arg for arg in info.args if not arg.hidden]
    values = launch.arguments
    sizes = [byte_size(value.type) for value in values]
    if sizes != [place.size for place in places]:
        raise CompilerBug(
            f"the parameters of {info.name} in its metadata differ from those of its launch",
            code="FLY-B342",
            value=[(place.offset, place.size) for place in places],
            allowed=f"sizes {sizes}",
        )
    for value, place in zip(values, places, strict=True):
        emit.store(value, emit.offset(kernarg, place.offset))


def _fill_record(
    emit: Emitter, launch: _Launch, context: ir.Value, record: ir.Value, index: int
) -> None:
    where, source = FlyLaunch, FlyHostContext
    emit.store(emit.constant(ABI_VERSION, emit.i32), record)
    device = emit.load(emit.offset(context, source.device.offset), emit.i32)
    emit.store(device, emit.offset(record, where.device.offset))
    functions = emit.load(emit.offset(context, source.functions.offset), emit.pointer)
    handle = emit.load(emit.offset(functions, 8 * index), emit.i64)
    emit.store(handle, emit.offset(record, where.function.offset))
    for base, values in (
        (where.grid.offset, launch.grid),
        (where.block.offset, launch.block),
        (where.cluster.offset, launch.cluster),
    ):
        for axis in range(3):
            one = emit.constant(1, emit.i32)
            value = _i32(emit, values[axis]) if axis < len(values) else one
            emit.store(value, emit.offset(record, base + 4 * axis))
    shared = launch.shared_bytes
    shared = emit.constant(0, emit.i32) if shared is None else _i32(emit, shared)
    emit.store(shared, emit.offset(record, where.dynamic_lds.offset))
    stream = launch.stream
    stream = emit.constant(0, emit.i64) if stream is None else stream
    emit.store(stream, emit.offset(record, where.stream.offset))


def _tensor_groups(launch: _Launch) -> list[tuple[int, ft.MemRefType, list[Any]]]:
    """Return (index among tensors, type, leaves) of every tensor whose reach can be computed.

    Tensors with a composed layout count but have no known reach.
    """
    groups: list[tuple[int, ft.MemRefType, list[Any]]] = []
    values = iter(launch.arguments)
    count = 0
    for type_ in launch.types:
        kind = ft.of(type_)
        if kind is None or isinstance(kind, ft.PtrType):
            next(values)
            continue
        is_tensor = isinstance(kind, ft.MemRefType)
        leaves = [next(values) for _ in range(len(leaf_widths(kind)) + is_tensor)]
        if isinstance(kind, ft.MemRefType):
            if isinstance(kind.layout, fl.Layout) and kind.space in ("global", "generic"):
                groups.append((count, kind, leaves))
            count += 1
    return groups


def _fill_extents(
    emit: Emitter,
    tensors: list[tuple[int, ft.MemRefType, list[Any]]],
    context: ir.Value,
    extents: ir.Value,
) -> ir.Value:
    """Fill the extents if the runtime wants them; return their number, an i64."""
    from flydsl.mlir import ir

    if not tensors:
        return emit.constant(0, emit.i64)
    flags = emit.load(emit.offset(context, FlyHostContext.flags.offset), emit.i64)
    bit = emit.create("arith.andi", emit.i64, flags, emit.constant(WANTS_EXTENTS, emit.i64))
    wanted = emit.compare(1, bit, emit.constant(0, emit.i64))
    branch = ir.Operation.create("scf.if", operands=[wanted], regions=2)
    with ir.InsertionPoint(branch.regions[0].blocks.append()):
        inner = Emitter()
        for position, (number, kind, leaves) in enumerate(tensors):
            record = inner.offset(extents, position * _EXTENT_BYTES)
            low, high = _reach(inner, kind, leaves[1:])
            where = FlyExtent
            for offset, value in (
                (where.argument.offset, inner.constant(number, inner.i32)),
                (where.flags.offset, inner.constant(EXTENT_WRITABLE, inner.i32)),
                (where.base.offset, inner.address(leaves[0])),
                (where.low.offset, low),
                (where.high.offset, high),
            ):
                inner.store(value, inner.offset(record, offset))
        ir.Operation.create("scf.yield")
    none = emit.constant(0, emit.i64)
    some = emit.constant(len(tensors), emit.i64)
    return emit.create("arith.select", emit.i64, wanted, some, none)


def _reach(emit: Emitter, kind: ft.MemRefType, leaves: list[Any]) -> tuple[Any, Any]:
    """Return the lowest byte that a tensor reaches and the one after the highest, from its base."""
    assert isinstance(kind.layout, fl.Layout)
    # The values come with the 32-bit leaves first; each width keeps the order of the layout's text.
    pools = {
        text: iter([value for value in leaves if str(value.type) == text])
        for text in ("i32", "i64")
    }

    def number(leaf: Any) -> Any:
        if isinstance(leaf, int):
            return emit.constant(leaf, emit.i64)
        return emit.wide(next(pools[f"i{leaf.width}"]))

    extents = [number(leaf) for leaf in _flat(kind.layout.shape)]
    strides = [number(leaf) for leaf in _flat(kind.layout.stride)]
    zero, one = emit.constant(0, emit.i64), emit.constant(1, emit.i64)
    low, high, empty = zero, one, None
    for extent, stride in zip(extents, strides, strict=True):
        last = emit.create("arith.subi", emit.i64, extent, one)
        step = emit.create("arith.muli", emit.i64, last, stride)
        down = emit.create("arith.minsi", emit.i64, step, zero)
        up = emit.create("arith.maxsi", emit.i64, step, zero)
        low = emit.create("arith.addi", emit.i64, low, down)
        high = emit.create("arith.addi", emit.i64, high, up)
        nothing = emit.compare(3, extent, zero)
        empty = nothing if empty is None else emit.create("arith.ori", emit.i1, empty, nothing)
    bits = emit.constant(storage_bits(kind.element), emit.i64)
    eight = emit.constant(8, emit.i64)
    out = []
    for value, rounding in ((low, "arith.floordivsi"), (high, "arith.ceildivsi")):
        scaled = emit.create("arith.muli", emit.i64, value, bits)
        byte = emit.create(rounding, emit.i64, scaled, eight)
        if empty is not None:
            byte = emit.create("arith.select", emit.i64, empty, zero, byte)
        out.append(byte)
    return out[0], out[1]


def _flat(tree: Any) -> list[Any]:
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in _flat(part)]
    return [tree]
