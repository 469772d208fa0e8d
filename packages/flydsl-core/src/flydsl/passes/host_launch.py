"""One launch of a host stub as LLVM IR text: kernel arguments, extents, the call of the runtime.

The code of a launch is straight-line and long, and nothing in MLIR has to understand it. So the
host pass only emits a call of a *thunk*, and the thunk is written here as text, which costs a tenth
of building, converting and translating the same operations.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flydsl import layout as fl
from flydsl.codegen.ir_text import IrText
from flydsl.dialects import fly_types as ft
from flydsl.dialects.building import decode
from flydsl.dialects.elements import storage_bits
from flydsl.dialects.leaves import leaf_widths
from flydsl.errors import CompilerBug
from flydsl.passes.mark_stores import STORES
from flydsl.plugins.payloads import KernelInfo
from flydsl.runtime.abi import (
    ABI_VERSION,
    EXTENT_WRITABLE,
    REFUSED,
    WANTS_EXTENTS,
    FlyExtent,
    FlyHostContext,
    FlyLaunch,
)

if TYPE_CHECKING:
    from flydsl.mlir import ir

__all__ = ["Launch", "byte_size", "llvm_type", "thunk"]

_LLVM_TYPES = {"!llvm.ptr": "ptr", "f16": "half", "bf16": "bfloat", "f32": "float", "f64": "double"}


def byte_size(type_: ir.Type | str) -> int:
    """Return the bytes of a scalar or pointer as it is passed at the host ABI.

    Raises:
        CompilerBug: The type has no representation there.
    """
    text = str(type_)
    if text == "!llvm.ptr":
        return 8
    bits = storage_bits(text)
    if bits not in (8, 16, 32, 64):
        raise CompilerBug(f"a value of type {text} at the host ABI", code="FLY-B341")
    return bits // 8


def llvm_type(type_: ir.Type) -> str:
    """Return the LLVM IR text of a type as the conversion to the LLVM dialect makes it."""
    text = str(type_)
    if text in _LLVM_TYPES:
        return _LLVM_TYPES[text]
    return text if text.startswith("i") and text != "index" else f"i{storage_bits(text)}"


@dataclass(frozen=True, slots=True)
class Launch:
    """The operands of one ``gpu.launch_func``.

    Attributes:
        kernel: Symbol of the kernel.
        grid, block, cluster: Values along x, y, z; `cluster` may be empty.
        shared_bytes: Dynamic shared memory, or None.
        arguments: Leaves of the kernel's arguments.
        types: Types of the arguments before they were taken apart.
        stream: Stream handle (i64), or None.
        stores: Numbers of the leaves that are pointers which the kernel may store through.
    """

    kernel: str
    grid: list[Any]
    block: list[Any]
    cluster: list[Any]
    shared_bytes: Any
    arguments: list[Any]
    types: list[Any]
    stream: Any
    stores: frozenset[int]

    @classmethod
    def of(cls, op: Any) -> Launch:
        """Read a launch operation after ``fly-rewrite-func-signature``."""
        from flydsl.mlir import ir

        sizes = list(ir.DenseI32ArrayAttr(op.attributes["operandSegmentSizes"]))
        operands = iter(list(op.operands))
        parts = [[next(operands) for _ in range(size)] for size in sizes]
        # Async tokens, grid x y z, block x y z, cluster x y z, dynamic shared memory, kernel
        # operands, async object.
        grid, block, cluster = (
            [part[0] for part in parts[first : first + 3] if part] for first in (1, 4, 7)
        )
        attributes = ir.ArrayAttr(op.attributes["fly.arg_types"])
        return cls(
            kernel=str(op.attributes["kernel"]).rpartition("@")[2].strip('"'),
            grid=grid,
            block=block,
            cluster=cluster,
            shared_bytes=parts[10][0] if parts[10] else None,
            arguments=parts[11],
            types=[ir.TypeAttr(attribute).value for attribute in attributes],
            stream=parts[12][0] if parts[12] else None,
            stores=frozenset(
                decode(op.attributes[STORES]) if STORES in op.attributes else range(len(parts[11]))
            ),
        )


def thunk(name: str, launch: Launch, index: int, info: KernelInfo) -> str:
    """Return the LLVM IR of a function that makes one launch.

    Its parameters: the `FlyHostContext`, the address of the stub's status (i32; non-zero suppresses
    the launch, and receives the runtime's result), grid x y z, block x y z, cluster x y z and
    dynamic shared bytes (i64), the stream (i64), then the kernel's arguments. A count that does not
    fit `FlyLaunch` makes the status `flydsl.runtime.abi.REFUSED` or less.

    Args:
        name: Symbol of the function.
        launch: The launch.
        index: Position of the kernel in `FlyHostContext.functions`.
        info: The kernel's metadata, which says where arguments go.

    Raises:
        CompilerBug: The kernel's parameters differ from the launch's.
    """
    tensors = _tensor_groups(launch)
    types = [llvm_type(value.type) for value in launch.arguments]
    geometry = [f"%{part}{axis}" for part in ("g", "b", "c") for axis in range(3)]
    parameters = ["ptr %context", "ptr %status"]
    parameters += [f"i64 {value}.wide" for value in (*geometry, "%lds")]
    parameters += ["i64 %stream"]
    parameters += [f"{type_} %a{i}" for i, type_ in enumerate(types)]
    size = max((arg.offset + arg.size for arg in info.args if not arg.hidden), default=0)
    extent_bytes = len(tensors) * ctypes.sizeof(FlyExtent)
    out = IrText()
    before = out.value("load i32, ptr %status")
    first = out.value(f"icmp eq i32 {before}, 0")
    out.lines += [f"  br i1 {first}, label %check, label %done", "check:"]
    _check_geometry(out, [*geometry, "%lds"])
    wanted = "true"
    for extent in geometry[:3]:
        some = out.value(f"icmp ne i32 {extent}, 0")
        wanted = out.value(f"and i1 {wanted}, {some}")
    out.lines += [f"  br i1 {wanted}, label %launch, label %done", "launch:"]
    _pack_arguments(out, launch, types, info)
    _fill_record(out, geometry, index, size)
    _fill_extents(out, tensors, launch.stores)
    function = out.load("ptr", "%context", FlyHostContext.launch.offset)
    result = out.value(f"call i32 {function}(ptr %record)")
    out.store("i32", result, "%status", 0)
    return "\n".join(
        [
            f"define internal void @{name}({', '.join(parameters)}) nounwind {{",
            f"  %record = alloca [{ctypes.sizeof(FlyLaunch)} x i8], align 8",
            f"  %kernarg = alloca [{max(size, 8)} x i8], align {max(info.kernarg_align, 8)}",
            f"  %extents = alloca [{max(extent_bytes, 8)} x i8], align 8",
            *out.lines,
            "  br label %done",
            "done:",
            "  ret void",
            "}\n",
        ]
    )


def _check_geometry(out: IrText, counts: list[str]) -> None:
    """Refuse what does not fit the record; otherwise define the counts as i32, and continue."""
    # Shared memory comes last, in signed bytes.
    limits = [2**32 - 1] * (len(counts) - 1) + [2**31 - 1]
    bad, status, value = "false", "0", "0"
    for i, (count, limit) in reversed(list(enumerate(zip(counts, limits, strict=True)))):
        wrong = out.value(f"icmp ugt i64 {count}.wide, {limit}")
        bad = out.value(f"or i1 {bad}, {wrong}")
        status = out.value(f"select i1 {wrong}, i32 {REFUSED - i}, i32 {status}")
        value = out.value(f"select i1 {wrong}, i64 {count}.wide, i64 {value}")
    out.lines += [f"  br i1 {bad}, label %refuse, label %fits", "refuse:"]
    out.store("i64", value, "%context", FlyHostContext.refused.offset)
    out.store("i32", status, "%status", 0)
    out.lines += ["  br label %done", "fits:"]
    out.lines += [f"  {count} = trunc i64 {count}.wide to i32" for count in counts]


def _pack_arguments(out: IrText, launch: Launch, types: list[str], info: KernelInfo) -> None:
    places = [arg for arg in info.args if not arg.hidden]
    sizes = [byte_size(value.type) for value in launch.arguments]
    if sizes != [place.size for place in places]:
        raise CompilerBug(
            f"the parameters of {info.name} in its metadata differ from those of its launch",
            code="FLY-B342",
            value=[(place.offset, place.size) for place in places],
            allowed=f"sizes {sizes}",
        )
    for i, (type_, place) in enumerate(zip(types, places, strict=True)):
        if type_ == "i1":
            out.store("i8", out.value(f"zext i1 %a{i} to i8"), "%kernarg", place.offset)
        else:
            out.store(type_, f"%a{i}", "%kernarg", place.offset)


def _fill_record(out: IrText, geometry: list[str], index: int, kernarg_size: int) -> None:
    where, source = FlyLaunch, FlyHostContext
    functions = out.load("ptr", "%context", source.functions.offset)
    dims = [
        (base.offset + 4 * axis, geometry[3 * part + axis])
        for part, base in enumerate((where.grid, where.block, where.cluster))
        for axis in range(3)
    ]
    for type_, offset, value in (
        ("i32", where.abi_version.offset, ABI_VERSION),
        ("i32", where.device.offset, out.load("i32", "%context", source.device.offset)),
        ("i64", where.function.offset, out.load("i64", functions, 8 * index)),
        *(("i32", offset, value) for offset, value in dims),
        ("i32", where.dynamic_lds.offset, "%lds"),
        ("i64", where.stream.offset, "%stream"),
        ("ptr", where.kernarg.offset, "%kernarg"),
        ("i64", where.kernarg_size.offset, kernarg_size),
        ("ptr", where.extents.offset, "%extents"),
        ("i64", where.extent_count.offset, 0),
        ("i64", where.driver.offset, out.load("i64", "%context", source.driver.offset)),
    ):
        out.store(type_, value, "%record", offset)


_Tensor = tuple[int, ft.MemRefType, int, list[tuple[str, str]]]
"""Number among the tensors, type, index of the pointer's argument, (type, value) of the leaves."""


def _tensor_groups(launch: Launch) -> list[_Tensor]:
    """Return every tensor argument whose reach can be computed from its layout."""
    groups: list[_Tensor] = []
    at = number = 0
    for type_ in launch.types:
        kind = ft.of(type_)
        if kind is None or isinstance(kind, ft.PtrType):
            at += 1
            continue
        count = len(leaf_widths(kind))
        if isinstance(kind, ft.MemRefType):
            leaves = [
                (str(launch.arguments[i].type), f"%a{i}") for i in range(at + 1, at + 1 + count)
            ]
            if isinstance(kind.layout, fl.Layout) and kind.space in ("global", "generic"):
                groups.append((number, kind, at, leaves))
            number += 1
            at += 1
        at += count
    return groups


def _fill_extents(out: IrText, tensors: list[_Tensor], stores: frozenset[int]) -> None:
    """Fill the extents if the runtime wants them."""
    if not tensors:
        return
    flags = out.load("i64", "%context", FlyHostContext.flags.offset)
    bit = out.value(f"and i64 {flags}, {WANTS_EXTENTS}")
    wanted = out.value(f"icmp ne i64 {bit}, 0")
    out.lines += [f"  br i1 {wanted}, label %reach, label %call", "reach:"]
    where = FlyExtent
    for position, (number, kind, pointer, leaves) in enumerate(tensors):
        low, high = _reach(out, kind, leaves)
        base = position * ctypes.sizeof(FlyExtent)
        for type_, offset, value in (
            ("i32", where.argument.offset, str(number)),
            ("i32", where.flags.offset, str(EXTENT_WRITABLE if pointer in stores else 0)),
            ("ptr", where.base.offset, f"%a{pointer}"),
            ("i64", where.low.offset, low),
            ("i64", where.high.offset, high),
        ):
            out.store(type_, value, "%extents", base + offset)
    out.store("i64", len(tensors), "%record", FlyLaunch.extent_count.offset)
    out.lines += ["  br label %call", "call:"]


def _reach(out: IrText, kind: ft.MemRefType, leaves: list[tuple[str, str]]) -> tuple[str, str]:
    """Return the lowest byte that a tensor reaches and the one after the highest, from its base."""
    assert isinstance(kind.layout, fl.Layout)
    # The values come with the 32-bit leaves first; each width keeps the order of the layout's text.
    pools: dict[str, Iterator[str]] = {
        text: iter([value for type_, value in leaves if type_ == text]) for text in ("i32", "i64")
    }

    def number(leaf: Any) -> str:
        if isinstance(leaf, int):
            return str(leaf)
        value = next(pools[f"i{leaf.width}"])
        return value if leaf.width == 64 else out.value(f"sext i32 {value} to i64")

    extents = [number(leaf) for leaf in _flat(kind.layout.shape)]
    strides = [number(leaf) for leaf in _flat(kind.layout.stride)]
    low, high, empty = "0", "1", "false"
    for extent, stride in zip(extents, strides, strict=True):
        last = out.value(f"sub i64 {extent}, 1")
        step = out.value(f"mul i64 {last}, {stride}")
        down = out.value(f"icmp slt i64 {step}, 0")
        lower = out.value(f"select i1 {down}, i64 {step}, i64 0")
        upper = out.value(f"select i1 {down}, i64 0, i64 {step}")
        low = out.value(f"add i64 {low}, {lower}")
        high = out.value(f"add i64 {high}, {upper}")
        nothing = out.value(f"icmp sle i64 {extent}, 0")
        empty = out.value(f"or i1 {empty}, {nothing}")
    bits = storage_bits(kind.element)
    return tuple(  # type: ignore[return-value]
        out.value(f"select i1 {empty}, i64 0, i64 {byte}")
        for byte in (_bytes(out, low, bits, 0), _bytes(out, high, bits, 7))
    )


def _bytes(out: IrText, elements: str, bits: int, rounding: int) -> str:
    """Return elements in bytes, rounded down or (with `rounding` 7) up."""
    if bits % 8 == 0:
        return out.value(f"mul i64 {elements}, {bits // 8}")
    scaled = out.value(f"mul i64 {elements}, {bits}")
    return out.value(f"ashr i64 {out.value(f'add i64 {scaled}, {rounding}')}, 3")


def _flat(tree: Any) -> list[Any]:
    if isinstance(tree, tuple):
        return [leaf for part in tree for leaf in _flat(part)]
    return [tree]
